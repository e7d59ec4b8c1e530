"""A run with more ranks than GPUs says that it is on the CPU, and why. How many GPUs there are is a
stand-in: nvidia-smi's answer, which this machine cannot give."""

from __future__ import annotations

import pytest

from lab_utils import TrainConfig
from lab_utils.train import room


def reason(monkeypatch, gpus, **parallel):
    monkeypatch.setattr(room, "free_gpu_memory", lambda: gpus)
    return room.why_not_on_gpus(TrainConfig.of("tiny", **parallel))


def test_fewer_gpus_than_ranks_is_said(monkeypatch):
    said = reason(monkeypatch, [80 * 10**9], dp=2)
    assert said.startswith("2 ranks and 1 GPU(s): NCCL takes no two ranks of a run on one GPU")
    assert "a layout of 1 rank(s)" in said


@pytest.mark.parametrize(("gpus", "dp"), [([], 2), (None, 2), ([1, 1], 2), ([1], 1)])
def test_nothing_is_said_where_there_is_nothing_to_say(monkeypatch, gpus, dp):
    assert reason(monkeypatch, gpus, dp=dp) is None


def test_under_torchrun_the_ranks_of_this_machine_count(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert reason(monkeypatch, [1, 1], dp=2, tp=2) is None
