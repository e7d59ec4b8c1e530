"""What every ZeRO stage sends in one step, by collective, against plain data parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from ..i18n import t
from ..report import Traffic
from .controls import State, say
from .scene import Item, Scene, line, path, rect, text
from .units import digits, nbytes
from .zero_bytes import label, row_name
from .zero_costs import Setting, sent, traffic
from .zero_measured import measured_traffic
from .zero_walk import STAGES, stage_words
from .zero_walk_scene import capital

WIDTH, HEIGHT = 760, 280
_X, _LENGTH, _RATIO = 118, 500, 628
_TOP, _ROW, _BAR = 96, 34, 22
_SHOWN = STAGES[:4]         # what goes to the host does not go to other ranks
FILLS = {"all_reduce": "blue4", "reduce_scatter": "blue3", "all_gather": "sand"}


def words(op: str, lang: str) -> str:
    """What an operation carries."""
    return t(*{"all_reduce": ("all-reduce of gradients", "梯度 all-reduce"), "reduce_scatter": ("reduce-scatter of gradients", "梯度 reduce-scatter"),
               "all_gather": ("all-gather of parameters", "参数 all-gather")}[op], lang)  # fmt: skip


def scene(state: State, lang: str) -> Scene:
    """The chosen stage in figures, then all stages as bars; the dashed line is what plain data parallelism sends."""
    setting, stage = Setting.of(state), state["stage"]
    items = [*_figures(setting, stage, lang), _chosen(stage), *_common(setting, lang), *_names(setting, stage, lang), *_notes(setting, stage, lang)]
    return {"items": items, "alt": _summary(setting, stage, lang)}


@lru_cache(maxsize=2)       # the chosen stage runs fastest
def _common(setting: Setting, lang: str) -> tuple[Item, ...]:
    return tuple(_bars(setting, lang))


def ratio(setting: Setting, stage: str) -> Fraction:
    """Bytes sent ÷ bytes that plain data parallelism sends."""
    return Fraction(sent(traffic(setting, stage)), sent(traffic(setting, "0")))


def _times(setting: Setting, stage: str) -> str:
    """1 is written as 1 only where it is; padding makes it a little more."""
    exact = ratio(setting, stage)
    shown = digits(float(exact))
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown and exact == Fraction(shown) else shown} ×"


def _calls(entries: tuple[Traffic, ...], op: str) -> int:
    return sum(entry.calls for entry in entries if entry.op == op)


def _figures(setting: Setting, stage: str, lang: str) -> Iterator[Item]:
    entries = traffic(setting, stage)
    calls = " + ".join(f"{_calls(entries, op)} {op.replace('_', '-')}" for op in FILLS if _calls(entries, op))
    of_gradients = sum(entry.wire_bytes for entry in entries if entry.purpose == "gradient")
    gradient, parameter = nbytes(of_gradients), nbytes(sent(entries) - of_gradients)
    figures = (
        (t("each rank sends, per step", "每个 rank 每步发送", lang), nbytes(sent(entries)),
         t(f"gradients {gradient}, parameters {parameter}", f"梯度 {gradient}，参数 {parameter}", lang)),
        (t("against plain data parallelism", "与普通数据并行相比", lang), _times(setting, stage),
         t(f"which sends {nbytes(sent(traffic(setting, '0')))}", f"普通数据并行发送 {nbytes(sent(traffic(setting, '0')))}", lang)),
        (t("collectives per step", "每步的集合通信次数", lang), f"{sum(entry.calls for entry in entries):,}", calls),
    )  # fmt: skip
    for i, (name, value, detail) in enumerate(figures):
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, size=26, bold=True)
        yield text(f"figure-detail{i}", 256 * i, 66, detail, "soft", 12)


def _shown(stage: str) -> str:
    return "3" if stage == "offload" else stage


def _chosen(stage: str) -> Item:
    return rect("chosen", 0, _TOP + _SHOWN.index(_shown(stage)) * _ROW - 4, WIDTH, _ROW - 2, "void", rx=4, stroke="soft")


def _bars(setting: Setting, lang: str) -> Iterator[Item]:
    scale = max(sent(traffic(setting, stage)) for stage in _SHOWN)
    x = _X + sent(traffic(setting, "0")) / scale * _LENGTH
    for i, stage in enumerate(_SHOWN):
        y = _TOP + i * _ROW
        yield from _stack(f"{stage}-", traffic(setting, stage), y, scale, x, lang)
        measured = measured_traffic(setting, stage)
        if measured:
            yield from _ticks(f"{stage}-", measured, y + _BAR, scale)
    yield line("plain", x, _TOP - 8, x, _TOP + len(_SHOWN) * _ROW, "fire", 2, **{"stroke-dasharray": "5 3"})
    yield text("plain-name", x, _TOP - 12, "1 ×", "fire", 12, "middle", bold=True)


def _stack(key: str, entries: tuple[Traffic, ...], y: float, scale: int, plain: float, lang: str) -> Iterator[Item]:
    start = _X
    for op, fill in FILLS.items():
        amount = sum(entry.wire_bytes for entry in entries if entry.op == op)
        width = amount / scale * _LENGTH
        if not amount:
            continue
        yield rect(f"{key}{op}", start, y, width - 1, _BAR, fill, title=words(op, lang) + t(": ", "：", lang) + nbytes(amount))
        yield from label(f"{key}{op}-name", start, start + width, y + 15.5, [words(op, lang), op.replace("_", "-")], f"on-{fill}", [plain])
        start += width


def _ticks(key: str, measured: tuple[Traffic, ...], y: float, scale: int) -> Iterator[Item]:
    """A mark under the end of each collective, where the bytes really sent put it."""
    before = 0
    for op in FILLS:
        amount = sum(entry.wire_bytes for entry in measured if entry.op == op)
        before += amount
        if amount:
            x = _X + before / scale * _LENGTH
            yield path(f"{key}tick-{op}", f"M{x - 4:.1f} {y + 6}h8l-4 -6z", fill="ink")


def _names(setting: Setting, chosen: str, lang: str) -> Iterator[Item]:
    for i, stage in enumerate(_SHOWN):
        y, bold = _TOP + i * _ROW + 16, stage == _shown(chosen)
        yield text(f"row{stage}", 8, y, row_name(stage, lang), "ink", 13, bold=bold)
        yield text(f"ratio{stage}", _RATIO, y, f"{_times(setting, stage)}", "ink", 13, bold=bold)


def agrees(setting: Setting, stage: str) -> bool | None:
    """Whether what was really sent is what is estimated, call by call; None where nothing was measured."""
    measured = measured_traffic(setting, stage)
    return measured and set(measured) == set(traffic(setting, stage))


def _notes(setting: Setting, stage: str, lang: str) -> Iterator[Item]:
    y = _TOP + len(_SHOWN) * _ROW + 14
    for x, op in zip((0, 200, 430), FILLS, strict=True):
        yield rect(f"key-{op}", x, y - 11, 13, 13, FILLS[op])
        yield text(f"key-name-{op}", x + 20, y, words(op, lang), size=12)
    verdicts = [agrees(setting, stage) for stage in STAGES]
    if any(verdict is not None for verdict in verdicts):
        note = (t("▲ measured, call by call and byte by byte: the same as estimated.", "▲ 实测值：逐次、逐字节与估算相同。", lang) if all(verdicts)
                else t("▲ measured ≠ estimated.", "▲ 实测 ≠ 估算。", lang))  # fmt: skip
    else:
        note = t("Estimated for rings: what one rank sends to others in one optimizer step.",
                 "按环形算法估算：一个 rank 在一个优化器步里发给其他 rank 的数据。", lang)  # fmt: skip
    host = t(" What offload moves to the host is not in it.", "不含卸载到主机的数据。", lang) if stage == "offload" else ""
    yield text("note", 0, HEIGHT - 8, note + host, "soft", 12)


def _summary(setting: Setting, stage: str, lang: str) -> str:
    m, entries = setting.micro_batches, traffic(setting, stage)
    name = capital(say(stage_words(stage), lang))
    why = {
        "0": ("one sum of the gradients, however many micro-batches.", "不论多少个微批次，梯度只求和一次。"),
        "1": ("the two halves of an all-reduce, with the optimizer step between them.", "把 all-reduce 拆成两半，优化器更新夹在中间。"),
        "2": ("gradients leave after every micro-batch, new parameters once.", "每个微批次之后都送走梯度，新参数只分发一次。"),
    }.get(stage, ("in every micro-batch parameters arrive twice and gradients leave once.", "每个微批次都要聚合两次参数、送走一次梯度。"))
    times = _times(setting, stage)
    against = t(f"{times} plain data parallelism", f"是普通数据并行的 {times.removesuffix(' ×')} 倍", lang)
    if stage == "0" or ratio(setting, stage) == 1:
        against = t("the yardstick", "作为比较的基准", lang) if stage == "0" else t("as much as plain data parallelism", "与普通数据并行相同", lang)
    return t(f"{name}, {setting.ranks:,} ranks, {m} micro-batch{'es' * (m > 1)}: each sends {nbytes(sent(entries))} per step, {against}: {why[0]}",
             f"{name}，{setting.ranks:,} 个 rank，{m} 个微批次：每个 rank 每步发送 {nbytes(sent(entries))}，{against}：{why[1]}", lang)  # fmt: skip
