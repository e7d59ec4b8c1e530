"""The bench: a row for every strategy, enough pairs per row, noise rows, and one claim about speed
that is wide enough to test anywhere."""

from __future__ import annotations

import json

import pytest
from quiet import on_time

from lab_utils import TrainConfig
from lab_utils import __main__ as program
from lab_utils.bench import STRATEGIES, Ratio, Row, as_json, as_text, bench, config_for, rows_for
from lab_utils.bench.rows import config_of
from lab_utils.commands import bench as room
from lab_utils.config import ConfigError
from lab_utils.layout.refusals import refuse_what_cannot_run

SMALL = TrainConfig.of("tiny", layers=2, hidden=32, seq=16)


def test_every_strategy_meets_torch_and_the_dp_ones_deepspeed_too():
    rows = list(rows_for(STRATEGIES))
    assert {row.strategy for row in rows if row[1:] == ("ours", "torch")} == {*STRATEGIES} - {
        "scaling"
    }
    assert {row.strategy for row in rows if row[1:] == ("ours", "deepspeed")} == {
        "dp",
        "zero1",
        "zero2",
        "zero3",
    }
    assert Row("dp", "bucketed", "naive") in rows
    # noise
    assert [row.first for row in rows if row.first == row.second] == ["ours", "torch", "deepspeed"]
    assert not [row for row in rows_for(STRATEGIES, deepspeed=False) if "deepspeed" in row]
    assert list(rows_for(["scaling"])) == [
        Row("scaling", "ours", "ours alone"),
        Row("scaling", "torch", "torch alone"),
    ]
    assert list(rows_for(["tp"])) == [
        Row("tp", "ours", "ours"),
        Row("tp", "torch", "torch"),
        Row("tp", "ours", "torch"),
    ]


def test_the_work_is_the_same_for_both_and_can_be_carried_out():
    for strategy in STRATEGIES:
        config = config_for(strategy, TrainConfig.of("small"), 2, 8)
        p = config.parallel
        refuse_what_cannot_run(config)
        assert p.world_size == (8 if strategy == "3d" else 2)
        assert (p.dp > 1, p.tp > 1, p.pp > 1).count(True) == (3 if strategy == "3d" else 1)
        assert config.micro_batches == (4 if p.pp > 1 else 1)
        assert config.global_batch == (32 if strategy == "3d" else 16)
    assert [
        config_for(s, SMALL, 2, 8).parallel.zero for s in ("dp", "zero1", "zero2", "zero3")
    ] == [0, 1, 2, 3]
    assert config_for("tp+sp", SMALL, 2, 8).parallel.sequence_parallel


def test_alone_a_contender_does_what_one_rank_of_several_does():
    config = config_for("scaling", TrainConfig.of("small"), 2, 8)
    for name in ("ours alone", "torch alone"):
        alone = config_of(name, config)
        assert alone.parallel.world_size == 1
        assert (alone.global_batch, alone.micro_batch) == (8, 8)
    assert config_of("ours", config) == config


ROWS = [
    Row("dp", "ours", "ours"),
    Row("zero3", "ours", "torch"),
    Row("tp", "torch", "ours"),
    Row("pp", "ours", "torch"),
    Row("scaling", "ours", "ours alone"),
    Row("scaling", "torch", "torch alone"),
]


@pytest.fixture(scope="module")
def results() -> list[Ratio]:
    return [bench(config_for(row.strategy, SMALL, 2, 4), row, pairs=7, steps=1) for row in ROWS]


def test_every_row_has_its_pairs(results):
    assert [(r.strategy, r.first, r.second) for r in results] == ROWS
    for row in results:
        assert len(row.ratios) == 7
        assert row.ranks == 2
        assert all(ratio > 0 for ratio in row.ratios)
        assert row.spread[0] <= row.median <= row.spread[1]
        assert 0 < row.first_seconds < 10
        assert 0 < row.second_seconds < 10


def test_the_table_shows_median_and_spread(results, monkeypatch):
    text = as_text(results)
    assert len(text.splitlines()) == 1 + len(results)
    for row in results:
        assert f"{row.strategy}: {row.first} ÷ {row.second}" in text
        assert f"{row.median:.3f}" in text
    assert text.count("(noise)") == 1
    monkeypatch.setattr("lab_utils.i18n._chosen", "zh")
    assert "比值中位数" in as_text(results)
    assert "（噪声）" in as_text(results)


def test_the_file_says_what_it_was_measured_on(results):
    found = json.loads(json.dumps(as_json(results, threads=1)))
    assert found["versions"]["torch"][0].isdigit()
    assert found["threads"] == 1
    assert found["cores"] >= 1
    for row, result in zip(found["rows"], results, strict=True):
        assert row["ratios"] == list(result.ratios)
        assert row["median"] == result.median
        assert row["spread"] == list(result.spread)


def test_above_one_means_the_first_is_faster():
    row = Ratio("dp", "a", "b", 2, (1.0, 2.0, 3.0, 10.0), 0.5, 1.0)
    assert row.median == 2.5
    assert row.spread[0] < 2.5 < row.spread[1]


def test_the_command_writes_its_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        room, "rows_for", lambda strategies, deepspeed: [Row(*strategies, "bucketed", "naive")]
    )
    file = tmp_path / "b.json"
    status = program.main(
        [
            "bench",
            "--only",
            "dp",
            "--preset",
            "tiny",
            "--batch-per-rank",
            "1",
            "--pairs",
            "2",
            "--steps",
            "1",
            "--json",
            str(file),
        ]
    )
    assert status == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert len(row["ratios"]) == 7  # fewer are not enough, whatever was asked
    assert "dp: bucketed ÷ naive" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--only", "tp,4d"], "4d"),
        (["--only", "tp", "--ranks", "1"], "--ranks 1"),
        (["--only", "tp", "--ranks", "16"], "--tp 16"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(flags, named, capsys):
    try:
        status = program.main(["bench", "--preset", "tiny", *flags])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert named in capsys.readouterr().err
    with pytest.raises(ConfigError):
        bench(config_for("tp", SMALL, 16, 8), Row("tp", "ours", "torch"))


def test_buckets_beat_one_message_per_gradient_where_gradients_are_many_and_small():
    """12 layers of width 32: 197 messages against one. The gap is several times any scatter of a
    busy machine."""
    config = TrainConfig.of("tiny", layers=12, hidden=32, seq=8, dp=2, global_batch=2)
    row = bench(config, Row("dp", "bucketed", "naive"), pairs=9, steps=2)
    said = (
        f"bucketed ÷ naive: median {row.median:.2f}, quartiles {row.spread[0]:.2f} –"
        f" {row.spread[1]:.2f}, {len(row.ratios)} pairs, {1e3 * row.first_seconds:.1f} against"
        f" {1e3 * row.second_seconds:.1f} ms a step"
    )
    print(said)
    on_time(row.median >= 1.15, f"{said}; at least 1.15 expected")
