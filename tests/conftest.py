"""What every test shares: which ones need the machine to themselves, which are long, who judges
them, whose turn it is, and ranks that start with the package loaded."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import warnings
from collections.abc import Iterator
from functools import partial

import psutil
import pytest
from alone import ALONE, ALONE_BY_NAME, TESTS
from hypothesis import settings
from long import LONG
from pairs import EXHAUSTIVE
from quiet import judge
from take_turns import run_from_queue, shared_queue

from lab_utils import i18n
from lab_utils.course import progress
from lab_utils.launch import process

# Ranks are forked from a server. What it has loaded, no rank of a test has to: 0.1 s of both cores
# for four ranks.
process._PRELOAD[-1:-1] = ["lab_utils.train.loop", "lab_utils.course.checks.exercise"]

# A busy machine makes an example slow, not wrong; what hangs meets pytest's own timeout.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")


@pytest.fixture(autouse=True)
def language_as_before() -> Iterator[None]:
    """A test that chooses a language chooses it for itself."""
    before = i18n._chosen
    yield
    i18n._chosen = before


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "alone: measures what other work on the machine would disturb"
    )


def is_in(test: str, place: str) -> bool:
    """Whether a test, "file::name", is the one, or in the file or folder, that is named."""
    return test == place or test.startswith((f"{place}/", f"{place}::"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = []
    for item in items:
        name = item.name.partition("[")[0]
        file = item.path.relative_to(TESTS).as_posix()
        test, case = f"{file}::{name}", f"{file}::{item.name}"
        if any(is_in(test, place) for place in ALONE) or name.startswith(ALONE_BY_NAME):
            item.add_marker("alone")
        is_long = case in LONG or any(is_in(test, place) for place in LONG)
        # one that was asked for by name runs
        if not is_long or EXHAUSTIVE or _named(config):
            chosen.append(item)
    if len(chosen) < len(items):
        kept = {id(item) for item in chosen}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = chosen


def _named(config: pytest.Config) -> bool:
    """Whether the caller said which file or test to run."""
    return any(".py" in argument for argument in config.invocation_params.args)


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins with the first hint, and none writes into a learner's folder; one that is
    about progress sets LAB_PROGRESS to a folder of its own."""
    monkeypatch.setenv("LAB_PROGRESS", "")
    progress.forget()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """The next file from the queue that tests/lanes.py shares out; without one, pytest's own
    way."""
    queue = shared_queue()
    if queue is None or session.testsfailed or session.config.option.collectonly:
        return None
    run_from_queue(session, queue)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that needs the machine to itself is judged only where it had it."""
    if pyfuncitem.get_closest_marker("alone") is None:
        return None
    given = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    judge(partial(pyfuncitem.obj, **given))
    return True


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Layers this small mostly wait for the other threads, the longer the more work there is beside
    them. Ranks have their own number."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file's end names the processes that its tests left, which are not the next file's fault.
    The process that the grader forks its rooms from goes with the file that needed it."""
    before = psutil.Process().children(recursive=True)
    if "faults" in sys.modules:
        sys.modules["faults"].before_this_file[:] = before
    yield
    nursery = sys.modules.get("lab_utils.grade.nursery")
    if nursery is not None:
        nursery.end()
    for left in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = " ".join(left.cmdline())
            ours = "forkserver import main" in words and left.ppid() == os.getpid()
            if left not in before and not ours and "resource_tracker" not in words:
                warnings.warn(f"{request.path} left {left}: {words[:300]}", stacklevel=1)
