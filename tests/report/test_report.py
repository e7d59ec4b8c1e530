"""Reports: the JSON that any tool can read, and two of them side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from math import isnan
from typing import Any

import pytest

from lab_utils import Cluster, TrainConfig, compare, estimate
from lab_utils.report import RankReport, Report, Traffic

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
    assert set(raw) >= {
        "schema",
        "kind",
        "engine",
        "device",
        "world_size",
        "config",
        "parameters",
        "loss",
        "flops",
        "tokens_per_second",
        "mfu",
        "segments",
        "ranks",
    }
    assert raw["schema"] == 1
    assert raw["world_size"] == 2
    assert {"model", "hardware"} <= set(raw["flops"])
    rank = raw["ranks"][1]
    assert set(rank) == {"rank", "coords", "memory", "traffic", "time"}
    assert rank["coords"] == {"dp": 1, "pp": 0, "cp": 0, "tp": 0}
    assert {"parameters", "gradients", "optimizer", "activations", "buckets", "peak"} <= set(
        rank["memory"]
    )
    assert set(rank["traffic"][0]) == {"op", "axis", "purpose", "calls", "bytes", "wire_bytes"}
    assert set(rank["time"]) == {"compute", "communication", "bubble", "data", "step", "hidden"}


def test_parts_of_the_estimated_time_add_up():
    time = estimated().ranks[0].time
    assert sum(
        time[part] for part in ("compute", "communication", "bubble", "data")
    ) == pytest.approx(time["step"], rel=1e-12)


def test_totals_select_by_every_key():
    rank = RankReport(
        0,
        {},
        traffic=(
            Traffic("all_reduce", "dp", "gradient", 2, 8, 6),
            Traffic("send", "pp", "activation", 1, 5, 5),
        ),
    )
    assert rank.total() == 13
    assert rank.total("calls") == 3
    assert rank.total("wire_bytes", purpose="gradient", axis="dp") == 6
    assert rank.total("bytes", purpose="gradient", axis="pp") == 0


def test_a_diverged_loss_is_null_in_json_and_comes_back():
    report = replace(measured(estimated()), loss=(5.5, float("nan"), float("inf")))
    raw = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert raw["loss"] == [5.5, None, None]
    first, *rest = Report.from_dict(raw).loss
    assert first == 5.5
    assert all(isnan(loss) for loss in rest)


def damaged() -> Iterator[tuple[str, dict]]:
    """A report with one value after the other gone, or of another type."""
    good = json.loads(measured(estimated(), at_peak={"parameters": 4}).to_json())
    places = [(), ("ranks", 0), ("ranks", 0, "traffic", 0), ("ranks", 0, "memory")]
    places += [("ranks", 0, "time"), ("ranks", 0, "coords"), ("ranks", 0, "memory", "at_peak")]
    for place in places:
        for name in list(_at(good, place)):
            for wrong in (None, "word", [[]], {"x": {}}):
                raw = deepcopy(good)
                if wrong is None:
                    del _at(raw, place)[name]
                else:
                    _at(raw, place)[name] = wrong
                yield f"{'.'.join(map(str, (*place, name)))} = {wrong}", raw


def _at(raw: Any, place: tuple) -> Any:
    for key in place:
        raw = raw[key]
    return raw


def test_a_damaged_report_is_refused_with_the_place_or_read():
    """Never by an error that says nothing: neither in reading it nor in comparing it."""
    good = estimated()
    cases = refused = 0
    for name, raw in damaged():
        cases += 1
        try:
            str(compare(good, Report.from_dict(raw), ranks=[0, 1]))
        except ValueError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{name}: {error!r}")
    assert cases > 150
    assert refused > cases / 2
