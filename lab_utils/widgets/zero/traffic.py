"""What every ZeRO stage sends in one step, by collective, against plain data parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from ...i18n import t
from ...report import Traffic
from ..frame.controls import State, say
from ..frame.scene import Item, Scene, line, rect, text
from ..frame.units import digits, nbytes
from .bars import TOTAL, Rows, Segment, figures
from .colours import FILLS
from .costs import Setting, sent, traffic
from .held_words import row_name
from .measured import measured_traffic
from .walk import STAGES, stage_words
from .walk_words import capital

HEIGHT = 280
_TOP, _ROW, _BAR = 96, 34, 22
_SHOWN = STAGES[:4]  # what goes to the host does not go to other ranks
# what each operation carries
OPS = {"all_reduce": "gradients", "reduce_scatter": "gradients", "all_gather": "parameters"}


def words(op: str, lang: str) -> str:
    """What an operation carries."""
    return t(
        *{
            "all_reduce": ("all-reduce of gradients", "梯度 all-reduce"),
            "reduce_scatter": ("reduce-scatter of gradients", "梯度 reduce-scatter"),
            "all_gather": ("all-gather of parameters", "参数 all-gather"),
        }[op],
        lang,
    )


def scene(state: State, lang: str) -> Scene:
    """The chosen stage in figures, then all stages as bars; the dashed line is what plain data
    parallelism sends."""
    setting, stage = Setting.of(state), state["stage"]
    items = [
        *figures(_figures(setting, stage, lang)),
        _rows(setting).chosen(_SHOWN.index(_shown(stage))),
        *_common(setting, lang),
        *_names(setting, stage, lang),
        *_notes(setting, stage, lang),
    ]
    return {"items": items, "alt": _summary(setting, stage, lang)}


@lru_cache(maxsize=2)  # the chosen stage runs fastest
def _common(setting: Setting, lang: str) -> tuple[Item, ...]:
    return tuple(_bars(setting, lang))


def ratio(setting: Setting, stage: str) -> Fraction:
    """Bytes sent ÷ bytes that plain data parallelism sends."""
    return Fraction(sent(traffic(setting, stage)), sent(traffic(setting, "0")))


def _times(setting: Setting, stage: str) -> str:
    """1 is written as 1 only where it is; padding makes it a little more."""
    exact = ratio(setting, stage)
    shown = digits(float(exact))
    return (
        f"{shown.rstrip('0').rstrip('.') if '.' in shown and exact == Fraction(shown) else shown} ×"
    )


def _calls(entries: tuple[Traffic, ...], op: str) -> int:
    return sum(entry.calls for entry in entries if entry.op == op)


def _figures(setting: Setting, stage: str, lang: str) -> list[tuple[str, str, str]]:
    entries = traffic(setting, stage)
    calls = " + ".join(
        f"{_calls(entries, op)} {op.replace('_', '-')}" for op in OPS if _calls(entries, op)
    )
    of_gradients = sum(entry.wire_bytes for entry in entries if entry.purpose == "gradient")
    gradient, parameter = nbytes(of_gradients), nbytes(sent(entries) - of_gradients)
    return [
        (
            t("each rank sends, per step", "每个 rank 每步发送", lang),
            nbytes(sent(entries)),
            t(
                f"gradients {gradient}, parameters {parameter}",
                f"梯度 {gradient}，参数 {parameter}",
                lang,
            ),
        ),
        (
            t("against plain data parallelism", "与普通数据并行相比", lang),
            _times(setting, stage),
            t(
                f"which sends {nbytes(sent(traffic(setting, '0')))}",
                f"普通数据并行发送 {nbytes(sent(traffic(setting, '0')))}",
                lang,
            ),
        ),
        (
            t("collectives per step", "每步的集合通信次数", lang),
            f"{sum(entry.calls for entry in entries):,}",
            calls,
        ),
    ]


def _shown(stage: str) -> str:
    return "3" if stage == "offload" else stage


def _rows(setting: Setting) -> Rows:
    scale = max(sent(traffic(setting, stage)) for stage in _SHOWN)
    plain = Rows(_TOP, _ROW, _BAR, scale).x(sent(traffic(setting, "0")))
    return Rows(_TOP, _ROW, _BAR, scale, (plain,))


def _bars(setting: Setting, lang: str) -> Iterator[Item]:
    rows = _rows(setting)
    for i, stage in enumerate(_SHOWN):
        by_op, measured = _by_op(traffic(setting, stage)), measured_traffic(setting, stage)
        segments = [
            Segment(op, FILLS[carried], by_op[op], (words(op, lang), op.replace("_", "-")))
            for op, carried in OPS.items()
        ]
        yield from rows.stack(f"{stage}-", i, segments, lang)
        if measured:
            yield from rows.ticks(f"{stage}-", i, _by_op(measured))
    (x,), dashes = rows.lines, {"stroke-dasharray": "5 3"}
    yield line("plain", x, _TOP - 8, x, rows.y(len(_SHOWN)), "fire", 2, **dashes)
    yield text("plain-name", x, _TOP - 12, "1 ×", "fire", 12, "middle", bold=True)


def _by_op(entries: tuple[Traffic, ...]) -> dict[str, int]:
    """Bytes on the wire by operation."""
    return {op: sum(entry.wire_bytes for entry in entries if entry.op == op) for op in OPS}


def _names(setting: Setting, chosen: str, lang: str) -> Iterator[Item]:
    for i, stage in enumerate(_SHOWN):
        y, bold = _TOP + i * _ROW + 16, stage == _shown(chosen)
        yield text(f"row{stage}", 8, y, row_name(stage, lang), "ink", 13, bold=bold)
        yield text(f"ratio{stage}", TOTAL, y, f"{_times(setting, stage)}", "ink", 13, bold=bold)


def agrees(setting: Setting, stage: str) -> bool | None:
    """Whether what was really sent is what is estimated, call by call; None where nothing was
    measured."""
    measured = measured_traffic(setting, stage)
    return measured and set(measured) == set(traffic(setting, stage))


def _notes(setting: Setting, stage: str, lang: str) -> Iterator[Item]:
    y = _TOP + len(_SHOWN) * _ROW + 14
    carried = {
        "gradients": t(
            "gradients: all-reduce, or reduce-scatter", "梯度：all-reduce 或 reduce-scatter", lang
        ),
        "parameters": t("parameters: all-gather", "参数：all-gather", lang),
    }
    for x, (name, said) in zip((0, 330), carried.items(), strict=True):
        yield rect(f"key-{name}", x, y - 11, 13, 13, FILLS[name])
        yield text(f"key-name-{name}", x + 20, y, said, size=12)
    verdicts = [agrees(setting, stage) for stage in STAGES]
    if any(verdict is not None for verdict in verdicts):
        note = (
            t(
                "▲ measured, call by call and byte by byte: the same as estimated.",
                "▲ 实测值：逐次、逐字节与估算相同。",
                lang,
            )
            if all(verdicts)
            else t("▲ measured ≠ estimated.", "▲ 实测 ≠ 估算。", lang)
        )
    else:
        note = t(
            "Estimated for rings: what one rank sends to others in one optimizer step.",
            "按环形算法估算：一个 rank 在一个优化器步里发给其他 rank 的数据。",
            lang,
        )
    host = (
        t(" What offload moves to the host is not in it.", "不含卸载到主机的数据。", lang)
        if stage == "offload"
        else ""
    )
    yield text("note", 0, HEIGHT - 8, note + host, "soft", 12)


def _summary(setting: Setting, stage: str, lang: str) -> str:
    m, entries = setting.micro_batches, traffic(setting, stage)
    name = capital(say(stage_words(stage), lang))
    why = {
        "0": (
            "one sum of the gradients, however many micro-batches.",
            "不论多少个微批次，梯度只求和一次。",
        ),
        "1": (
            "the two halves of an all-reduce, with the optimizer step between them.",
            "把 all-reduce 拆成两半，优化器更新夹在中间。",
        ),
        "2": (
            "gradients leave after every micro-batch, new parameters once.",
            "每个微批次之后都送走梯度，新参数只分发一次。",
        ),
    }.get(
        stage,
        (
            "in every micro-batch parameters arrive twice and gradients leave once.",
            "每个微批次都要收集两次参数、送走一次梯度。",
        ),
    )
    times = _times(setting, stage)
    against = t(
        f"{times} plain data parallelism", f"是普通数据并行的 {times.removesuffix(' ×')} 倍", lang
    )
    if stage == "0" or ratio(setting, stage) == 1:
        against = (
            t("the yardstick", "作为比较的基准", lang)
            if stage == "0"
            else t("as much as plain data parallelism", "与普通数据并行相同", lang)
        )
    return t(
        f"{name}, {setting.ranks:,} ranks, {m} micro-batch{'es' * (m > 1)}: each sends"
        f" {nbytes(sent(entries))} per step, {against}: {why[0]}",
        f"{name}，{setting.ranks:,} 个 rank，{m} 个微批次：每个 rank 每步发送"
        f" {nbytes(sent(entries))}，{against}：{why[1]}",
        lang,
    )
