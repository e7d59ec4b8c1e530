"""The walk through one ZeRO step as a picture: on every rank, a grid of units (columns) and their shards (rows) for each term."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ..i18n import t
from .controls import State, say
from .scene import Item, Scene, rect, text
from .zero_walk import LAST, UNITS, Cell, Moment, gradients, moment_words, optimizer, parameters, stage_words, unit_words, wire

WIDTH, HEIGHT = 760, 396
DRAWN_WHOLE = 4             # up to so many ranks every rank and every shard is drawn; above, the first three and the last
_LEFT, _RIGHT, _BETWEEN, _ELLIPSIS = 96, 756, 22, 44
_LETTERS, _GRIDS, _GRID, _PITCH = 40, 68, 72, 100
_TERMS = {"parameters": parameters, "gradients": gradients, "optimizer": optimizer}
_FILLS = {"absent": "void", "old": "blue3", "new": "blue5", "gathered": "sand", "local": "blue1", "filling": "sand", "sum": "blue4", "empty": "paper",
          "held": "blue2", "host": "paper"}  # fmt: skip


def scene(state: State, lang: str) -> Scene:
    """What `state["ranks"]` ranks hold at `state["moment"]` under `state["stage"]`."""
    ranks, stage, moment = state["ranks"], state["stage"], state["moment"]
    return {"items": [*_frame(ranks, moment, lang), *_cells(ranks, stage, moment, lang), *_words(ranks, stage, moment, lang), *_key(lang)],
            "alt": _summary(ranks, stage, moment, lang)}  # fmt: skip


def _columns(ranks: int) -> tuple[dict[int, float], float]:
    """Left edge of each drawn rank, and the width of all."""
    if ranks <= DRAWN_WHOLE:
        width = (_RIGHT - _LEFT + _BETWEEN) / ranks - _BETWEEN
        return {rank: _LEFT + rank * (width + _BETWEEN) for rank in range(ranks)}, width
    width = (_RIGHT - _LEFT - _ELLIPSIS + _BETWEEN) / DRAWN_WHOLE - _BETWEEN
    left = {rank: _LEFT + rank * (width + _BETWEEN) for rank in range(3)}
    return left | {ranks - 1: _RIGHT - width}, width


def _rows(ranks: int) -> tuple[dict[int, float], float]:
    """Top of each drawn shard within a grid, and the height of all."""
    if ranks <= DRAWN_WHOLE:
        return {shard: shard * _GRID / ranks for shard in range(ranks)}, _GRID / ranks
    height = (_GRID - 12) / DRAWN_WHOLE
    return {shard: shard * height for shard in range(3)} | {ranks - 1: _GRID - height}, height


def _tops() -> dict[str, int]:
    """Top edge of each term's grid."""
    return {term: _GRIDS + i * _PITCH for i, term in enumerate(_TERMS)}


def _frame(ranks: int, moment: Moment, lang: str) -> Iterator[Item]:
    """Names of ranks, units and shards, and which unit computes."""
    (columns, width), (rows, height), tops = _columns(ranks), _rows(ranks), _tops()
    each = width / len(UNITS)
    for rank, x in columns.items():
        yield text(f"rank{rank}", x + width / 2, 18, f"rank {rank:,}", anchor="middle", bold=True)
        if moment.unit >= 0:
            yield rect(f"computes{rank}", x + moment.unit * each + 1, _LETTERS - 13, each - 2, 18, "ink", rx=3)
        for unit in range(len(UNITS)):
            active = unit == moment.unit
            yield text(f"letter{rank}-{unit}", x + (unit + 0.5) * each, _LETTERS, _letter(unit, lang), "paper" if active else "soft", 12, "middle", bold=active)
    yield text("drawn", 0, 18, t(f"{len(UNITS) - 2} blocks drawn", f"以 {len(UNITS) - 2} 层为例", lang), "soft", 12)
    yield text("units", _LEFT - 8, _LETTERS, t("unit", "单元", lang), "soft", 12, "end")
    for term, top in tops.items():
        for shard, y in rows.items():
            yield text(f"shard-{term}{shard}", _LEFT - 8, top + y + height / 2 + 4, t(f"shard {shard:,}", f"分片 {shard:,}", lang), "soft", 12, "end")
    if ranks > DRAWN_WHOLE:
        middle = (columns[2] + width + columns[ranks - 1]) / 2
        yield text("more-ranks", middle, 18, "⋯", "soft", 16, "middle")
        for term, top in tops.items():
            yield text(f"more{term}", middle, top + _GRID / 2 + 4, "⋯", "soft", 16, "middle")


def _cells(ranks: int, stage: str, moment: Moment, lang: str) -> Iterator[Item]:
    (columns, width), (rows, height) = _columns(ranks), _rows(ranks)
    each = width / len(UNITS)
    for (term, top), held in zip(_tops().items(), _TERMS.values(), strict=True):
        for rank, x in columns.items():
            for unit in range(len(UNITS)):
                for shard, y in rows.items():
                    cell = held(stage, moment, unit, rank == shard)
                    yield _cell(f"{term}{rank}-{unit}-{shard}", x + unit * each, top + y, each, height, cell, _place(rank, unit, shard, lang), lang)


@lru_cache(maxsize=4096)        # from moment to moment most stay as they are
def _cell(key: str, x: float, y: float, width: float, height: float, cell: Cell, place: str, lang: str) -> Item:
    title = place + t(*_STATUS[cell.status], lang) + (t(", on the wire", "，正在传输", lang) if cell.moving else "")
    return rect(key, x + 1.5, y + 1.5, width - 3, height - 3, _FILLS[cell.status], rx=2, title=title, **_outline(cell))


def _outline(cell: Cell) -> dict[str, str | float]:
    if cell.moving:
        return {"stroke": "fire", "stroke-width": 2}
    if cell.status == "empty":
        return {"stroke": "soft", "stroke-dasharray": "2 3"}
    if cell.status == "host":
        return {"stroke": "blue4", "stroke-width": 1.5}
    return {"stroke": "blue3"} if cell.status in ("local", "held") else {}


def _letter(unit: int, lang: str) -> str:
    return {"embedding": t("E", "嵌", lang), "head": t("H", "出", lang)}.get(UNITS[unit], UNITS[unit][7:])


_STATUS = {
    "absent": ("not here", "不在此处"), "old": ("parameters", "参数"), "new": ("updated parameters", "更新后的参数"),
    "gathered": ("gathered, will be freed", "临时聚合，用完释放"), "local": ("gradient of this rank's data", "本 rank 数据的梯度"),
    "filling": ("gradient of this rank's data, will be freed", "本 rank 数据的梯度，稍后释放"),
    "sum": ("gradient, summed over the ranks", "各 rank 求和后的梯度"),
    "empty": ("empty, memory kept", "无内容，仍占内存"), "held": ("optimizer states", "优化器状态"), "host": ("in the host's memory", "在主机内存中"),
}  # fmt: skip


@lru_cache(maxsize=4096)
def _place(rank: int, unit: int, shard: int, lang: str) -> str:
    return t(f"rank {rank:,}, {unit_words(unit)[0]}, shard {shard:,}: ", f"rank {rank:,}，{unit_words(unit)[1]}，分片 {shard:,}：", lang)


def _words(ranks: int, stage: str, moment: Moment, lang: str) -> Iterator[Item]:
    """Above each grid, what it shows."""
    for (term, top), (name, words) in zip(_tops().items(), _said(ranks, stage, moment, lang), strict=True):
        yield text(f"name-{term}", 0, top - 8, name, bold=True)
        yield text(f"said-{term}", _LEFT + 1.5, top - 8, words, size=12)


def _said(ranks: int, stage: str, moment: Moment, lang: str) -> list[tuple[str, str]]:
    """(term, what the ranks hold of it)."""
    return [
        (t("parameters", "参数", lang), say(_said_parameters(stage, moment), lang)),
        (t("gradients", "梯度", lang), say(_said_gradients(ranks, stage, moment), lang)),
        (t("optimizer", "优化器", lang), say(_said_optimizer(stage, moment), lang)),
    ]


def _said_parameters(stage: str, moment: Moment) -> tuple[str, str]:
    phase, at = moment
    if stage in ("0", "1", "2"):
        if phase == "update" and stage != "0":
            return "each rank has updated its own shard; its copy of the others is old", "每个 rank 更新了自己的分片，手里其余分片仍是旧的"
        if phase == "publish":
            return "the updated shards have gone round: new everywhere", "更新后的分片已发给所有 rank，各处参数都已更新"
        return ("whole on every rank" + ", updated" * (phase == "update"), "每个 rank 都有完整的一份" + "，已更新" * (phase == "update"))
    if phase == "update":
        return "only its own shard, updated; no more is needed before the next step", "只有自己的分片，已更新；下一步之前不需要更多"
    if phase not in ("forward", "backward"):
        return "each rank holds only its own shard", "每个 rank 只有自己的分片"
    (en, zh), ahead = unit_words(at), at + 1 if phase == "forward" else at - 1
    if not 0 <= ahead <= LAST:
        return f"its own shard, and {en} gathered", f"自己的分片，加上聚合而来的{zh}"
    next_en, next_zh = unit_words(ahead)
    return f"its own shard, {en} gathered, {next_en} arriving", f"自己的分片，聚合而来的{zh}，以及正在到达的{next_zh}"


def _said_gradients(ranks: int, stage: str, moment: Moment) -> tuple[str, str]:
    phase, at = moment
    if phase in ("start", "forward"):
        if stage in ("0", "1"):
            return "none yet; their memory is kept from step to step", "尚无，但所占内存一直保留"
        return "none yet", "尚无"
    if phase != "backward":
        if stage == "0":
            return f"whole on every rank, summed over the {ranks:,} ranks", f"每个 rank 都有完整的一份，已对 {ranks:,} 个 rank 求和"
        summed = f"its own shard, summed over the {ranks:,} ranks", f"自己的分片，已对 {ranks:,} 个 rank 求和"
        return (f"{summed[0]}; the rest is used up but keeps its memory", f"{summed[1]}；其余已用完，但仍占内存") if stage == "1" else summed
    en, zh = unit_words(at)
    if stage == "0":
        return f"computed down to {en}, of each rank's own data only", f"已算到{zh}，只来自各自的数据"
    if at == LAST:
        return f"{en} being computed, of each rank's own data", f"正在计算{zh}的梯度，只来自各自的数据"
    next_en, next_zh = unit_words(at + 1)
    rest = ("; of what is summed, its own shard", "；已求和的只留自己的分片")
    if stage == "1":
        rest = ("; what is summed stays whole in memory", "；已求和的仍整份占着内存")
    if at + 1 == LAST:
        rest = "", ""
    return f"{en} being computed, {next_en} being summed{rest[0]}", f"{zh}正在计算，{next_zh}正在求和{rest[1]}"


def _said_optimizer(stage: str, moment: Moment) -> tuple[str, str]:
    where = {"0": ("whole on every rank", "每个 rank 都有完整的一份"), "offload": ("its own shard, in the host's memory", "自己的分片，放在主机内存中")}.get(
        stage, ("only its own shard", "只有自己的分片"))  # fmt: skip
    return (f"{where[0]}, used just now", f"{where[1]}，刚刚用到") if moment.phase == "update" else where


def _key(lang: str) -> Iterator[Item]:
    """What the colours mean, by luminance."""
    entries = (
        (Cell("new"), t("updated parameters", "更新后的参数", lang)), (Cell("old"), t("parameters", "参数", lang)),
        (Cell("gathered"), t("here for a moment", "暂时停留，用完释放", lang)), (Cell("held"), t("optimizer states", "优化器状态", lang)),
        (Cell("sum"), t("summed gradient", "求和后的梯度", lang)), (Cell("local"), t("gradient of its own data", "自己数据的梯度", lang)),
        (Cell("empty"), t("empty, memory kept", "无内容，仍占内存", lang)), (Cell("absent", moving=True), t("on the wire", "正在传输", lang)),
    )  # fmt: skip
    for i, (cell, words) in enumerate(entries):
        x, y = 190 * (i % 4), HEIGHT - 26 + 20 * (i // 4)
        yield rect(f"key-{cell.status}", x + 1, y - 10, 12, 12, _FILLS[cell.status], rx=2, **_outline(cell))
        yield text(f"key-name-{cell.status}", x + 20, y, words, size=12)


def _summary(ranks: int, stage: str, moment: Moment, lang: str) -> str:
    what = "".join(t(f" {name.capitalize()}: {words}.", f"{name}：{words}。", lang) for name, words in _said(ranks, stage, moment, lang))
    begun = wire(stage, moment)
    names = {op: op.replace("_", "-") for op, _ in begun}
    listed = [f"{names[op]} × {len(begun)}" for op in names] if len(begun) > 2 else [_call(names[op], unit, lang) for op, unit in begun]
    on_wire = t(f" On the wire: {', '.join(listed) or 'nothing'}.", f"通信：{'、'.join(listed) or '无'}。", lang)
    stage_name, moment_name = say(stage_words(stage), lang), say(moment_words(moment), lang)
    where = t(f"{capital(stage_name)} on {ranks:,} ranks, {moment_name}.", f"{ranks:,} 个 rank，{stage_name}，{moment_name}。", lang)
    return where + what + on_wire


def capital(words: str) -> str:
    """The words with a capital first letter, the others as they are."""
    return words[0].upper() + words[1:]


def _call(op: str, unit: str, lang: str) -> str:
    if unit not in UNITS:
        return t(f"{op} of the gradients", f"梯度的 {op}", lang)
    what = say(unit_words(UNITS.index(unit)), lang)
    return t(f"{op} of {what}", f"{what}的 {op}", lang)
