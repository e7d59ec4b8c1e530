"""Source as a piece of a page: highlighted in the colours of the reader's theme, broken only
between words."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

# JupyterLab's own names for the colours of code, with one that reads on light and dark elsewhere
COLOURS = {
    "Comment": "var(--jp-mirror-editor-comment-color, #6a8a8a)",
    "Literal.String": "var(--jp-mirror-editor-string-color, #c0554d)",
    "Literal.Number": "var(--jp-mirror-editor-number-color, #3d8b5f)",
    "Keyword": "var(--jp-mirror-editor-keyword-color, #3d8b3d)",
    "Operator.Word": "var(--jp-mirror-editor-keyword-color, #3d8b3d)",
    "Name.Function": "var(--jp-mirror-editor-def-color, #4a7fd4)",
    "Name.Class": "var(--jp-mirror-editor-def-color, #4a7fd4)",
    "Name.Decorator": "var(--jp-mirror-editor-meta-color, #9a6fd0)",
    "Name.Builtin.Pseudo": "",  # self
    "Name.Builtin": "var(--jp-mirror-editor-builtin-color, #3d8b3d)",
}
# 100 columns fit the output of a cell in JupyterLab at 1,280 px with the sidebar open (776 px)
PRE = (
    "font-size:12.5px;line-height:1.4;white-space:pre-wrap;word-break:normal;"
    "overflow-wrap:normal;overflow-x:auto;margin:0"
)


def page(heading: str, source: str) -> str:
    """HTML of Python source under a heading. Where the page is narrower than a line, the line goes
    on indented, and never breaks inside a word."""
    body = "".join(map(_line, _lines(source)))
    return f'<div><b>{escape(heading)}</b></div><pre style="{PRE}">{body}</pre>'


def _line(parts: list[tuple[str, str]]) -> str:
    """One line as a block of its own; (colour, text) parts."""
    text = "".join(text for _, text in parts)
    hang = len(text) - len(text.lstrip(" ")) + 4
    inner = "".join(
        f'<span style="color:{colour}">{escape(text)}</span>' if colour else escape(text)
        for colour, text in parts
    )
    style = f"display:block;padding-left:{hang}ch;text-indent:-{hang}ch"
    return f'<span style="{style}">{inner}\n</span>'


def _lines(source: str) -> Iterator[list[tuple[str, str]]]:
    from pygments.lexers.python import PythonLexer

    line: list[tuple[str, str]] = []
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(source):
        name = str(kind).removeprefix("Token.")
        colour = next((COLOURS[key] for key in COLOURS if name.startswith(key)), "")
        first, *rest = text.split("\n")
        line += [(colour, first)] if first else []
        for piece in rest:
            yield line
            line = [(colour, piece)] if piece else []
    yield line
