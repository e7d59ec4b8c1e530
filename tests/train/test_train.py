"""`train` as its callers meet it: the report, the progress, the options of a run."""

from __future__ import annotations

import numpy as np
import pytest

from lab_utils import TrainConfig, train
from lab_utils.config import ConfigError
from lab_utils.layout.parameters import parameter_shapes

SMALL = TrainConfig.of("tiny", layers=1, steps=5)


@pytest.fixture(scope="module")
def seen_and_report():
    seen = []
    return seen, train(
        SMALL.replace(dp=2), threads=1, progress=lambda step, loss: seen.append((step, loss))
    )


def test_progress_is_the_global_mean_loss_step_by_step(seen_and_report):
    seen, report = seen_and_report
    assert [step for step, _ in seen] == [0, 1, 2, 3, 4]
    assert [loss for _, loss in seen] == pytest.approx(report.loss, rel=1e-12)


def test_parts_of_the_measured_time_add_up(seen_and_report):
    _, report = seen_and_report
    for rank in report.ranks:
        assert all(rank.time[part] >= 0 for part in rank.time)
        assert sum(
            rank.time[part] for part in ("compute", "communication", "bubble", "data")
        ) == pytest.approx(rank.time["step"], rel=1e-9)
    assert report.tokens_per_second == pytest.approx(
        24 * 64 / max(rank.time["step"] for rank in report.ranks)
    )


def test_the_report_says_what_ran(seen_and_report):
    _, report = seen_and_report
    assert (report.kind, report.engine) == ("measured", "ours")
    assert TrainConfig.from_dict(report.config) == SMALL.replace(dp=2)
    assert [rank.coords["dp"] for rank in report.ranks] == [0, 1]
    assert "gloo" in report.device or "cpu" not in report.device


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_short_runs_have_bytes_and_where_nothing_was_timed_no_time(steps):
    report = train(SMALL.replace(steps=steps), threads=1)
    assert len(report.loss) == steps
    assert report.ranks[0].memory["activations"] > 0
    assert report.flops["model"] > 0
    assert (
        (report.ranks[0].time["step"] is None) == (report.tokens_per_second is None) == (steps < 3)
    )


def test_gradients_are_kept_before_clipping_by_name_and_change_nothing(tmp_path):
    kept = train(SMALL.replace(clip=1e-6), threads=1, gradients=tmp_path / "g.npz")
    gradients = dict(np.load(tmp_path / "g.npz"))
    assert {name: g.shape for name, g in gradients.items()} == parameter_shapes(SMALL.model)
    assert sum((g**2).sum() for g in gradients.values()) ** 0.5 > 0.1
    assert kept.loss == train(SMALL.replace(clip=1e-6), threads=1).loss


def test_the_same_run_twice_gives_the_same_numbers():
    first, again = (train(SMALL.replace(dp=2), threads=1) for _ in range(2))
    assert first.loss == again.loss
    assert train(SMALL.replace(dp=2, seed=1), threads=1).loss != first.loss


def test_a_text_that_cannot_be_read_is_refused_before_any_process_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("lab_utils.launch.launch", None)
    with pytest.raises(ConfigError, match="no such file"):
        train(SMALL.replace(corpus=str(tmp_path / "missing")))


def test_it_learns_the_text_that_it_is_given(tmp_path):
    (tmp_path / "ab.txt").write_text("ab" * 2000)
    loss = train(SMALL.replace(corpus=str(tmp_path / "ab.txt"), steps=30), threads=1).loss
    assert loss[-1] < 0.1 < 5 < loss[0]
