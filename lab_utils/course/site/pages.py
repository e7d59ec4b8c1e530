"""Everything that Sphinx reads for one language, in one folder: lessons, labs, tools, and which
comes after which."""

from __future__ import annotations

import tomllib
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from ...i18n import t
from . import lessons, tools

START = "lessons/00_start"  # the page that a visitor sees first, with the map of the course
ROOMS = ("lessons", "labs")
PAGES, EXTRA = "pages", "extra"


def write_pages(root: Path, folder: Path, lang: str) -> list[str]:
    """Write the pages of one language into `folder`/PAGES, and what goes to the site as it is into
    `folder`/EXTRA. Returns the names of all pages. Raises FileNotFoundError where no notebook was
    built."""
    pages, extra = folder / PAGES, folder / EXTRA
    with (root / "pyproject.toml").open("rb") as file:
        repository = tomllib.load(file)["project"]["urls"]["Repository"]
    made: dict[str, list[str]] = {}
    for room in ROOMS:
        (pages / room).mkdir(parents=True)
        paths = sorted((root / room / lang).glob("[0-9][0-9]_*.ipynb"))
        if not paths:
            raise FileNotFoundError(root / room / lang)
        made[room] = [f"{room}/{path.stem}" for path in paths]
        for path in paths:
            page = lessons.page(path, repository)
            if f"{room}/{path.stem}" == START:
                start = page
            else:
                nbformat.write(page, pages / room / path.name)
    names = tools.write_tools(pages / "tools", extra / "tools", root / "lessons" / lang, lang)
    made["tools"] = [f"tools/{name}" for name in names]
    _add_contents(start, made, lang)
    nbformat.write(start, pages / f"{START}.ipynb")
    return [page for listed in made.values() for page in listed]


def _add_contents(start: NotebookNode, made: dict[str, list[str]], lang: str) -> None:
    """The order of the site: page 00 is its root, so it holds the contents."""
    captions = {
        "lessons": t("Lessons", "课程", lang),
        "tools": t("Interactive tools", "交互工具", lang),
        "labs": t("Labs", "实验", lang),
    }
    for room, caption in captions.items():
        listed = "\n".join(f"/{page}" for page in made[room] if page != START)
        self = "self\n" if room == "lessons" else ""
        text = f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{self}{listed}\n```"
        start.cells.append(new_markdown_cell(text, id=f"contents-{room}"))
