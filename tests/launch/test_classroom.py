"""Eight learners on one machine press the key at once: eight kernels, each with ranks of its own,
in copies of the course that nobody shares but the package. Nothing collides, and each gets what a
learner alone gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from faults import processes_left

from lab_utils import TrainConfig, train

pytestmark = pytest.mark.timeout(600)
LEARNERS = 8
SEEDS = 2  # learners take turns with them, so that neighbours differ
STEPS = 3
CELLS = """
from lab_utils import TrainConfig, train, launch
from lab_utils.course import check

report = train(TrainConfig.from_dict(CONFIG))
---
import torch, torch.distributed as dist

def ring(rank_of_learner):
    mine = torch.full((1000,), float(dist.get_rank() + rank_of_learner))
    dist.all_reduce(mine)
    return mine.sum().item()

summed = launch(ring, 3, NUMBER)
---
def chunk_bounds(numel, n):
    size, longer = divmod(numel, n)
    ends = [r * size + min(r, longer) for r in range(n + 1)]
    return list(zip(ends, ends[1:]))

verdict = check.chunk_bounds(chunk_bounds)
---
import json
print(json.dumps({"losses": report.loss, "summed": summed, "passed": verdict.passed}))
"""
RUN = """
import sys, time, nbformat
from nbclient import NotebookClient
from traitlets.config import Config
made = nbformat.read(sys.argv[1], as_version=4)
sockets = Config({"ConnectionFileMixin": {"transport": "ipc"}})  # as servers/session has it
begun = time.monotonic()
NotebookClient(made, timeout=500, config=sockets).execute()
print(made.cells[-1].outputs[0].text.strip())
print(time.monotonic() - begun)
"""


def config(number: int, dp: int) -> TrainConfig:
    """Neighbours' models start from different seeds."""
    return TrainConfig.from_dict(
        {
            "model": {"layers": 2, "hidden": 32, "heads": 2, "vocab": 256, "seq": 16},
            "parallel": {"dp": dp},
            "global_batch": 4,
            "micro_batch": 2,
            "steps": STEPS,
            "seed": number % SEEDS,
        }
    )


def begin(number: int, home: Path) -> subprocess.Popen[str]:
    """A learner's notebook, run from the beginning to the end in the learner's own folder."""
    (home / "lessons").mkdir(parents=True)
    text = CELLS.replace("CONFIG", repr(config(number, 2).to_dict()))
    cells = text.replace("NUMBER", str(number)).split("---\n")
    made = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    nbformat.write(made, home / "work.ipynb")
    own = {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, "work.ipynb"],
        cwd=home,
        env={k: v for k, v in os.environ.items() if k != "LAB_PROGRESS"} | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_eight_learners_at_once_get_what_each_gets_alone(tmp_path):
    begun = time.monotonic()
    learners = [begin(number, tmp_path / f"learner{number}") for number in range(LEARNERS)]
    came = [learner.communicate() for learner in learners]
    took = time.monotonic() - begun
    assert [learner.returncode for learner in learners] == [0] * LEARNERS, came
    alone = [train(config(seed, 1)).loss for seed in range(SEEDS)]
    assert alone[0] != alone[1]
    seconds = []
    for number, (said, _) in enumerate(came):
        result, own = said.splitlines()[-2:]
        result = json.loads(result)
        seconds.append(float(own))
        assert result["losses"] == pytest.approx(alone[number % SEEDS], rel=1e-6)
        assert result["summed"] == [1000.0 * (3 + 3 * number)] * 3
        assert result["passed"]
        kept = json.loads((tmp_path / f"learner{number}/progress/chunk_bounds.json").read_text())
        assert kept["passed"]
    assert processes_left() == []
    print(f"{LEARNERS} learners: {took:.0f} s in all, {min(seconds):.0f} to {max(seconds):.0f} s")
