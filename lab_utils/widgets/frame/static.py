"""What a tool leaves in files: its stylesheet, a self-contained page, and an SVG of one state for
where nothing runs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple
from unicodedata import east_asian_width

from ...i18n import t
from .scene import COLOURS, FONTS, Item, Scene

HTML_LANG = {"en": "en", "zh": "zh-CN"}
_STYLE = Path(__file__).with_name("explorer.css")
_SCRIPTS = tuple(Path(__file__).with_name(name) for name in ("sums.js", "drag.js", "explorer.js"))
_ADDRESS = Path(__file__).with_name("address.js")  # only where the page is the tool's own
_PAGE_STYLE = (
    "html{color-scheme:light"
    " dark}body{margin:0;background:light-dark(#fff,#14181d)}main{max-width:60rem;margin:0"
    " auto;padding:1rem}"
)


def stylesheet() -> str:
    """explorer.css with the colours and fonts of scene.py."""
    colours = "".join(
        f"--{name}:light-dark({light},{dark});" for name, (light, dark) in COLOURS.items()
    )
    return (
        f".explorer{{{colours}font-family:{','.join(FONTS)}}}\n{_STYLE.read_text(encoding='utf-8')}"
    )


def page(title: str, lang: str, payload: str) -> str:
    """One HTML file with everything inside; `payload`: what Explorer hands to explorer.js."""
    return (
        f'<!doctype html>\n<html lang="{HTML_LANG[lang]}">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n"
        '<link rel="icon" href="data:,">\n'
        f"<style>{_PAGE_STYLE}</style>\n<main>{_live(payload, 'h1', _ADDRESS)}</main>\n</html>\n"
    )


def embedded(payload: str, picture: str, summary: str, heading: str, addressed: bool) -> str:
    """What a notebook keeps: a picture for where no script runs, and the script that puts the live
    tool in its place. The same at every run; however often it stands in a document, each finds its
    own place. `addressed`: the document is about this tool alone and may keep its setting in the
    address."""
    more = (_ADDRESS,) if addressed else ()
    image = base64.b64encode(picture.encode()).decode()
    return (
        f'<div><img src="data:image/svg+xml;base64,{image}" alt="{escape(summary)}"'
        f' style="max-width:100%;height:auto">{_live(payload, heading, *more)}</div>'
    )


def _live(payload: str, heading: str, *more: Path) -> str:
    """Styles and script; the tool takes the place of all that is in the script's parent."""
    code = "".join(path.read_text(encoding="utf-8") for path in (*_SCRIPTS, *more))
    return (
        f"<style>{stylesheet()}</style>\n<script>\n(() => {{\n{code}"
        f'render(document.currentScript.parentElement, "{heading}", "{payload}");\n'
        "})();\n</script>"
    )


class Picture(NamedTuple):
    """One panel as it goes into a static SVG: its size, what was chosen (label, option), its
    scene."""

    width: int
    height: int
    choices: Sequence[tuple[str, str]]
    scene: Scene


def svg(title: str, pictures: Sequence[Picture], lang: str) -> str:
    """Pictures below each other, each under what was chosen for it; the light theme is written out,
    the dark one is a stylesheet."""
    margin, line_height = 16, 18
    ink, soft, paper = (COLOURS[name][0] for name in ("ink", "soft", "paper"))
    y, parts = margin + 14, []
    parts.append(
        f'<text y="{y}" font-size="17" font-weight="600" fill="{ink}" class="f-ink">'
        f"{escape(title)}</text>"
    )
    for picture in pictures:
        y += 12
        for words in _wrapped(picture.choices, lang):
            y += line_height
            parts.append(
                f'<text y="{y}" font-size="12" fill="{soft}" class="f-soft">{escape(words)}</text>'
            )
        y += 12
        parts.append(
            f'<g transform="translate(0 {y})">{"".join(map(_element, picture.scene["items"]))}</g>'
        )
        y += picture.height
    width, height = max(p.width for p in pictures) + 2 * margin, y + margin
    summary = escape(" ".join(p.scene["alt"] for p in pictures))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-margin} 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" xml:lang="{HTML_LANG[lang]}"'
        f' font-family="{escape(",".join(FONTS))}"><title>{summary}</title>{_dark()}'
        f'<rect x="{-margin}" width="{width}" height="{height}" fill="{paper}" class="f-paper"/>'
        f"{''.join(parts)}</svg>"
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
    attributes = {
        k: v for k, v in item.items() if k not in ("tag", "key", "text", "title", "class")
    }
    classes = []
    for name in ("fill", "stroke"):
        colour = attributes.get(name)
        if colour in COLOURS:
            attributes[name] = COLOURS[colour][0]
            classes.append(f"{name[0]}-{colour}")
    if classes:
        attributes["class"] = " ".join(classes)
    written = "".join(f' {k}="{escape(str(v))}"' for k, v in attributes.items())
    inside = escape(item.get("text", "")) + (
        f"<title>{escape(item['title'])}</title>" if "title" in item else ""
    )
    return f"<{item['tag']}{written}>{inside}</{item['tag']}>"


def _dark() -> str:
    """The dark theme of a picture, for readers who see by it; without it the colours written out
    hold."""
    rules = "".join(
        f".f-{name}{{fill:{dark}}}.s-{name}{{stroke:{dark}}}" for name, (_, dark) in COLOURS.items()
    )
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
