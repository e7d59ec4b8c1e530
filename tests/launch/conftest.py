"""Every test of launch can be interrupted, whoever started the tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def interrupts_arrive() -> Iterator[None]:
    """Under nohup, as a shell's background job and on some CI runners SIGINT is ignored, and
    Python then makes no KeyboardInterrupt of it; what a test starts would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
