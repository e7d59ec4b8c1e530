"""A card: a piece of a page that lives without a kernel. Its words stand in the page for where no
script runs; card.js makes it answer."""

from __future__ import annotations

import functools
import html
import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def show_card(kind: str, data: dict[str, Any], fallback: str, plain: str) -> None:
    """Display a card of a `kind` that card.js knows. `fallback` is HTML, `plain` the text of a
    terminal; both are the same at every run, so that nbval compares them strictly."""
    from IPython.display import display

    script, style = _files()
    packed = b64encode(json.dumps(data | {"style": style}, ensure_ascii=False).encode()).decode()
    page = (
        f'<div class="lab-card" data-kind="{kind}" data-lab="{packed}">{fallback}</div>\n'
        f"<script>\n{script}</script>"
    )
    display({"text/html": page, "text/plain": plain}, raw=True)


def as_html(text: str) -> str:
    """Plain text as HTML; what stands between backquotes is code, between two stars bold."""
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", code)


@functools.cache
def _files() -> tuple[str, str]:
    script, style = ((_HERE / name).read_text(encoding="utf-8") for name in ("card.js", "card.css"))
    return script, style
