"""The walk through one ZeRO step as a picture: on every rank, a grid of units (columns) and their
shards (rows) for each term."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, rect, text
from .walk import UNITS, Cell, Moment, unit_words
from .walk_cells import DRAWN_WHOLE, GRID, GRIDS, LEFT, LOOKS, MOVING, PITCH, TERMS, cells, grid
from .walk_words import STATUS, said, summary

WIDTH, HEIGHT = 760, 416
_LETTERS = 40


def scene(state: State, lang: str) -> Scene:
    """What `state["ranks"]` ranks hold at `state["moment"]` under `state["stage"]`."""
    ranks, stage, moment = state["ranks"], state["stage"], state["moment"]
    titles = {status: t(*words, lang) for status, words in STATUS.items()}
    return {
        "items": [
            *_frame(ranks, moment, lang),
            *cells(ranks, stage, moment, titles),
            *_words(ranks, stage, moment, lang),
            *_key(lang),
        ],
        "alt": summary(ranks, stage, moment, lang),
    }


def _tops() -> dict[str, int]:
    """Top edge of each term's grid."""
    return {term: GRIDS + i * PITCH for i, term in enumerate(TERMS)}


def _frame(ranks: int, moment: Moment, lang: str) -> Iterator[Item]:
    """Names of ranks, units and shards, and which unit computes."""
    drawn = grid(ranks)
    for rank, x in drawn.columns.items():
        middle = x + drawn.width / 2
        yield text(f"rank{rank}", middle, 18, f"rank {rank:,}", anchor="middle", bold=True)
        yield from _letters(rank, x, drawn.each, moment, lang)
    yield text("units", LEFT - 8, _LETTERS, t("unit", "单元", lang), "soft", 12, "end")
    for term, top in _tops().items():
        for shard, y in drawn.rows.items():
            words = t(f"shard {shard:,}", f"分片 {shard:,}", lang)
            at = top + y + drawn.height / 2 + 4
            yield text(f"shard-{term}{shard}", LEFT - 8, at, words, "soft", 12, "end")
    if ranks > DRAWN_WHOLE:
        middle = (drawn.columns[2] + drawn.width + drawn.columns[ranks - 1]) / 2
        yield text("more-ranks", middle, 18, "⋯", "soft", 16, "middle")
        for term, top in _tops().items():
            yield text(f"more{term}", middle, top + GRID / 2 + 4, "⋯", "soft", 16, "middle")


def _letters(rank: int, x: float, each: float, moment: Moment, lang: str) -> Iterator[Item]:
    """The units' letters above a rank's columns; the one that computes on a dark ground."""
    if moment.unit >= 0:
        left, top = x + moment.unit * each + 1, _LETTERS - 13
        yield rect(f"computes{rank}", left, top, each - 2, 18, "ink", rx=3)
    for unit in range(len(UNITS)):
        active, middle = unit == moment.unit, x + (unit + 0.5) * each
        yield text(
            f"letter{rank}-{unit}",
            middle,
            _LETTERS,
            letter(unit, lang),
            "paper" if active else "soft",
            12,
            "middle",
            bold=active,
            title=t(*unit_words(unit), lang),
        )


def letter(unit: int, lang: str) -> str:
    """What stands for a unit above its column: a block's number, E for the embedding, H for the
    head."""
    ends = {"embedding": t("E", "嵌", lang), "head": t("H", "出", lang)}
    return ends.get(UNITS[unit], UNITS[unit][7:])


def _words(ranks: int, stage: str, moment: Moment, lang: str) -> Iterator[Item]:
    """Above each grid, what it shows."""
    told = said(ranks, stage, moment, lang)
    for (term, top), (name, words) in zip(_tops().items(), told, strict=True):
        yield text(f"name-{term}", 0, top - 8, name, bold=True)
        yield text(f"said-{term}", LEFT + 1.5, top - 8, words, size=12)


@cache
def _key(lang: str) -> tuple[Item, ...]:
    """What the colours mean, a column for each kind of bytes; below, what the letters mean."""
    entries = (
        (Cell("old"), t("parameters (dot: updated)", "参数（圆点：已更新）", lang)),
        (Cell("gathered"), t("gathered, soon freed", "收集来的，用完释放", lang)),
        (Cell("sum"), t("summed gradient", "求和后的梯度", lang)),
        (Cell("local"), t("gradient of own data", "自己数据的梯度", lang)),
        (Cell("filling"), t("not summed, soon freed", "尚未求和，稍后释放", lang)),
        (Cell("empty"), t("used up, memory kept", "已用完，仍占内存", lang)),
        (Cell("held"), t("optimizer states", "优化器状态", lang)),
        (Cell("host"), t("optimizer in the host", "主机内存中的优化器", lang)),
    )
    items: list[Item] = []
    for i, (cell, words) in enumerate(entries):
        x, y = (0, 196, 378, 556)[i // 2], HEIGHT - 48 + 20 * (i % 2)
        fill, outline = LOOKS[cell.status]
        items.append(rect(f"key-{cell.status}", x + 1, y - 10, 12, 12, fill, rx=2, **outline))
        items.append(text(f"key-name-{cell.status}", x + 20, y, words, size=12))
        if cell.status == "old":
            items.append(circle("key-dot", x + 7, y - 4, 2.5, "paper"))
    items.append(rect("key-moving", 1, HEIGHT - 18, 12, 12, "void", rx=2, **MOVING))
    wire = t("outlined: on the wire", "粗框：正在传输", lang)
    items.append(text("key-name-moving", 20, HEIGHT - 8, wire, size=12))
    first, last = letter(0, lang), letter(len(UNITS) - 1, lang)
    blocks = t(
        f"units: {first} embedding · 0–{len(UNITS) - 3} blocks (more in a larger model) ·"
        f" {last} head, with the final norm",
        f"单元：“{first}”嵌入层 · 0–{len(UNITS) - 3} 各层（大模型的层更多）· “{last}”"
        "输出层与最后的归一化",
        lang,
    )
    return *items, text("key-units", 196, HEIGHT - 8, blocks, size=12)
