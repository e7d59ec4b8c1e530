"""Two reports side by side: what is equal, what is missing, what is wrong, as a table and as a
figure."""

from __future__ import annotations

import math

import plotly.graph_objects as go
import pytest
from IPython.core.formatters import DisplayFormatter
from test_report import estimated, measured

from lab_utils import i18n
from lab_utils.comparison import compare
from lab_utils.figure_style import DARK, WORST, WRONG


def test_a_notebook_shows_the_table_that_print_prints():
    side_by_side = compare(estimated(), measured(estimated())).only("memory")
    bundle, _ = DisplayFormatter().format(side_by_side)
    assert bundle["text/plain"] == str(side_by_side)
    assert bundle["text/html"].count("<tr>") == len(str(side_by_side).splitlines()) > 3


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
    report = measured(estimated(), activations=None, temporary=None)
    rows = compare(report, measured(report, activations=5)).rows
    row = next(r for r in rows if r.term == "activations")
    assert (row.estimated, row.measured, row.error) == (None, 5, None)
    assert not compare(report, measured(report, activations=5)).exact("memory")
    assert not any(r.term == "temporary" for r in rows)  # looked at by neither side


def test_the_sign_and_size_of_an_error():
    report = estimated()
    twice, none = (
        compare(report, measured(report, optimizer=n * report.ranks[0].memory["optimizer"]))
        for n in (2, 0)
    )
    assert twice.worst().error == -0.5
    assert math.isinf(none.worst().error)


def test_the_table_says_what_is_exact(monkeypatch):
    report = estimated()
    comparison = compare(
        report, measured(report, gradients=report.ranks[0].memory["gradients"] * 2)
    )
    lines = str(comparison).splitlines()
    shown = [r for r in comparison.rows if r.estimated or r.measured]
    assert len(lines) == len(shown) + 1 < len(comparison.rows) + 1
    assert sum("exact" in line for line in lines) == sum(r.error == 0 for r in shown)
    assert "-50.0%" in next(line for line in lines if "gradients" in line)
    monkeypatch.setattr(i18n, "_chosen", "zh")
    assert "完全一致" in str(comparison)
    assert "内存 · 梯度" in str(comparison)


def test_the_figure_shows_both_sides_of_every_term_and_the_wrong_one_stands_out(monkeypatch):
    report = estimated()
    held = report.ranks[0].memory
    comparison = compare(
        report, measured(report, gradients=held["gradients"] * 2, optimizer=held["optimizer"] + 4)
    )
    figure = comparison.figure()
    assert isinstance(figure, go.Figure)
    pairs = list(zip(figure.data[::2], figure.data[1::2], strict=True))
    assert len(pairs) == len(
        {r.group for r in comparison.rows if r.error is not None and (r.estimated or r.measured)}
    )
    shown = {
        term: (e, m, colour, said)
        for a, b in pairs
        for term, e, m, colour, said in zip(a.y, a.x, b.x, b.marker.color, b.text, strict=True)
    }
    assert shown["memory · gradients"] == (
        held["gradients"],
        2 * held["gradients"],
        WORST,
        "<b>-50.0%</b>",
    )
    off = -400 / (held["optimizer"] + 4)
    # four bytes of millions: not exact, and it says so
    assert shown["memory · optimizer"][2:] == (WRONG, f"<b>{off:.1g}%</b>")
    exact = {
        term for term, (_, _, colour, said) in shown.items() if (colour, said) == (DARK, "exact")
    }
    assert exact == set(shown) - {"memory · gradients", "memory · optimizer"}
    monkeypatch.setattr(i18n, "_chosen", "zh")
    assert "内存 · 梯度" in [term for trace in comparison.figure().data for term in trace.y]


def test_what_was_live_at_the_peak_is_compared_where_both_sides_know_it():
    report = measured(estimated(), peak=None, at_peak=None)
    known = measured(report, peak=12, at_peak={"parameters": 4, "activations": 8})
    assert not any(r.term.startswith("at peak") for r in compare(report, known).rows)
    rows = {
        r.term: r
        for r in compare(known, measured(known, at_peak={"parameters": 4, "temporary": 8})).rows
    }
    assert rows["at peak: parameters"].error == 0
    assert (rows["at peak: activations"].estimated, rows["at peak: activations"].measured) == (8, 0)
    assert rows["at peak: temporary"].measured == 8
