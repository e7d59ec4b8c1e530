"""One step of training, moment by moment, drawn as it proceeds: what every layer has saved, what
runs twice, and the curve of saved bytes up to now."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, line, path, rect, text
from ..frame.units import NO_BREAK, nbytes
from .costs import LAYERS, Point, curve, recomputed
from .measured import measured
from .walk import (
    FORWARD,
    MOMENTS,
    Moment,
    columns_of,
    comes_back,
    part_words,
    policy_of,
    runs_twice,
    saved_at,
    shown,
)
from .walk_words import figures_of, note, summary

WIDTH, HEIGHT = 760, 448
_X, _COLUMN = 96, 41  # the first moment's column, and the width of each
_ROWS, _ROW = 108, 17  # the layers, the head below them
_BASE, _CURVE = 404, 150  # the curve's zero line and height
# bytes at the curve's top; a test holds that no choice saves more
_SCALE = 160e6


def scene(state: State, lang: str) -> Scene:
    """The chosen moment in figures, the timeline of every layer, the curve."""
    policy, moment = policy_of(state), state["moment"]
    figures = figures_of(policy, moment, lang)
    items = [
        *_figure_items(figures),
        _cursor(moment),
        *_timeline(policy, MOMENTS.index(moment), lang),
        *_grid(),
        *_curve(policy, MOMENTS.index(moment)),
        *_peak(policy, MOMENTS.index(moment), lang),
        *_marker(policy, moment),
        text("note", 0, HEIGHT - 8, note(policy, lang), "soft", 12),
    ]
    return {"items": items, "alt": summary(policy, figures, lang)}


def _figure_items(figures: list[tuple[str, str, str]]) -> Iterator[Item]:
    for i, (name, value, detail) in enumerate(figures):
        x = (0, 232, 464)[i]
        yield text(f"figure-name{i}", x, 18, name, "soft")
        yield text(f"figure{i}", x, 46, value, size=26, bold=True)
        yield text(f"figure-detail{i}", x, 66, detail, "soft", 12)


def _left(index: int) -> int:
    return _X + index * _COLUMN


def _cursor(moment: Moment) -> Item:
    return rect(
        "cursor",
        _left(MOMENTS.index(moment)),
        _ROWS - 3,
        _COLUMN,
        _BASE - _ROWS + 3,
        "void",
        rx=4,
        stroke="soft",
    )


@cache
def _timeline(policy: str, now: int, lang: str) -> tuple[Item, ...]:
    """Up to now, from each layer's forward to its backward pass: thick where it keeps all it saved,
    thin where only its input, sand where it is back."""
    turn = _left(len(FORWARD)) + 4
    forward, backward = (
        t("forward pass →", "前向传播 →", lang),
        t("backward pass →", "反向传播 →", lang),
    )
    items = [
        text("forward", _left(0) + 4, _ROWS - 8, forward, "soft", 12),
        text("backward", turn, _ROWS - 8, backward, "soft", 12),
    ]
    for row, part in enumerate((*range(LAYERS), "head_loss")):
        y = _ROWS + row * _ROW
        items.append(text(f"row-{part}", 0, y + 12, t(*part_words(part), lang), size=12))
        items += _bar(policy, part, y, now, lang)
    return tuple(items)


def _bar(policy: str, part: int | str, y: float, now: int, lang: str) -> Iterator[Item]:
    """What a layer holds, as far as the step has come."""
    start, end = (MOMENTS.index(Moment(phase, part)) for phase in ("forward", "backward"))
    if now < start:
        return
    name, colon = t(*part_words(part), lang), t(": ", "：", lang)
    before, _, after = saved_at(policy, MOMENTS[start])
    whole = part in recomputed(policy)
    height = 3 if whole else 8 if runs_twice(policy, part) else 12
    x, width = _left(start), _left(min(end + (not whole), now + 1)) - _left(start) - 2
    kept = (
        name + colon + t(f"{nbytes(after - before)} saved", f"保存 {nbytes(after - before)}", lang)
    )
    bar = (x, y + 7.5 - height / 2, width, height, "blue3")
    yield rect(f"kept-{part}", *bar, rx=1.5, title=kept)
    if runs_twice(policy, part) and now >= end:
        back = nbytes(comes_back(policy, MOMENTS[end]))
        words = name + colon + t(f"forward again, +{back}", f"再次前向，+{back}", lang)
        bar = (_left(end), y + 1.5, _COLUMN - 2, 12, "sand")
        yield rect(f"again-{part}", *bar, rx=1.5, title=words)


def _y(saved: float) -> float:
    return _BASE - saved / _SCALE * _CURVE


def _corners(column: tuple[Point, ...], index: int) -> Iterator[tuple[float, int]]:
    """(x, saved bytes) of the points of one column, evenly spread over it."""
    for i, point in enumerate(column):
        yield _left(index) + i * _COLUMN / max(1, len(column) - 1), point.saved


@cache
def _grid() -> tuple[Item, ...]:
    items = []
    for saved in (0, 50, 100, 150):
        y, words = _y(saved * 1e6), f"{saved}{NO_BREAK}MB"
        items += [
            line(f"grid{saved}", _X, y, _left(len(MOMENTS)), y),
            text(f"grid-name{saved}", _X - 12, y + 4, words, "soft", 12, "end"),
        ]
    return tuple(items)


@cache
def _curve(policy: str, now: int) -> tuple[Item, ...]:
    """The saved bytes of every moment up to now; sand on top: what was computed again."""
    return *(_curve(policy, now - 1) if now else ()), *_column(policy, now)


def _column(policy: str, index: int) -> Iterator[Item]:
    """One moment's part of the curve."""
    above = list(_corners(columns_of(policy)[index], index))
    outline = "L".join(f"{x:.0f} {_y(saved):.1f}" for x, saved in above)
    # half a unit into the next one, or a seam would show
    end = _left(index + 1) + 0.5
    ground = f"M{_left(index)} {_BASE}L{outline}L{end} {_y(above[-1][1]):.1f}V{_BASE}Z"
    yield path(f"area{index}", ground, fill="blue2")
    if MOMENTS[index].phase == "backward" and runs_twice(policy, MOMENTS[index].part):
        # below it is what was never away
        least = accumulate((saved for _, saved in above), min)
        below = list(zip((x for x, _ in above), least, strict=True))
        corners = [f"{x:.0f} {_y(saved):.1f}" for x, saved in (*above, *reversed(below))]
        yield path(f"bump{index}", f"M{'L'.join(corners)}Z", fill="sand")


def _peak(policy: str, now: int, lang: str) -> Iterator[Item]:
    """The most that was saved up to now; at the peak, where the real run had it."""
    most = max(point.saved for column in columns_of(policy)[: now + 1] for point in column)
    end, y, reached = _left(len(MOMENTS)), _y(most), most == curve(policy).peak
    words = (
        t(f"peak {nbytes(most)}", f"峰值 {nbytes(most)}", lang)
        if reached
        else t(f"so far {nbytes(most)}", f"至此 {nbytes(most)}", lang)
    )
    yield line("peak", _X, y, end, y, "fire", 1.5, **{"stroke-dasharray": "5 3"})
    yield text("peak-name", end - 4, y - 5, words, "fire", 12, "end", bold=True)
    run = measured(policy)
    if run and reached:
        yield path("measured", f"M{_X - 6} {_y(run.activations) - 4:.1f}v8l6 -4z", fill="ink")


def _marker(policy: str, moment: Moment) -> Iterator[Item]:
    index = MOMENTS.index(moment)
    x, saved = next(
        corner
        for corner in reversed(list(_corners(columns_of(policy)[index], index)))
        if corner[1] == shown(policy, moment)
    )
    yield line("now", x, _y(saved), x, _BASE, "ink", 2)
