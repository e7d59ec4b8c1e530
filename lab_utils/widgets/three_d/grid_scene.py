"""The ranks on their machines, and the group of rank 0 along one axis."""

from __future__ import annotations

from collections.abc import Iterator

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, path, rect, text
from .costs import SITES
from .orders import ORDERS, stride

WIDTH, HEIGHT = 760, 316
_NODE = 8
_TOP = 84


def gpus_of(state: State) -> int:
    """Ranks of the chosen cluster."""
    return SITES[state["site"]].gpus


def sizes_of(state: State) -> dict[str, int]:
    """Ranks along each axis; dp takes what tp and pp leave."""
    tp, pp = state["tp"], state["pp"]
    return {"tp": tp, "pp": pp, "dp": gpus_of(state) // (tp * pp) or 1}


def stride_of(state: State) -> int:
    """How far apart neighbours on the shown axis stand."""
    return stride(sizes_of(state), state["order"], state["axis"])


def group_number(rank: int, state: State) -> int:
    """The first rank of a rank's group on the shown axis."""
    apart, size = stride_of(state), sizes_of(state)[state["axis"]]
    return rank - rank // apart % size * apart


def group_of_rank_0(state: State) -> list[int]:
    """The ranks of rank 0's group on the shown axis."""
    return [stride_of(state) * i for i in range(sizes_of(state)[state["axis"]])]


def machines_of_group(state: State) -> int:
    """Machines that the group of rank 0 stands on."""
    return len({rank // _NODE for rank in group_of_rank_0(state)})


def scene(state: State, lang: str) -> Scene:
    """All machines, eight ranks each; the group of rank 0 dark."""
    gpus = gpus_of(state)
    if state["tp"] * state["pp"] > gpus:
        words = t(
            f"tp {state['tp']} × pp {state['pp']} is more than {gpus} ranks.",
            f"tp {state['tp']} × pp {state['pp']} 超过了 {gpus} 个 rank。",
            lang,
        )
        return {"items": [text("refused", 0, 24, words, "fire", bold=True)], "alt": words}
    words, items = _words(state, lang), []
    items.append(text("head", 0, 22, words, size=15, bold=True))
    sizes = sizes_of(state)
    grid = " × ".join(f"{axis} {sizes[axis]}" for axis in state["order"])
    bar = ORDERS.index(tuple(state["order"])) + 1
    note = t(
        f"{grid}, outermost first; bar {bar} below is the step in this order",
        f"{grid}，最外层在前；下面第 {bar} 条是按这个顺序的一步",
        lang,
    )
    items.append(text("grid", 0, 46, note, "soft", 12))
    group = group_of_rank_0(state)
    items += _small(group, gpus, lang) if gpus > 64 else _large(group, gpus, lang)
    return {"items": items, "alt": f"{words} {note}{t('.', '。', lang)}"}


def _words(state: State, lang: str) -> str:
    axis, size, nodes = state["axis"], sizes_of(state)[state["axis"]], machines_of_group(state)
    apart = stride_of(state)
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
        f"Rank 0's {axis} group: {size} ranks, {apart} apart, {where}.",
        f"rank 0 的 {axis} 组：{size} 个 rank，间隔 {apart}，{where}。",
        lang,
    )


def _large(group: list[int], gpus: int, lang: str) -> Iterator[Item]:
    """Up to eight machines, every rank with its number."""
    cell, mine = (42 if gpus > _NODE else 72), set(group)
    for node in range(gpus // _NODE):
        x, y = 192 * (node % 4), _TOP + 122 * (node // 4)
        label = t(f"machine {node}", f"机器 {node}", lang)
        yield text(f"machine{node}", x, y - 6, label, "soft", 12)
        yield rect(f"box{node}", x, y, 4 * cell + 8, 2 * cell + 8, "void", stroke="rule", rx=4)
        for i in range(_NODE):
            rank = node * _NODE + i
            shade = "blue5" if rank in mine else "blue1"
            left, top = x + 5 + cell * (i % 4), y + 5 + cell * (i // 4)
            yield rect(f"rank{rank}", left, top, cell - 3, cell - 3, shade, rx=3)
            yield text(
                f"number{rank}",
                left + cell / 2 - 2,
                top + cell / 2 + 3,
                str(rank),
                f"on-{shade}",
                12,
                "middle",
            )


def _small(group: list[int], gpus: int, lang: str) -> Iterator[Item]:
    """64 machines, eight to a line; all ranks are one outline, and the group's another, so that a
    slider moves two things and not five hundred."""
    for line in range(gpus // 64):
        label = t(f"ranks {64 * line}–", f"rank {64 * line}–", lang)
        yield text(f"line{line}", 0, _TOP - 4 + 29 * line, label, "soft", 12)
    for node in range(gpus // _NODE):
        x, y = _place(node * _NODE)
        yield rect(f"small{node}", x - 3, y - 2.5, 79, 26, "void", stroke="rule", rx=3)
    yield path("all", _cells(range(gpus)), fill="blue2")
    yield path("group", _cells(group), fill="blue5")


def _place(rank: int) -> tuple[int, int]:
    node, i = divmod(rank, _NODE)
    return 89 + 84 * (node % 8) + 18 * (i % 4), _TOP - 18 + 29 * (node // 8) + 11 * (i // 4)


def _cells(ranks: list[int] | range) -> str:
    return "".join("M{} {}h16v9h-16z".format(*_place(rank)) for rank in ranks)
