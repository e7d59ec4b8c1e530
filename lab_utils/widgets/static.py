"""What a tool leaves in files: its stylesheet, a self-contained page, and an SVG of one state for where nothing runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .scene import COLOURS, FONTS, Item, Scene

_STYLE = Path(__file__).with_name("explorer.css")
_PAGE_STYLE = "html{color-scheme:light dark}body{margin:0;background:light-dark(#fff,#14181d)}main{max-width:60rem;margin:0 auto;padding:1rem}"

# The page has no kernel: this model keeps the values that the script sets, and answers nothing.
_PAGE_SCRIPT = """
const values = %s;
render({ model: { get: name => values[name], set: (name, value) => { values[name] = value; }, save_changes() {}, on() {}, off() {}, send() {} },
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


def svg(title: str, chosen: Sequence[tuple[str, str]], panels: Sequence[tuple[int, int, Scene]], lang: str) -> str:
    """The panels of one state below each other, in the light theme, colours written out; `chosen` are (label, option)."""
    width, top, parts = max(w for w, _, _ in panels), 62, []
    for _, height, scene in panels:
        parts.append(f'<g transform="translate(0 {top})">{"".join(map(_element, scene["items"]))}</g>')
        top += height + 12
    ink, soft, paper = (COLOURS[name][0] for name in ("ink", "soft", "paper"))
    choice = " · ".join(f"{label}: {option}" for label, option in chosen)
    summary = escape(" ".join(scene["alt"] for _, _, scene in panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" role="img" xml:lang="{lang}" '
        f'font-family="{escape(",".join(FONTS))}"><title>{summary}</title><rect width="{width}" height="{top}" fill="{paper}"/>'
        f'<text x="12" y="24" font-size="17" font-weight="600" fill="{ink}">{escape(title)}</text>'
        f'<text x="12" y="46" font-size="12" fill="{soft}">{escape(choice)}</text>{"".join(parts)}</svg>'
    )


def _element(item: Item) -> str:
    attributes = {k: v for k, v in item.items() if k not in ("tag", "key", "text", "title")}
    for name in ("fill", "stroke"):
        if name in attributes:
            attributes[name] = COLOURS.get(attributes[name], (attributes[name],))[0]
    written = "".join(f' {k}="{escape(str(v))}"' for k, v in attributes.items())
    inside = escape(item.get("text", "")) + (f"<title>{escape(item['title'])}</title>" if "title" in item else "")
    return f"<{item['tag']}{written}>{inside}</{item['tag']}>"
