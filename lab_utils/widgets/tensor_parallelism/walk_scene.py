"""The walk through a block as a picture: matrices with their cuts on top, a lane for each rank, the
operators below."""

from __future__ import annotations

from collections.abc import Iterator

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, line, rect, text
from .walk import (
    COLUMNS,
    CUT,
    ENTERS,
    LEAVES,
    WEIGHTS,
    Moment,
    alive,
    at_work,
    gathers_again,
    part_of_gradient,
    part_of_tensor,
    travels,
)
from .walk_words import CUTS, NAMES, OPERATORS, PARTS, counted, operators, said, summary

WIDTH, HEIGHT = 760, 460
_LEFT, _PITCH, _CELL = 64, 46.4, 40
_MATRIX, _SIDE, _NAMES, _LANES, _LANES_END = 44, 44, 120, 130, 338
_FILL = {"whole": "blue4", "tokens": "blue4", "features": "blue2", "summand": "sand"}


def scene(state: State, lang: str) -> Scene:
    """A block on `state["ranks"]` ranks at `state["moment"]`, with or without sequence
    parallelism."""
    ranks, moment = state["ranks"], state["moment"]
    sequence = state["sequence"] and ranks > 1
    return {
        "items": [
            *_matrices(ranks, moment, lang),
            *_names(moment, lang),
            *_lanes(ranks, sequence, moment, lang),
            *_operators(ranks, sequence, moment, lang),
            *_words(ranks, sequence, moment, lang),
        ],
        "alt": summary(ranks, sequence, moment, lang),
    }


def _x(column: int) -> float:
    return _LEFT + column * _PITCH


def _shown(ranks: int) -> list[int]:
    """The ranks that are drawn: all up to four, above the first three and the last."""
    return list(range(ranks)) if ranks <= 4 else [0, 1, 2, ranks - 1]


def _matrices(ranks: int, moment: Moment, lang: str) -> Iterator[Item]:
    """The four matrices, in as many slices as ranks; rank 0's is filled."""
    yield text("weights", 0, _MATRIX + 18, t("weights", "权重", lang), bold=True)
    yield text("weights-of", 0, _MATRIX + 34, t("dark: rank 0", "深色：rank 0", lang), "soft", 10)
    busy = at_work(moment)
    for name, column in WEIGHTS.items():
        x = _x(column) - 2
        for rank in range(ranks):
            each = _SIDE / ranks
            by_columns = CUT[name] == "columns"
            left, top = (x + rank * each, _MATRIX) if by_columns else (x, _MATRIX + rank * each)
            width, height = (each, _SIDE) if by_columns else (_SIDE, each)
            fill = "blue5" if rank == 0 else "blue1"
            yield rect(f"w-{name}{rank}", left, top, width, height, fill, stroke="blue3")
        stroke = "fire" if busy == name else "blue3"
        frame = {"stroke": stroke, "stroke-width": 3 if busy == name else 1}
        yield rect(f"w-{name}", x, _MATRIX, _SIDE, _SIDE, "none", **frame)
        words = t(*CUTS[CUT[name]], lang)
        yield text(f"w-cut-{name}", x + _SIDE / 2, _MATRIX + 60, words, "soft", 11, "middle")


def _names(moment: Moment, lang: str) -> Iterator[Item]:
    for column, words in enumerate(NAMES):
        now = column == moment.column
        ink = "fire" if now else "soft"
        middle = _x(column) + _CELL / 2
        name = t(*words, lang)
        yield text(f"name{column}", middle, _NAMES, name, ink, 12, "middle", bold=now)


def _lanes(ranks: int, sequence: bool, moment: Moment, lang: str) -> Iterator[Item]:
    """On every rank, a box for each tensor; what is there fills its part of it."""
    shown = _shown(ranks)
    pitch = min(80.0, (_LANES_END - _LANES) / len(shown))
    height = min(64.0, pitch - 8)
    for lane, rank in enumerate(shown):
        y = _LANES + lane * pitch
        yield text(f"rank{rank}", 0, y + height / 2 + 4, f"rank {rank}", bold=True)
        for column in range(COLUMNS):
            x, key = _x(column), f"{rank}-{column}"
            yield rect(f"slot{key}", x, y, _CELL, height, "void", rx=2)
            gradient = moment.phase == "backward" and column == moment.column
            if gradient:
                part = part_of_gradient(column, sequence)
            elif alive(column, moment, sequence):
                part = part_of_tensor(column, sequence)
            else:
                continue
            now = column == moment.column
            left, top, wide, high = x, y, float(_CELL), height
            if part == "features":
                wide, left = _CELL / ranks, x + rank * _CELL / ranks
            elif part == "tokens":
                high, top = height / ranks, y + rank * height / ranks
            outline = {"stroke": "fire", "stroke-width": 2} if now else {}
            title = t(*PARTS[part], lang)
            fill = _FILL[part]
            yield rect(f"cell{key}", left, top, wide, high, fill, rx=1, title=title, **outline)
            if gradient:
                at = top + high / 2 + 5
                size = 14 if min(wide, high) > 12 else 9
                if min(wide, high) >= 8:
                    ink = f"on-{fill}"
                    yield text(f"d{key}", left + wide / 2, at, "∂", ink, size, "middle", bold=True)
        if gathers_again(moment, sequence):
            x = _x(moment.column)
            frame = {"stroke": "blue5", "stroke-width": 1, "stroke-dasharray": "3 2"}
            yield rect(f"again{rank}", x + 3, y + 3, _CELL - 6, height - 6, "none", **frame)


def _operators(ranks: int, sequence: bool, moment: Moment, lang: str) -> Iterator[Item]:
    """Under each ENTER and LEAVE, what it does forward and backward; the one at work in fire."""
    top = _LANES_END + 14
    yield text("op-forward", 0, top, t("forward", "前向", lang), "soft", 12)
    yield text("op-backward", 0, top + 18, t("backward", "反向", lang), "soft", 12)
    if ranks == 1:
        return
    op = travels(moment, sequence)
    for column in (*ENTERS, *LEAVES):
        middle = _x(column) + _CELL / 2
        phases = zip(("forward", "backward"), operators(column, sequence), strict=True)
        for row, (phase, name) in enumerate(phases):
            place = column if phase == "forward" else column - 1
            now = op is not None and moment == Moment(phase, place)
            ink, words = "fire" if now else "ink", t(*OPERATORS[name], lang)
            y = top + 18 * row
            yield text(f"op{column}-{phase}", middle, y, words, ink, 12, "middle", bold=now)
            if now and op != "identity":
                x = _x(place) + _CELL + 3 if phase == "backward" else _x(place) - 3
                yield line(f"wire{column}", x, _LANES - 2, x, _LANES_END - 6, "fire", 4)


def _words(ranks: int, sequence: bool, moment: Moment, lang: str) -> Iterator[Item]:
    left = 2  # a T begins up to a pixel left of its place
    yield text("said", left, 20, said(ranks, sequence, moment, lang), size=14)
    count = counted(ranks, sequence, moment, lang)
    yield text("counted", left, HEIGHT - 62, count, bold=True)
    x = 0.0
    for part, fill in (("whole", "blue4"), ("features", "blue2"), ("summand", "sand")):
        words = t(*PARTS[part], lang)
        yield rect(f"key-{part}", x + 1, HEIGHT - 45, 12, 12, fill, rx=2)
        yield text(f"key-name-{part}", x + 20, HEIGHT - 35, words, size=12)
        x += 225
    note = t(
        "a box's height: all tokens (a strip: 1/N of them) · its width: all features"
        " · ∂: the gradient",
        "格子的高：全部词元（横条：1/N）· 宽：全部特征 · ∂：梯度",
        lang,
    )
    yield text("key-note", 0, HEIGHT - 8, note, "soft", 12)
