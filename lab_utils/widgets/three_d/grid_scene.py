"""The ranks on their machines, and one axis's groups among them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, rect, text
from .costs import GPU, GPUS

WIDTH, HEIGHT = 760, 316
ORDERS = (("dp", "pp", "tp"), ("pp", "dp", "tp"), ("tp", "pp", "dp"))  # the outermost first
_NODE = GPU.ranks_per_node
_CELL, _TOP = 42, 84


def sizes_of(state: State) -> dict[str, int]:
    """Ranks along each axis; dp takes what tp and pp leave."""
    return {"tp": state["tp"], "pp": state["pp"], "dp": GPUS // (state["tp"] * state["pp"]) or 1}


def stride_of(state: State) -> int:
    """How far apart neighbours on the shown axis stand: the product of the sizes inside it."""
    order, sizes = state["order"], sizes_of(state)
    return prod(sizes[name] for name in order[order.index(state["axis"]) + 1 :])


def group_number(rank: int, state: State) -> int:
    """The first rank of a rank's group on the shown axis."""
    stride, size = stride_of(state), sizes_of(state)[state["axis"]]
    return rank - rank // stride % size * stride


def machines_of_group(state: State) -> int:
    """Machines that the group of rank 0 stands on."""
    mine = {rank // _NODE for rank in range(GPUS) if group_number(rank, state) == 0}
    return len(mine)


def scene(state: State, lang: str) -> Scene:
    """Eight machines of eight ranks; the group of rank 0 dark."""
    if state["tp"] * state["pp"] > GPUS:
        words = t("more than 64 ranks.", "超过 64 个 rank。", lang)
        return {"items": [text("refused", 0, 24, words, "fire", bold=True)], "alt": words}
    words, items = _words(state, lang), []
    items.append(text("head", 0, 22, words, size=15, bold=True))
    sizes = sizes_of(state)
    grid = " × ".join(f"{axis} {sizes[axis]}" for axis in state["order"])
    note = t(f"{grid}, outermost first", f"{grid}，最外层在前", lang)
    items.append(text("grid", 0, 46, note, "soft", 12))
    items += _machines(state, lang)
    return {"items": items, "alt": f"{words} {note}{t('.', '。', lang)}"}


def _words(state: State, lang: str) -> str:
    axis, size, nodes = state["axis"], sizes_of(state)[state["axis"]], machines_of_group(state)
    stride = stride_of(state)
    if size == 1:
        return t(
            f"{axis} = 1: every rank is a group of its own.",
            f"{axis} = 1：每个 rank 自成一组。",
            lang,
        )
    where = (
        t("all on one machine", "都在一台机器上", lang)
        if nodes == 1
        else t(f"spread over {nodes} machines", f"分布在 {nodes} 台机器上", lang)
    )
    return t(
        f"Rank 0's {axis} group: {size} ranks, {stride} apart, {where}.",
        f"rank 0 的 {axis} 组：{size} 个 rank，间隔 {stride}，{where}。",
        lang,
    )


def _machines(state: State, lang: str) -> Iterator[Item]:
    for node in range(GPUS // _NODE):
        x, y = 192 * (node % 4), _TOP + 122 * (node // 4)
        label = t(f"machine {node}", f"机器 {node}", lang)
        yield text(f"machine{node}", x, y - 6, label, "soft", 12)
        yield rect(f"box{node}", x, y, 4 * _CELL + 8, 2 * _CELL + 8, "void", stroke="rule", rx=4)
        for i in range(_NODE):
            rank = node * _NODE + i
            shade = "blue5" if group_number(rank, state) == 0 else "blue1"
            left, top = x + 5 + _CELL * (i % 4), y + 5 + _CELL * (i // 4)
            yield rect(f"rank{rank}", left, top, _CELL - 3, _CELL - 3, shade, rx=3)
            yield text(f"number{rank}", left + 19, top + 24, str(rank), f"on-{shade}", 12, "middle")
