"""Run a notebook in a kernel of this very environment, and leave outputs that are the same every time and everywhere."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import re
import sys
import sysconfig
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

PACKAGE = Path(__file__).resolve().parents[1]
CELL_TIMEOUT_S = 120
WIDTH_PX, HEIGHT_PX = 760, 420
WIDGET, PLOTLY = "application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
UNSTABLE = ((re.compile(r"\b0x[0-9a-f]{6,}\b"), "0xADDRESS"), (re.compile(r"\S*ipykernel_\d+/\d+\.py"), "<cell>"))


class RunError(Exception):
    """A notebook that did not run to its end; the message names the cell and carries its error."""


def kernel_environment() -> dict[str, str]:
    """The environment of the kernel: it imports the very lab_utils that is being built, from wherever it starts."""
    path = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def execute(notebook: NotebookNode, folder: Path, timeout_s: int = CELL_TIMEOUT_S) -> None:
    """Run every cell in `folder` and keep cleaned outputs in the notebook. Raises RunError."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = deepcopy(notebook.metadata)                      # the kernel adds its versions
    client = NotebookClient(notebook, timeout=timeout_s, kernel_name="python3", store_widget_state=False, coalesce_streams=True, record_timing=False,
                            extra_arguments=["--IPKernelApp.log_level=50"], resources={"metadata": {"path": str(folder)}})
    try:
        _run(client)
    except CellExecutionError as error:
        raise RunError(f"{_running(notebook)} failed with {error.ename}: {error.evalue}\n{ANSI.sub('', error.traceback)}") from error
    except CellTimeoutError as error:
        raise RunError(f"{_running(notebook)} did not end within {timeout_s} s.") from error
    except DeadKernelError as error:
        raise RunError(f"{_running(notebook)}: the kernel died.") from error
    notebook.metadata = metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [clean(output) for output in cell.outputs]


def _run(client: NotebookClient) -> None:
    """Execute in a thread: nbclient answers Ctrl-C in a main thread by killing the kernel and going on; here it ends both."""
    started = []

    async def work() -> None:
        started.append(asyncio.current_task())
        await client.async_execute(env=kernel_environment())

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asyncio.run, work())
        try:
            done.result()
        except KeyboardInterrupt:
            for task in started:
                task.get_loop().call_soon_threadsafe(task.cancel)
            raise


def _running(notebook: NotebookNode) -> str:
    """The last cell that was started, for messages."""
    started = [c for c in notebook.cells if c.cell_type == "code" and (c.execution_count or c.outputs)]
    return f"cell {started[-1].id}" if started else "the first cell"


def clean(output: NotebookNode) -> NotebookNode:
    """One output without what changes between runs: addresses, paths of this machine, ids of live widgets.

    A widget keeps its static picture or text, and a plotly figure gets a PNG, so that GitHub shows both.
    """
    data = output.get("data")
    if data is not None:
        data.pop(WIDGET, None)
        if PLOTLY in data:
            data.pop("text/html", None)
            data["image/png"] = picture(data[PLOTLY])
            output.metadata["image/png"] = {"width": WIDTH_PX, "height": HEIGHT_PX}
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
    for folder in (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["stdlib"], str(PACKAGE.parent), sys.prefix, str(Path.home())):
        text = text.replace(f"{folder}{os.sep}", "")
    for pattern, word in UNSTABLE:
        text = pattern.sub(word, text)
    return text


def picture(figure: dict[str, Any]) -> str:
    """A plotly figure as a base64 PNG, drawn by kaleido with the system's Chromium. Raises RunError without them."""
    try:
        return b64encode(_painter().calc_fig_sync(figure, opts={"format": "png", "width": WIDTH_PX, "height": HEIGHT_PX, "scale": 1.5})).decode()
    except Exception as error:
        raise RunError(f"a figure could not be saved as PNG ({error}): the build needs kaleido and Chromium"
                       " (apt-get install chromium; pip install -r requirements-test.txt).") from error


@functools.cache
def _painter() -> ModuleType:
    """kaleido with one browser for all figures of this process, which asks nothing of the network."""
    import kaleido

    kaleido.start_sync_server(silence_warnings=True, mathjax=False)
    atexit.register(kaleido.stop_sync_server, silence_warnings=True)
    return kaleido
