"""The hidden checks of lab 05: right answers pass on every seed, wrong ones fail, exercises do not lean on each other."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import pytest
import torch
from planted import NAMED, RIGHT

from lab_utils.course import check

HIDDEN = runpy.run_path(str(Path(__file__).resolve().parents[2] / "solutions/hidden/05_data_parallelism.py"))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_right_answers_pass_on_every_seed(seed):
    names = ("chunk_bounds", "ring_all_reduce", "Bucketed")
    answers = [RIGHT[name][seed] for name in ("chunk_bounds", "ring_all_reduce", "bucketed")]
    results = HIDDEN["run"](dict(zip(names, answers, strict=True)), seed)
    assert list(results) == list(names)
    assert all(result.passed for result in results.values()), results


def test_wrong_answers_fail_and_missing_ones_are_none():
    wrong = {"chunk_bounds": NAMED["chunks_rounded_up"], "ring_all_reduce": NAMED["ring_whole_buffer"]}
    results = HIDDEN["run"](wrong, seed=4)
    assert results["chunk_bounds"].criterion == "chunks.cover"
    assert results["ring_all_reduce"].criterion == "ring.bytes"
    assert results["Bucketed"] is None


@pytest.mark.parametrize(("answer", "criteria"), [
    ("BlocksInTheHook", {"overlap.waited-early"}), ("Naive", {"buckets.count"}), ("NoDivision", {"gradient.scale"}),
    ("ForwardOrder", {"buckets.order"}), ("SendsAllInFinish", {"overlap.left-late"}),
])  # fmt: skip
@pytest.mark.parametrize("seed", [5, 6])
def test_wrong_buckets_fail_on_random_models_too(answer, criteria, seed):
    assert HIDDEN["run"]({"Bucketed": NAMED[answer]}, seed)["Bucketed"].criterion in criteria


def test_the_same_seed_draws_the_same_cases():
    from random import Random

    for draw in ("chunk_cases", "ring_cases", "bucket_cases"):
        assert HIDDEN[draw](Random(7)) == HIDDEN[draw](Random(7))
        assert HIDDEN[draw](Random(7)) != HIDDEN[draw](Random(8))


def test_a_right_ring_passes_beside_a_wrong_chunk_bounds():
    cell = {"__name__": "__main__", "torch": torch, "chunk_bounds": NAMED["chunks_without_the_remainder"]}
    exec(inspect.getsource(NAMED["ring_right"]), cell)
    assert check.ring_all_reduce(cell["ring_right"]).passed
