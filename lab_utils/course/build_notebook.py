"""From a bilingual source to the unexecuted notebook of one language."""

from __future__ import annotations

from collections.abc import Iterable

import nbformat
from nbformat import NotebookNode

from .. import __version__
from ..i18n import t
from .build_source import Source, code_for, is_question, one_language, prose_for, questions_of
from .build_words import tidy, without_import
from .questions import Question

SETUP = """\
# en: Sets the language. On Colab it installs the course's package first;
# en: elsewhere `make lab` has done so.
# zh: 设置语言。在 Colab 上会先安装课程的软件包；在其他环境里，`make lab` 已经装好。
import importlib.util
import subprocess
import sys

if "google.colab" in sys.modules and importlib.util.find_spec("lab_utils") is None:
    pip = [sys.executable, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "git+RELEASE"], check=True)
    importlib.invalidate_caches()
from lab_utils.course import begin, todo

begin("LANGUAGE", "VERSION")
"""


def notebook(
    source: Source, lang: str, lab: bool, repository: str, known: Iterable[Source]
) -> NotebookNode:
    """The unexecuted notebook of one language: title, set-up, then the source's cells. Raises
    SourceError."""
    cells = []
    for cell in source.cells:
        tags = cell.metadata.get("tags", [])
        if lab and "solution-only" in tags:
            continue
        if is_question(cell):
            code = _asking(questions_of(source, cell))
            made = nbformat.v4.new_code_cell(code, id=cell.id)
        elif cell.cell_type == "code":
            made = nbformat.v4.new_code_cell(code_for(source, cell, lang, lab), id=cell.id)
        else:
            listed = cell.source.strip() == "<!-- objectives -->"
            text = _objectives(source, lang) if listed else prose_for(source, cell, lang)
            made = nbformat.v4.new_markdown_cell(text, id=cell.id)
        made.metadata.update(cell.metadata)
        if is_question(cell):
            made.metadata["tags"] = [*(tag for tag in tags if tag != "question"), "hide-input"]
        if "hide-input" in made.metadata.get("tags", []):
            made.metadata["jupyter"] = {"source_hidden": True}
        cells.append(made)
    code_cells = [cell for cell in cells if cell.cell_type == "code"]
    texts = tidy(without_import(cell.source for cell in code_cells))
    for cell, text in zip(code_cells, texts, strict=True):
        cell.source = text
    code = SETUP.replace("RELEASE", release(repository)).replace("LANGUAGE", lang)
    code = one_language(code.replace("VERSION", __version__), lang).strip()
    if source.room == "lessons":
        code = code.replace("begin, todo", "begin")
    setup = nbformat.v4.new_code_cell(
        code,
        id="setup",
        metadata={"tags": ["setup", "hide-input"], "jupyter": {"source_hidden": True}},
    )
    title = nbformat.v4.new_markdown_cell(_title(source, lang, lab, known), id="title")
    return nbformat.v4.new_notebook(
        cells=[title, setup, *cells],
        metadata={
            "kernelspec": {
                "name": "python3",
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
            },
            "language_info": {"name": "python"},
            "lab": {"lang": lang, "source": f"{source.room}/source/{source.path.name}"},
        },
    )


def release(repository: str, version: str = __version__) -> str:
    """Where pip finds the package that a notebook was made with: the tag of its version, or the
    newest commit as long as a version is being worked on (0.2.0.dev0)."""
    return repository if ".dev" in version else f"{repository}@v{version}"


def _asking(questions: list[Question]) -> str:
    """The code that a page has in the place of its questions."""
    names = ", ".join(f'"{q.id}"' for q in questions)
    call = f"ask({names})"
    if len(call) > 88:
        call = "ask(\n" + "".join(f'    "{q.id}",\n' for q in questions) + ")"
    known = "ask" if all(q.is_quiz for q in questions) else "ask, reveal"
    return f"from lab_utils import {known}\n\n{call}"


def _link(need: str, room: str, lang: str, known: Iterable[Source]) -> str:
    """The number of a lesson, as a link from a notebook of `room` if the lesson exists."""
    name = next(
        (
            s.name
            for s in known
            if s.room == "lessons" and s.name.split("_")[0] == need.split("_")[0]
        ),
        None,
    )
    folder = "" if room == "lessons" else f"../../lessons/{lang}/"
    return f"[{need}]({folder}{name}.ipynb)" if name else need


def _title(source: Source, lang: str, lab: bool, known: Iterable[Source]) -> str:
    number, front = source.name.split("_")[0], source.front
    kind = (
        ""
        if source.room == "lessons"
        else t("Lab", "实验", lang)
        if lab
        else t("Solution", "参考答案", lang)
    )
    facts = (
        [t(f"about {front.minutes} minutes", f"约 {front.minutes} 分钟", lang)]
        if front.minutes
        else []
    )
    if front.needs:
        facts.append(
            t("needs ", "需要先学：", lang)
            + t(", ", "、", lang).join(
                _link(need, source.room, lang, known) for need in front.needs
            )
        )
    facts.append(f"[{t('中文', 'English', lang)}](../{t('zh', 'en', lang)}/{source.name}.ipynb)")
    return (
        f"# {' '.join(filter(None, (kind, number)))} · {front.title[lang]}\n\n{' · '.join(facts)}"
    )


def _objectives(source: Source, lang: str) -> str:
    listed = "\n".join(
        f"- {objective[lang]}" for objective in (source.front.objectives or {}).values()
    )
    return t("**When you are done, you can**", "**学完之后，你能够**", lang) + f"\n\n{listed}"
