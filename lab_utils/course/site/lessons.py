"""A lesson or a lab as Sphinx reads it: the built notebook without what only a kernel needs, and
with a few words on how to run it."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from ...i18n import t
from .cards import NOTEBOOK, for_reading, page_of

_OTHER_LANGUAGE = re.compile(r" · \[(?:中文|English)\]\(\.\./(?:en|zh)/\w+\.ipynb\)$")
_LINK = re.compile(rf"\]\({NOTEBOOK.pattern}\)")
_SECTION, _DEEPER = re.compile(r"^## ", re.M), re.compile(r"^##(?=#+ )", re.M)
# a cell that asks, and nothing else: the question is there, the call need not be
_ASKS = re.compile(r"from lab_utils import [\w, ]+\n+ask\([^)]*\)")


def page(path: Path, repository: str) -> NotebookNode:
    """The page of a built notebook, `lessons/en/05_….ipynb` or of a lab; `repository` is its
    address on GitHub."""
    notebook = nbformat.read(path, as_version=4)
    lang, room = notebook.metadata.lab.lang, path.parts[-3]
    cells = [_for_reading(cell, lang) for cell in notebook.cells if cell.id != "setup"]
    _close_up(cells)
    cells.insert(1, new_markdown_cell(_how(path, room, lang, repository), id="how-to-run"))
    notebook.cells = cells
    return notebook


def _for_reading(cell: NotebookNode, lang: str) -> NotebookNode:
    if cell.cell_type == "markdown":
        text = _OTHER_LANGUAGE.sub("", cell.source) if cell.id == "title" else cell.source
        cell.source = _LINK.sub(lambda link: f"]({page_of(link, '.ipynb')})", text)
        return cell
    cell.outputs = [for_reading(output, lang) for output in cell.outputs]
    if _ASKS.fullmatch(cell.source.strip()):
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "remove-input"]
    return cell


def _close_up(cells: list[NotebookNode]) -> None:
    """Where a page's sections begin at the third level, below no second, all go up by one."""
    prose = [cell for cell in cells if cell.cell_type == "markdown"]
    if not any(_SECTION.search(cell.source) for cell in prose):
        for cell in prose:
            cell.source = _DEEPER.sub("#", cell.source)


def _how(path: Path, room: str, lang: str, repository: str) -> str:
    name = repository.removeprefix("https://github.com/")
    place = "/".join(path.parts[-3:])
    colab = f"https://colab.research.google.com/github/{name}/blob/HEAD/{place}"
    binder = f"https://mybinder.org/v2/gh/{name}/HEAD?urlpath=lab/tree/{place}"
    ways = t(
        f"[in Colab]({colab}), [in Binder]({binder}), or on your own machine with"
        f" [`make lab`]({repository})",
        f"[Colab]({colab})、[Binder]({binder})，或在自己的机器上执行 [`make lab`]({repository})",
        lang,
    )
    if room == "labs":
        return _note(
            t("A lab to read", "实验（阅读版）", lang),
            t(
                "The exercises are solved in a notebook, which checks them on several processes:"
                f" open it {ways}.",
                f"练习要在 notebook 里完成，自动检查会启动多个进程。打开方式：{ways}。",
                lang,
            ),
        )
    return _note(
        t("A lesson to read", "课程（阅读版）", lang),
        t(
            "Below the code stands what it printed when it was run for real. Questions,"
            " predictions and tools answer in this page; your answers stay in this browser. To"
            f" run it yourself: {ways}.",
            "代码下方是它真实运行时的输出。题目、预测和交互工具在本页就能用，"
            f"你的答案只保存在这个浏览器里。想亲自运行：{ways}。",
            lang,
        ),
    )


def _note(title: str, text: str) -> str:
    return f"```{{admonition}} {title}\n:class: how\n{text}\n```"
