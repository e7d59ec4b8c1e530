"""A rank that the system stops in the middle of a run, wherever it stands: it is named, not one of
those that wait for it. In `make test-all` in a product of strategies, too."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from pairs import EXHAUSTIVE

from lab_utils import TrainConfig, launch
from lab_utils.launch import LaunchError, emit

sys.path.insert(0, str(Path(__file__).parent.parent / "launch"))
from faults import processes_left  # noqa: E402

SMALL = TrainConfig.of(
    layers=4, hidden=32, heads=4, seq=16, steps=10_000, global_batch=8, micro_batch=1
)
STRATEGIES = {
    "data parallel": dict(dp=2),
    "zero-3": dict(dp=2, zero=3),
    "tensor parallel": dict(tp=2),
    "1f1b": dict(pp=2),
    **({"3d": dict(dp=2, tp=2, pp=2, zero=1)} if EXHAUSTIVE else {}),
}


def train_and_tell(config: TrainConfig) -> None:
    from lab_utils.train.loop import run_rank

    emit(os.getpid())
    run_rank(config, "ours", keep_gradients=False)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_stopped_rank_is_named_wherever_it_stands(name):
    config = SMALL.replace(**STRATEGIES[name])
    culprit, pids = config.parallel.world_size - 1, {}

    def on_event(rank: int, said: object) -> None:
        if isinstance(said, int):
            pids[rank] = said
        elif said[0] == 3 and rank == culprit:  # its third step is over: it is amid the next
            os.kill(pids[rank], signal.SIGSTOP)

    with pytest.raises(LaunchError) as caught:
        launch(train_and_tell, culprit + 1, config, threads=1, timeout=1.0, on_event=on_event)
    assert (caught.value.ranks, caught.value.cause) == ((culprit,), "hung")
    assert "stopped by the system" in str(caught.value)
    assert processes_left() == []


def test_inside_a_collective_that_all_have_called():
    """Both have made the same call, and the record alone cannot say who holds up whom."""

    def stop_in_it() -> None:
        import threading
        import time

        import torch
        import torch.distributed as dist

        x = torch.ones(1)
        dist.all_reduce(x)
        if dist.get_rank() == 1:
            time.sleep(0.3)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        for _ in range(1_000_000):
            dist.all_reduce(x)

    with pytest.raises(LaunchError) as caught:
        launch(stop_in_it, 2, timeout=1.0)
    assert (caught.value.ranks, caught.value.cause) == ((1,), "hung")
