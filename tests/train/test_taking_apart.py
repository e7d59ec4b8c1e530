"""What lessons take apart is the training itself: the same losses as `train`."""

from __future__ import annotations

import pytest

from lab_utils import TrainConfig, launch, train

CONFIG = TrainConfig.of("tiny", layers=2, hidden=32, seq=16, global_batch=8, dp=2, steps=3)


def taken_apart(config: TrainConfig) -> tuple[list[float], list[float], list[int]]:
    """This rank's losses, step by step and by the engine; the collectives in each step."""
    from lab_utils.engines.ours import engine_here
    from lab_utils.engines.step import steps_of_rank
    from lab_utils.parallel.data_parallel import data_parallel

    steps = [
        (step.loss, len(step.mesh.ledger.calls)) for step in steps_of_rank(config, data_parallel)
    ]
    engine, loader = engine_here(config)
    sums = []
    for batch in loader:
        sums.append(engine.forward_backward(batch) * 2 / batch.global_tokens)
        engine.update()
    return [loss for loss, _ in steps], sums, [calls for _, calls in steps]


def test_steps_of_rank_and_engine_here_train_as_train_does():
    whole, ranks = train(CONFIG).loss, launch(taken_apart, 2, CONFIG)
    for way in (0, 1):
        mean = [sum(losses) / 2 for losses in zip(*(rank[way] for rank in ranks), strict=True)]
        assert mean == pytest.approx(whole, rel=1e-6)
    # the ledger holds one step at a time
    assert {tuple(rank[2]) for rank in ranks} == {(1, 1, 1)}
