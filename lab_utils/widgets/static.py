"""What a tool leaves in files: its stylesheet, a self-contained page, and an SVG of one state for where nothing runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import east_asian_width

from ..i18n import t
from .scene import COLOURS, FONTS, Item, Scene

HTML_LANG = {"en": "en", "zh": "zh-CN"}
_STYLE = Path(__file__).with_name("explorer.css")
_PAGE_STYLE = "html{color-scheme:light dark}body{margin:0;background:light-dark(#fff,#14181d)}main{max-width:60rem;margin:0 auto;padding:1rem}"

# The page has no kernel: this model keeps the state, tells the script when it changes, and answers nothing else.
_PAGE_SCRIPT = """
const values = %s, listeners = { "change:state": [], "msg:custom": [] };
const set = (name, value) => { values[name] = value; for (const listener of listeners[`change:${name}`]) listener(); };
render({ model: { get: name => values[name], set, on: (event, listener) => listeners[event].push(listener), save_changes() {} },
         el: document.querySelector("main") });
"""


def stylesheet() -> str:
    """explorer.css with the colours and fonts of scene.py."""
    colours = "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in COLOURS.items())
    return f".explorer{{{colours}font-family:{','.join(FONTS)}}}\n{_STYLE.read_text(encoding='utf-8')}"


def page(spec: Mapping[str, Any], table: str, state: Mapping[str, int], script: str) -> str:
    """One HTML file with everything inside."""
    values = json.dumps({"spec": {**spec, "heading": "h1"}, "table": table, "state": state}, ensure_ascii=False).replace("</", "<\\/")
    return (
        f'<!doctype html>\n<html lang="{spec["lang"]}">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f'<title>{escape(spec["title"])}</title>\n<link rel="icon" href="data:,">\n<style>{_PAGE_STYLE}\n{stylesheet()}</style>\n<main></main>\n'
        f'<script type="module">\n{script}{_PAGE_SCRIPT % values}</script>\n</html>\n'
    )


class Picture(NamedTuple):
    """One panel as it goes into a static SVG: its size, what was chosen (label, option), its scene."""

    width: int
    height: int
    choices: Sequence[tuple[str, str]]
    scene: Scene


def svg(title: str, pictures: Sequence[Picture], lang: str) -> str:
    """Pictures below each other, each under what was chosen for it; the light theme, with colours written out."""
    margin, line_height = 16, 18
    ink, soft, paper = (COLOURS[name][0] for name in ("ink", "soft", "paper"))
    y, parts = margin + 14, []
    parts.append(f'<text y="{y}" font-size="17" font-weight="600" fill="{ink}">{escape(title)}</text>')
    for picture in pictures:
        y += 12
        for words in _wrapped(picture.choices, lang):
            y += line_height
            parts.append(f'<text y="{y}" font-size="12" fill="{soft}">{escape(words)}</text>')
        y += 12
        parts.append(f'<g transform="translate(0 {y})">{"".join(map(_element, picture.scene["items"]))}</g>')
        y += picture.height
    width, height = max(p.width for p in pictures) + 2 * margin, y + margin
    summary = escape(" ".join(p.scene["alt"] for p in pictures))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-margin} 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'xml:lang="{HTML_LANG[lang]}" font-family="{escape(",".join(FONTS))}"><title>{summary}</title>'
        f'<rect x="{-margin}" width="{width}" height="{height}" fill="{paper}"/>{"".join(parts)}</svg>'
    )


def _wrapped(choices: Sequence[tuple[str, str]], lang: str, columns: int = 108) -> list[str]:
    """The choices in words, as many to a line as fit; a Han character takes two columns."""
    lines: list[str] = []
    for label, option in choices:
        words = f"{label}{t(': ', '：', lang)}{option}"
        joined = f"{lines[-1]} · {words}" if lines else words
        fits = sum(2 if east_asian_width(c) in "WF" else 1 for c in joined) <= columns
        lines = [*lines[:-1], joined] if fits or not lines else [*lines, words]
    return lines


def _element(item: Item) -> str:
    attributes = {k: v for k, v in item.items() if k not in ("tag", "key", "text", "title")}
    for name in ("fill", "stroke"):
        if name in attributes:
            attributes[name] = COLOURS.get(attributes[name], (attributes[name],))[0]
    written = "".join(f' {k}="{escape(str(v))}"' for k, v in attributes.items())
    inside = escape(item.get("text", "")) + (f"<title>{escape(item['title'])}</title>" if "title" in item else "")
    return f"<{item['tag']}{written}>{inside}</{item['tag']}>"
