"""Outputs that are the same every time and everywhere, and that are seen where nothing runs."""

from __future__ import annotations

import atexit
import functools
import os
import re
import sys
import sysconfig
from base64 import b64encode
from pathlib import Path
from types import ModuleType
from typing import Any

from nbformat import NotebookNode

PACKAGE = Path(__file__).resolve().parents[1]
WIDTH_PX, HEIGHT_PX = 760, 420
WIDGET, PLOTLY = "application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json"
UNSTABLE = (
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "0xADDRESS"),
    (re.compile(r"(?<!\S)\S*ipykernel_\d+/\d+\.py"), "<cell>"),
)


class PictureError(Exception):
    """A figure that could not be saved as a picture; the message says what is missing."""


def clean(output: NotebookNode) -> NotebookNode:
    """One output without what changes between runs: addresses, paths of this machine, ids of live
    widgets.

    A widget keeps its static picture or text, and a plotly figure gets a PNG, so that GitHub shows
    both.
    """
    data = output.get("data")
    if data is not None:
        data.pop(WIDGET, None)
        if PLOTLY in data:
            data.pop("text/html", None)
            height = data[PLOTLY].get("layout", {}).get("height", HEIGHT_PX)
            data["image/png"] = picture(data[PLOTLY], height)
            output.metadata["image/png"] = {"width": WIDTH_PX, "height": height}
        for mime in data:
            if mime.startswith("text/") or mime == "image/svg+xml":
                data[mime] = stable(data[mime])
    for key in ("text", "evalue"):
        if key in output:
            output[key] = stable(output[key])
    if "traceback" in output:
        output.traceback = [stable(line) for line in output.traceback]
    return output


def stable(text: str) -> str:
    """`text` without memory addresses, kernel numbers and this machine's folders."""
    for folder in (
        sysconfig.get_paths()["purelib"],
        sysconfig.get_paths()["stdlib"],
        str(PACKAGE.parent),
        sys.prefix,
        str(Path.home()),
    ):
        text = text.replace(f"{folder}{os.sep}", "")
    for pattern, word in UNSTABLE:
        text = pattern.sub(word, text)
    return text


def picture(figure: dict[str, Any], height_px: int) -> str:
    """A plotly figure as a base64 PNG, drawn by kaleido with the system's Chromium.

    Raises PictureError without them.
    """
    try:
        return b64encode(
            _painter().calc_fig_sync(
                # JupyterLab shows it at its own pixels, so it must not be wider than a cell
                figure,
                opts={"format": "png", "width": WIDTH_PX, "height": height_px, "scale": 1},
            )
        ).decode()
    except Exception as error:
        raise PictureError(
            f"a figure could not be saved as PNG ({error}): the build needs kaleido and Chromium"
            " (apt-get install chromium; pip install -r requirements-test.txt)."
        ) from error


@functools.cache
def _painter() -> ModuleType:
    """kaleido with one browser for all figures of this process, which asks nothing of the
    network."""
    import kaleido

    kaleido.start_sync_server(silence_warnings=True, mathjax=False)
    atexit.register(kaleido.stop_sync_server, silence_warnings=True)
    return kaleido
