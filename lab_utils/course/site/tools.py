"""The pages of the tools: each alive in a page of the site, and as one file that can be kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from ...i18n import t
from ...widgets import rooms
from ...widgets.frame import Explorer
from ...widgets.frame.controls import say

ALONE = "alone"  # the folder of the self-contained pages


def write_tools(folder: Path, extra: Path, lessons: Path, lang: str) -> list[str]:
    """Write a page for every tool into `folder`, its self-contained page into `extra`. `lessons`:
    where the built lessons of this language lie. Returns the names."""
    (extra / ALONE).mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in rooms():
        tool = import_module(f"lab_utils.widgets.{name}").explorer(lang)
        (extra / ALONE / f"{name}.html").write_text(tool.html(), encoding="utf-8")
        (folder / f"{name}.part").write_text(tool.part(), encoding="utf-8")
        uses = list(_lessons_with(name, lessons))
        (folder / f"{name}.md").write_text(_page(name, tool, uses, lang), encoding="utf-8")
    return list(rooms())


def _lessons_with(name: str, lessons: Path) -> Iterator[tuple[str, str]]:
    """Name and title of every lesson that shows a tool."""
    for path in sorted(lessons.glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if any(re.search(rf"\b{name}\.explorer\(", "".join(cell["source"])) for cell in cells):
            title = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ")
            yield path.stem, title


def _page(name: str, tool: Explorer, uses: list[tuple[str, str]], lang: str) -> str:
    comma = t(", ", "、", lang)
    listed = comma.join(f"[{title}](../lessons/{stem}.ipynb)" for stem, title in uses)
    parts = [
        t(f"From the lesson {listed}.", f"出自课程：{listed}。", lang) if uses else "",
        t(
            "The address of this page holds the setting: copy it to show somebody exactly what you"
            " see.",
            "本页的网址会记下当前设置，复制给别人，对方看到的就是同样的设置。",
            lang,
        ),
        t(
            f'<a href="{ALONE}/{name}.html">The tool as one file</a> works without a network.',
            f'<a href="{ALONE}/{name}.html">单文件版</a>离线也能用。',
            lang,
        ),
    ]
    tasks = "".join(f"{i}. {say(step.task, lang)}\n" for i, step in enumerate(tool.steps, 1))
    challenge = f"## {t('The challenge', '挑战', lang)}\n\n{tasks}" if tasks else ""
    intro = t(" ", "", lang).join(filter(None, parts))
    return f"# {tool.title}\n\n{intro}\n\n```{{raw}} html\n:file: {name}.part\n```\n\n{challenge}"
