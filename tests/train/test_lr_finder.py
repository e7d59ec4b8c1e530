"""The learning-rate range test: the same losses in every layout, an explosion that is found, and a
suggestion that trains. About 12 s."""

from __future__ import annotations

import math

import pytest
from pairs import EXHAUSTIVE

from lab_utils import TrainConfig, train
from lab_utils.config import ConfigError
from lab_utils.train.lr_finder import RateSearch, find_learning_rate

CONFIG = TrainConfig.of("tiny", layers=2, global_batch=8, seq=32)


@pytest.fixture(scope="module")
def found() -> RateSearch:
    return find_learning_rate(CONFIG, updates=60, high=10.0)


def test_the_run_ends_where_the_loss_explodes(found):
    assert 20 < len(found.rates) < 60
    assert len(found.rates) == len(found.losses) == len(found.smoothed)
    ratios = [b / a for a, b in zip(found.rates, found.rates[1:], strict=False)]
    assert ratios == pytest.approx([(10.0 / 1e-6) ** (1 / 59)] * len(ratios))
    assert found.smoothed[-1] > 4 * min(found.smoothed)
    assert found.losses[0] == pytest.approx(math.log(256), rel=0.05)
    assert found.steepest < found.lowest
    assert found.suggestion == found.lowest / 10


def test_every_layout_and_any_accumulation_finds_the_same(found):
    for flags in (dict(dp=2, zero=1, micro_batch=1), dict(pp=2, micro_batch=2)):
        again = find_learning_rate(CONFIG.replace(**flags), updates=60, high=10.0)
        # once it explodes, a rounding difference does too
        calm = found.smoothed.index(min(found.smoothed))
        assert again.losses[:calm] == pytest.approx(found.losses[:calm], rel=1e-3), flags
        assert again.lowest == pytest.approx(found.lowest, rel=0.6)


def test_the_suggestion_trains_better_than_a_tenth_and_ten_times_of_it():
    """Over three seeds; the rule of thumb is no more than that."""
    wins = 0
    seeds = (0, 1, 2) if EXHAUSTIVE else (0,)
    for seed in seeds:
        config = CONFIG.replace(seed=seed, steps=40)
        rate = find_learning_rate(config, updates=60, high=10.0).suggestion
        last = [
            sum(train(config.replace(lr=factor * rate), threads=1).loss[-5:])
            for factor in (0.1, 1.0, 10.0)
        ]
        wins += last[1] < min(last[0], last[2])
    assert wins == len(seeds)


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(ConfigError, match="must ascend from above 0"):
        find_learning_rate(CONFIG, low=1.0, high=0.1)
    with pytest.raises(ConfigError, match="at least 10 updates"):
        find_learning_rate(CONFIG, updates=3)
