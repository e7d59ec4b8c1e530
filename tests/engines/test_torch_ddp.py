"""torch's DistributedDataParallel behind our report: the same numbers as ours, and the same
traffic, counted from outside."""

from __future__ import annotations

import numpy as np
import pytest

from lab_utils import TrainConfig, train

CASES = {
    "adamw": {},
    "sgd, accumulated": {"optimizer": "sgd", "micro_batch": 2},
    "tied, small buckets": {"tied": True, "bucket_mib": 0.05},
    "4 ranks, sgd": {"dp": 4, "optimizer": "sgd"},
}


@pytest.mark.parametrize("change", CASES.values(), ids=CASES)
def test_ddp_is_ours(change, tmp_path):
    config = TrainConfig.of("tiny", **{"layers": 2, "steps": 5, "dp": 2} | change)
    ours, ddp = (
        train(config, threads=1, engine=engine, gradients=tmp_path / f"{engine}.npz")
        for engine in ("ours", "torch")
    )
    assert ours.loss == pytest.approx(ddp.loss, rel=1e-6)
    a, b = (dict(np.load(tmp_path / f"{engine}.npz")) for engine in ("ours", "torch"))
    assert list(a) == list(b)
    assert (
        sum(((a[k] - b[k]) ** 2).sum() for k in a) ** 0.5
        <= 1e-6 * sum((b[k] ** 2).sum() for k in b) ** 0.5
    )
    assert ddp.engine == "torch"
    assert ddp.flops == ours.flops
    for mine, theirs in zip(ours.ranks, ddp.ranks, strict=True):
        for what in ("bytes", "wire_bytes"):
            assert (
                mine.total(what, op="all_reduce", axis="dp", purpose="gradient")
                == theirs.total(what, op="all_reduce", axis="dp", purpose="gradient")
                > 0
            )
        for term in ("parameters", "gradients", "optimizer", "activations"):
            assert mine.memory[term] == theirs.memory[term]
        assert theirs.memory["buckets"] is None  # what cannot be seen is not guessed
        assert theirs.time["step"] > 0
        assert theirs.time["communication"] is None


def test_on_one_rank_it_is_the_identity():
    config = TrainConfig.of("tiny", layers=1, steps=3)
    ours, ddp = (train(config, threads=1, engine=engine) for engine in ("ours", "torch"))
    assert ours.loss == ddp.loss
    assert ddp.ranks[0].traffic == ()
