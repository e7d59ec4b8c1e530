"""Reports: the JSON that any tool can read, and two of them side by side."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import plotly.graph_objects as go
import pytest

from lab_utils import Cluster, TrainConfig, estimate, i18n
from lab_utils.report import RankReport, Report, Traffic, compare

MACHINE = Cluster(name="imagined", flops_per_second=1e12, link_bytes_per_second=1e9)


def estimated(**flags) -> Report:
    return estimate(TrainConfig.of("tiny", dp=2, **flags), MACHINE)


def measured(report: Report, **memory) -> Report:
    """`report` as if it had been measured, with some memory terms changed on all ranks."""
    ranks = tuple(replace(rank, memory=dict(rank.memory) | memory) for rank in report.ranks)
    return replace(report, kind="measured", ranks=ranks, loss=(5.5, 4.5))


def test_json_round_trip():
    report = measured(estimated(), peak=12, at_peak={"parameters": 4, "activations": 8})
    assert Report.from_json(report.to_json()) == report
    assert Report.from_json(report.to_json(indent=None)).to_json() == report.to_json()


def test_unknown_keys_are_ignored_everywhere():
    raw = json.loads(estimated().to_json())
    raw["later"] = raw["ranks"][0]["later"] = raw["ranks"][0]["traffic"][0]["later"] = {"x": 1}
    assert Report.from_dict(raw) == estimated()


def test_new_terms_and_axes_survive():
    raw = json.loads(estimated().to_json())
    raw["ranks"][0]["coords"]["ep"] = 3
    raw["ranks"][0]["memory"]["experts"] = 7
    again = json.loads(Report.from_dict(raw).to_json())
    assert again["ranks"][0]["coords"]["ep"] == 3
    assert again["ranks"][0]["memory"]["experts"] == 7


@pytest.mark.parametrize("raw", [{}, {"schema": 2}, {"schema": "1"}, [], None])
def test_what_is_no_report_of_this_schema_is_refused(raw):
    with pytest.raises(ValueError, match="this is no report"):
        Report.from_dict(raw)


def test_the_keys_are_the_documented_ones():
    raw = estimated().to_dict()
    assert set(raw) >= {"schema", "kind", "engine", "device", "world_size", "config", "parameters", "loss", "flops", "tokens_per_second", "mfu",
                        "segments", "ranks"}  # fmt: skip
    assert raw["schema"] == 1
    assert raw["world_size"] == 2
    assert {"model", "hardware"} <= set(raw["flops"])
    rank = raw["ranks"][1]
    assert set(rank) == {"rank", "coords", "memory", "traffic", "time"}
    assert rank["coords"] == {"dp": 1, "pp": 0, "tp": 0}
    assert {"parameters", "gradients", "optimizer", "activations", "buckets", "peak"} <= set(rank["memory"])
    assert set(rank["traffic"][0]) == {"op", "axis", "purpose", "calls", "bytes", "wire_bytes"}
    assert set(rank["time"]) == {"compute", "communication", "bubble", "data", "step", "hidden"}


def test_parts_of_the_estimated_time_add_up():
    time = estimated().ranks[0].time
    assert sum(time[part] for part in ("compute", "communication", "bubble", "data")) == pytest.approx(time["step"], rel=1e-12)


def test_totals_select_by_every_key():
    rank = RankReport(0, {}, traffic=(Traffic("all_reduce", "dp", "gradient", 2, 8, 6), Traffic("send", "pp", "activation", 1, 5, 5)))
    assert rank.total() == 13
    assert rank.total("calls") == 3
    assert rank.total("wire_bytes", purpose="gradient", axis="dp") == 6
    assert rank.total("bytes", purpose="gradient", axis="pp") == 0


def test_different_runs_are_not_compared():
    with pytest.raises(ValueError, match="layers, seed differ"):
        compare(estimated(), measured(estimated(layers=2, seed=3)))


@pytest.mark.parametrize("rank", [2, -1])
def test_a_rank_that_is_not_there(rank):
    with pytest.raises(ValueError, match="ranks 0 to 1"):
        compare(estimated(), measured(estimated()), ranks=[rank])


def test_equal_is_exact_and_off_by_one_byte_is_not():
    report = estimated()
    same = compare(report, measured(report), ranks=[0, 1])
    assert same.exact("memory", "traffic", "job")
    assert same.worst().error == 0
    off = compare(report, measured(report, gradients=report.ranks[0].memory["gradients"] + 1))
    assert not off.exact("memory")
    assert off.exact("traffic")
    assert off.worst().term == "gradients"
    assert not same.exact("no such group")


def test_a_missing_side_is_neither_zero_nor_exact():
    report = estimated()
    rows = compare(report, measured(report, activations=5)).rows
    row = next(r for r in rows if r.term == "activations")
    assert (row.estimated, row.measured, row.error) == (None, 5, None)
    assert not compare(report, measured(report, activations=5)).exact("memory")
    assert not any(r.term == "weight_copies" for r in rows)      # looked at by neither side


def test_the_sign_and_size_of_an_error():
    report = estimated()
    twice, none = (compare(report, measured(report, optimizer=n * report.ranks[0].memory["optimizer"])) for n in (2, 0))
    assert twice.worst().error == -0.5
    assert math.isinf(none.worst().error)


def test_table_and_figure(monkeypatch):
    report = estimated()
    comparison = compare(report, measured(report, gradients=report.ranks[0].memory["gradients"] * 2))
    lines = str(comparison).splitlines()
    assert len(lines) == len(comparison.rows) + 1
    assert sum("exact" in line for line in lines) == sum(r.error == 0 for r in comparison.rows)
    assert "-50.0%" in next(line for line in lines if "gradients" in line)
    figure = comparison.figure()
    assert isinstance(figure, go.Figure)
    assert -50 in figure.data[0].x
    assert len(figure.data[0].y) == len(set(figure.data[0].y)) == sum(r.error is not None for r in comparison.rows)
    monkeypatch.setattr(i18n, "_chosen", "zh")
    assert "完全一致" in str(comparison)
    assert "误差" in comparison.figure().layout.xaxis.title.text
    assert "内存 · 梯度" in str(comparison)


def test_the_rows_of_a_group():
    report = estimated()
    comparison = compare(report, measured(report, activations=5))
    assert {row.group for row in comparison.only("memory", "traffic").rows} == {"memory", "traffic"}
    assert all(row.error is not None for row in comparison.only("memory").rows)
    assert comparison.only("memory").exact()
    assert "rank 0" not in str(comparison)
    assert "rank 1 · memory · gradients" in str(compare(report, measured(report), ranks=[0, 1]))
