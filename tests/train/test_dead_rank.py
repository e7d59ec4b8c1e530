"""A rank that dies in the middle of a step, in every strategy: the run ends at once, says who it
was, leaves nobody behind.

In `make test` the first and the last rank die in turn, strategy by strategy; in `make test-all`
both do in every one."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from pairs import EXHAUSTIVE
from quiet import on_time

from lab_utils import TrainConfig, launch
from lab_utils.launch import LaunchError

sys.path.insert(0, str(Path(__file__).parent.parent / "launch"))
from faults import processes_left  # noqa: E402

SMALL = TrainConfig.of(
    layers=4, hidden=32, heads=4, seq=16, steps=50, global_batch=8, micro_batch=1
)
STRATEGIES = {
    "data parallel": dict(dp=2),
    "zero-1": dict(dp=2, zero=1),
    "zero-2": dict(dp=2, zero=2),
    "zero-3": dict(dp=2, zero=3),
    "tensor parallel": dict(tp=2),
    "sequence parallel": dict(tp=2, sequence_parallel=True),
    "gpipe": dict(pp=2, schedule="gpipe"),
    "1f1b": dict(pp=2),
    "interleaved": dict(pp=2, schedule="interleaved", virtual_stages=2),
    "zero-bubble": dict(pp=2, schedule="zero-bubble"),
    "3d": dict(dp=2, tp=2, pp=2, zero=1),
}


def dies_in_its_third_step(config: TrainConfig, culprit: int, diary: str) -> None:
    """Rank `culprit` is killed from outside of Python's reach while blocks of its third step are
    running."""
    from lab_utils.model import Block
    from lab_utils.train.loop import run_rank

    forward, calls = Block.forward, []

    def fatal(self: Block, x: object) -> object:
        calls.append(1)
        if int(os.environ["RANK"]) == culprit and len(calls) == 2 * len(calls_of_a_step) + 1:
            Path(diary).write_text(repr(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        return forward(self, x)

    calls_of_a_step = range(config.micro_batches * config.model.layers // config.parallel.pp)
    Block.forward = fatal
    run_rank(config, "ours", keep_gradients=False)


DEATHS = [
    pytest.param(name, last, id=f"{name}, {'last' if last else 'first'} rank")
    for i, name in enumerate(STRATEGIES)
    for last in ((False, True) if EXHAUSTIVE else (i % 2 == 1,))
]


@pytest.mark.parametrize(("name", "last"), DEATHS)
def test_a_dead_rank_ends_the_run_within_a_second(name, last, tmp_path):
    config = SMALL.replace(**STRATEGIES[name])
    world = config.parallel.world_size
    culprit, diary = world - 1 if last else 0, tmp_path / "died"
    with pytest.raises(LaunchError) as caught:
        launch(
            dies_in_its_third_step,
            world,
            config,
            culprit,
            str(diary),
            threads=1,
            timeout=60,
            quiet=True,
        )
    seconds = time.time() - float(diary.read_text())
    print(f"{name}, rank {culprit} of {world}: {seconds:.2f} s")
    assert (caught.value.rank, caught.value.cause) == (culprit, "killed")
    assert processes_left() == []
    on_time(seconds < 1, f"{seconds:.2f} s from death to verdict, of 1 s")
