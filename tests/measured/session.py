"""What one learner's session takes at most, lesson by lesson: memory, processes, threads, open
files. Recorded anew by

    PYTHONPATH=. .venv/bin/python tests/measured/session.py

on any machine; `doctor --server` counts with the largest of them (lab_utils/server.py), and
tests/commands/test_server.py holds it to the record. A page shared by processes counts once (the
kernel's PSS), so that sessions of several learners add up to more: torch's libraries are the same
pages for all, and each learner's part of them becomes smaller.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from datetime import date
from pathlib import Path

import nbformat
import psutil
import torch
from nbclient import NotebookClient

REPOSITORY = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("session.json")
LOOK_S = 0.2


def taken(root: psutil.Process) -> dict[str, int]:
    """What `root`'s descendants hold at this moment."""
    found = {"bytes": 0, "processes": 0, "threads": 0, "files": 0}
    for process in root.children(recursive=True):
        try:
            own = {
                "bytes": process.memory_full_info().pss,
                "processes": 1,
                "threads": process.num_threads(),
                "files": process.num_fds(),
            }
        except psutil.Error:  # it has just ended
            continue
        for name, value in own.items():
            found[name] += value
    return found


class Watch(threading.Thread):
    """The most of each that this process's descendants hold while the block runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, int] = {}
        self._done = threading.Event()

    def run(self) -> None:
        root = psutil.Process()
        while not self._done.wait(LOOK_S):
            for name, value in taken(root).items():
                self.most[name] = max(value, self.most.get(name, 0))

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()


def lesson(path: Path) -> dict[str, int]:
    """Run the lesson from beginning to end, watched."""
    made = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder, Watch() as watch:
        os.environ["LAB_PROGRESS"] = ""
        NotebookClient(made, timeout=600, resources={"metadata": {"path": folder}}).execute()
    return watch.most


def jupyter_server() -> int:
    """Bytes of the learner's Jupyter server, when it has served JupyterLab and a notebook."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    options = [f"--ServerApp.port={port}", "--ServerApp.token=", "--Application.log_level=ERROR"]
    server = subprocess.Popen([*command, *options], cwd=REPOSITORY, stderr=subprocess.DEVNULL)
    try:
        for path in (
            "lab",
            "lab/api/settings",
            "api/contents/lessons/en/05_data_parallelism.ipynb",
        ):
            _get(f"http://127.0.0.1:{port}/{path}")
        return psutil.Process(server.pid).memory_full_info().pss
    finally:
        server.terminate()
        server.wait()


def _get(address: str, patience_s: float = 120) -> None:
    end = time.monotonic() + patience_s
    while True:
        try:
            urllib.request.urlopen(address).read()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:  # it has not begun to listen
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def main() -> None:
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    lessons = {}
    for path in sorted((REPOSITORY / "lessons/en").glob("[0-9][0-9]_*.ipynb")):
        lessons[path.stem] = lesson(path)
        print(path.stem, lessons[path.stem], flush=True)
    record = {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "jupyter_server_bytes": jupyter_server(),
        "lessons": lessons,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
