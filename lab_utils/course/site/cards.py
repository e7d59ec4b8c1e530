"""Saved outputs of a notebook as a page of the site shows them: links lead to pages, figures are
pictures with words, a question speaks to somebody who cannot run the next cell."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from html import escape
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from ...i18n import t

NOTEBOOK = re.compile(r"(?:\.\./\.\./(?P<room>lessons|labs)/(?:en|zh)/)?(?P<name>\d\d_\w+)\.ipynb")
_HREF = re.compile(rf'href="{NOTEBOOK.pattern}"')
_CARD = re.compile(r'data-lab="([\w+/=]+)"')
PLOTLY = "application/vnd.plotly.v1+json"


def for_reading(output: NotebookNode, lang: str) -> NotebookNode:
    """One output of a cell, as the site shows it."""
    data = output.get("data", {})
    if "image/png" in data:
        shown = _picture(data, output.metadata.get("image/png", {}), lang)
    elif "text/html" in data:
        shown = _CARD.sub(lambda card: _card(card[1], lang), _to_pages(data["text/html"]))
    else:
        return output
    return new_output("display_data", data={"text/html": shown})


def page_of(link: re.Match[str], ending: str) -> str:
    """Where a link to a notebook leads on the site, from a page of a lesson or a lab."""
    room = f"../{link['room']}/" if link["room"] else ""
    return f"{room}{link['name']}{ending}"


def _to_pages(html: str) -> str:
    return _HREF.sub(lambda link: f'href="{page_of(link, ".html")}"', html)


def _card(packed: str, lang: str) -> str:
    data = json.loads(b64decode(packed))
    if "noted" in data.get("words", {}):
        data["words"]["noted"] = t(
            "Noted. The result stands below.", "记下了，结果就在下面。", lang
        )
    data = _every_text(data)
    return f'data-lab="{b64encode(json.dumps(data, ensure_ascii=False).encode()).decode()}"'


def _every_text(value: Any) -> Any:
    """`value` with the links in all its texts led to pages."""
    if isinstance(value, str):
        return _to_pages(value)
    if isinstance(value, dict):
        return {key: _every_text(entry) for key, entry in value.items()}
    return [*map(_every_text, value)] if isinstance(value, list) else value


def _picture(data: dict[str, Any], size: dict[str, int], lang: str) -> str:
    """A saved figure as an image; what it is about is read from the figure itself."""
    about = _about(data.get(PLOTLY, {}), lang)
    across = "".join(f' {side}="{size[side]}"' for side in ("width", "height") if side in size)
    image = data["image/png"].replace("\n", "")
    return f'<img class="figure" alt="{escape(about)}" src="data:image/png;base64,{image}"{across}>'


def _about(figure: dict[str, Any], lang: str) -> str:
    """A plotly figure in words: its title, its axes, what is drawn."""
    layout = figure.get("layout", {})
    titles = [
        layout[part].get("title", {}).get("text", "")
        for part in sorted(layout)
        if re.fullmatch(r"[xy]axis\d*", part)
    ]
    names = [trace.get("name", "") for trace in figure.get("data", [])]
    listed = [layout.get("title", {}).get("text", ""), *titles, *names]
    words = [re.sub(r"<[^>]+>", " ", words).strip() for words in dict.fromkeys(listed) if words]
    return t("Figure: ", "图：", lang) + t(", ", "，", lang).join(words)
