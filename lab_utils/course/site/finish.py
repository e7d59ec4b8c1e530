"""What is left to do when Sphinx has made the pages: words of the theme that nobody translated,
names that assistive technology needs, and the doors to the site."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

from ...i18n import LANGUAGES, t
from .pages import START

# What the theme writes → what stands there in English, in Chinese
CHANGES = {
    'role="heading">': ('role="heading" aria-level="2">',) * 2,
    '<aside class="sidebar-drawer">': (
        '<aside class="sidebar-drawer" aria-label="Site">',
        '<aside class="sidebar-drawer" aria-label="全站">',
    ),
    '<aside class="toc-drawer': (
        '<aside aria-label="This page" class="toc-drawer',
        '<aside aria-label="本页" class="toc-drawer',
    ),
    '<th class="head"><p></p></th>': ("<td></td>",) * 2,
    "Toggle site navigation sidebar": (None, "展开或收起全站目录"),
    "Toggle table of contents sidebar": (None, "展开或收起本页目录"),
    "Toggle Light / Dark / Auto color theme": (None, "切换浅色、深色或自动配色"),
    "On this page": (None, "本页内容"),
    "<title>Contents<": (None, "<title>目录<"),
    "<title>Menu<": (None, "<title>菜单<"),
    "<title>Expand<": (None, "<title>展开<"),
    "<title>Light mode<": (None, "<title>浅色<"),
    "<title>Dark mode<": (None, "<title>深色<"),
    "Auto light/dark, in light mode": (None, "自动配色，当前浅色"),
    "Auto light/dark, in dark mode": (None, "自动配色，当前深色"),
    "Skip to content": (None, "跳到正文"),
    "Back to top": (None, "回到顶部"),
    "<span>Next</span>": (None, "<span>下一页</span>"),
    "<span>Previous</span>": (None, "<span>上一页</span>"),
    "Home</div>": (None, "首页</div>"),
    "Made with ": (None, "由 "),
    '</a> and <a class="muted-link"': (None, '</a> 与 <a class="muted-link"'),
    "@pradyunsg</a>'s": (None, "@pradyunsg</a> 的"),
    ">Furo</a>": (None, ">Furo</a> 生成"),
}


class ThemeError(Exception):
    """A theme that no longer writes what is to be changed; the message says what."""


def mend(folder: Path, pages: list[str], lang: str) -> None:
    """Make CHANGES in every page. Raises ThemeError for one that no page asks for: the theme is
    another, and may say something else now."""
    found: set[str] = set()
    for page in pages:
        path = folder / f"{page}.html"
        html = path.read_text(encoding="utf-8")
        for written, words in CHANGES.items():
            if written in html:
                found.add(written)
                html = html.replace(written, words[lang == "zh"] or written)
        path.write_text(html, encoding="utf-8")
    if missing := [written for written in CHANGES if written not in found]:
        raise ThemeError(f"no page has {', '.join(map(repr, missing))} any more: see {__name__}")


def write_doors(out: Path, langs: list[str]) -> None:
    """The front door, which opens on the reader's language, and a door for each language."""
    for lang in langs:
        title = t("LLM Training Lab", "大模型训练实验室", lang)
        door = _door(lang, title, {title: f"{START}.html"}, f'"{START}.html"')
        (out / lang / "index.html").write_text(door, encoding="utf-8")
    places = {lang: f"{lang}/{START}.html" for lang in LANGUAGES if lang in langs}
    names = {t("English", "中文", lang): place for lang, place in places.items()}
    chosen = f'({json.dumps(places)})[/^zh/.test(navigator.language) ? "zh" : "en"]'
    title = "LLM Training Lab · 大模型训练实验室"
    door = _door("en", title, names, f'{chosen} ?? "{places[langs[0]]}"')
    (out / "index.html").write_text(door, encoding="utf-8")


_DOOR = """\
<!doctype html>
<html lang="LANG">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>TITLE</title>
<style>
html { color-scheme: light dark; font-family: system-ui, sans-serif }
body { margin: 4rem auto; max-width: 40rem; padding: 0 1rem }
</style>
<script>location.replace(WHERE)</script>
<main><h1>TITLE</h1>LINKS</main>
</html>
"""


def _door(lang: str, title: str, links: dict[str, str], where: str) -> str:
    """A page that leads on at once, or, where no script runs, by a link."""
    listed = [f'<p><a href="{place}">{escape(name)}</a></p>' for name, place in links.items()]
    words = {
        "LANG": t("en", "zh-CN", lang),
        "TITLE": escape(title),
        "WHERE": where,
        "LINKS": "".join(listed),
    }
    return re.sub("|".join(words), lambda word: words[word[0]], _DOOR)
