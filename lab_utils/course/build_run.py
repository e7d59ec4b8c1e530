"""Run a notebook in a kernel of this very environment, and see which files of the course it
opens."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from .build_outputs import PictureError, clean

PACKAGE = Path(__file__).resolve().parents[1]
TRACER = Path(__file__).with_name("build_tracer")
COMPILED = re.compile(r"__pycache__/([^./]+)\.[^/]*$")
CELL_TIMEOUT_S = 120
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class RunError(Exception):
    """A notebook that did not run to its end; the message names the cell and carries its error."""


def kernel_environment() -> dict[str, str]:
    """The environment of the kernel: it imports the very lab_utils that is being built, from
    wherever it starts, and keeps nobody's progress."""
    path = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "LAB_PROGRESS": "",
    }


def execute(notebook: NotebookNode, timeout_s: int = CELL_TIMEOUT_S) -> set[str]:
    """Run every cell in an empty folder, as a learner's is on the first day, and keep cleaned
    outputs in the notebook.

    Returns the files of lab_utils that the kernel and its ranks opened, relative to the package's
    parent; a module counts as its .py. Raises RunError.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _execute(notebook, folder, timeout_s)


def _execute(notebook: NotebookNode, folder: str, timeout_s: int) -> set[str]:
    metadata = deepcopy(notebook.metadata)  # the kernel adds its versions
    client = NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        store_widget_state=False,
        coalesce_streams=True,
        record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=50"],
        resources={"metadata": {"path": folder}},
    )
    try:
        opened = _run(client)
    except CellExecutionError as error:
        raise RunError(
            f"{_running(notebook)} failed with {error.ename}:"
            f" {error.evalue}\n{ANSI.sub('', error.traceback)}"
        ) from error
    except CellTimeoutError as error:
        raise RunError(f"{_running(notebook)} did not end within {timeout_s} s.") from error
    except DeadKernelError as error:
        raise RunError(f"{_running(notebook)}: the kernel died.") from error
    notebook.metadata = metadata
    try:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [clean(output) for output in cell.outputs]
    except PictureError as error:
        raise RunError(str(error)) from error
    return opened


def _run(client: NotebookClient) -> set[str]:
    """Execute in a thread: nbclient answers Ctrl-C in a main thread by killing the kernel and going
    on; here it ends both. Returns the files that were opened."""
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as trace:
        _run_traced(client, trace.name)
        return set(map(_source, trace.read().splitlines()))


def _source(opened: str) -> str:
    """A file below the package's parent, with / between folders; of a compiled module its
    source."""
    return COMPILED.sub(r"\1.py", Path(opened).relative_to(PACKAGE.parent).as_posix())


def _run_traced(client: NotebookClient, trace: str) -> None:
    environment = kernel_environment()
    environment["PYTHONPATH"] = f"{TRACER}{os.pathsep}{environment['PYTHONPATH']}"
    environment |= {"LAB_TRACE_TO": trace, "LAB_TRACE_BELOW": str(PACKAGE)}
    started = []

    async def work() -> None:
        started.append(asyncio.current_task())
        await client.async_execute(env=environment)

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
    started = [
        c for c in notebook.cells if c.cell_type == "code" and (c.execution_count or c.outputs)
    ]
    return f"cell {started[-1].id}" if started else "the first cell"
