"""What every test shares: which ones need the machine to themselves, and ranks that start with the package loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_utils.launch import process

TESTS = Path(__file__).parent
ALONE = (           # files and folders
    # they measure seconds, or end what does not answer within some
    "bench", "browser/test_explorer_lab.py", "launch/test_faults.py", "launch/test_interrupted_start.py", "launch/test_launch.py", "launch/test_lifetime.py",
    "launch/test_notebook.py", "launch/test_torchrun_exit.py", "measure/test_bottlenecks.py", "measure/test_calibrate.py", "measure/test_step_clock.py",
    "parallel/test_data_parallel.py", "parallel/test_ledger.py", "test_house.py",
    "train/test_dead_rank.py", "widgets/test_explorer.py",
    # every byte on the loopback interface
    "measure/test_wire.py",
)  # fmt: skip
ALONE_BY_NAME = ("test_slider_to_paint",)       # frames of a browser

# Ranks are forked from a server. What it has loaded, no rank of a test has to: 0.1 s of both cores for four ranks.
process._PRELOAD[-1:-1] = ["lab_utils.train.loop", "lab_utils.course.check"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: measures what other work on the machine would disturb")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(TESTS).as_posix()
        if any(path == place or path.startswith(f"{place}/") for place in ALONE) or item.name.startswith(ALONE_BY_NAME):
            item.add_marker("alone")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Layers this small mostly wait for the other threads, the longer the more work there is beside them. Ranks have their own number."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
