"""The bench: enough pairs per row, a noise row, and one claim about speed that is wide enough to test anywhere."""

from __future__ import annotations

import json

import pytest

from lab_utils import TrainConfig
from lab_utils import __main__ as program
from lab_utils import bench as room
from lab_utils.bench import PAIRS, Ratio, as_text, bench

SMALL = TrainConfig.of("tiny", layers=1, hidden=32, dp=2, global_batch=4)


@pytest.fixture(scope="module")
def rows() -> list[Ratio]:
    return bench(SMALL, pairs=7, steps=1)


def test_every_row_has_its_pairs_and_one_row_is_noise(rows):
    assert [(row.first, row.second) for row in rows] == list(PAIRS)
    assert any(row.first == row.second for row in rows)
    for row in rows:
        assert len(row.ratios) >= 7
        assert all(ratio > 0 for ratio in row.ratios)
        assert row.spread[0] <= row.median <= row.spread[1]
        assert 0 < row.first_seconds < 10


def test_the_table_shows_median_and_spread(rows, monkeypatch):
    text = as_text(rows)
    assert len(text.splitlines()) == 1 + len(rows)
    for row in rows:
        assert f"{row.first} ÷ {row.second}" in text
        assert f"{row.median:.3f}" in text
    assert text.count("(noise)") == 1
    monkeypatch.setattr("lab_utils.i18n._chosen", "zh")
    assert "比值中位数" in as_text(rows)
    assert "（噪声）" in as_text(rows)


def test_above_one_means_the_first_is_faster():
    row = Ratio("a", "b", (1.0, 2.0, 3.0, 10.0), 0.5, 1.0)
    assert row.median == 2.5
    assert row.spread[0] < 2.5 < row.spread[1]


def test_the_command_writes_its_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(room, "PAIRS", (("bucketed", "naive"),))
    status = program.main(["bench", "--preset", "tiny", "--batch-per-rank", "1", "--pairs", "2", "--steps", "1", "--json", str(tmp_path / "b.json")])
    assert status == 0
    (row,) = json.loads((tmp_path / "b.json").read_text())
    assert len(row["ratios"]) == 7      # fewer are not enough, whatever was asked
    assert "bucketed ÷ naive" in capsys.readouterr().out


def test_buckets_beat_one_message_per_gradient_where_gradients_are_many_and_small(monkeypatch):
    """12 layers of width 32: 197 messages against one. The gap is several times any scatter of a busy machine."""
    monkeypatch.setattr(room, "PAIRS", (("bucketed", "naive"),))
    config = TrainConfig.of("tiny", layers=12, hidden=32, seq=8, dp=2, global_batch=2)
    (row,) = bench(config, pairs=9, steps=2)
    print(f"bucketed ÷ naive: median {row.median:.2f}, quartiles {row.spread[0]:.2f} – {row.spread[1]:.2f}, {len(row.ratios)} pairs, "
          f"{1e3 * row.first_seconds:.1f} against {1e3 * row.second_seconds:.1f} ms a step")
    assert row.median >= 1.15
