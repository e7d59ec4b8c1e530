"""What the walk says: names of columns and moments, what a rank has, what travels."""

from __future__ import annotations

from ...i18n import t
from .walk import (
    CUT,
    MOMENTS,
    NORMS,
    Moment,
    at_work,
    calls_until,
    gathers_again,
    part_of_gradient,
    part_of_tensor,
    travels,
)

NAMES: tuple[tuple[str, str], ...] = (
    ("x", "x"),
    ("norm", "归一化"),
    ("enter", "进入"),
    ("q k v", "q k v"),
    ("heads", "各头"),
    ("out", "输出"),
    ("leave", "离开"),
    ("x", "x"),
    ("norm", "归一化"),
    ("enter", "进入"),
    ("up", "up"),
    ("gelu", "gelu"),
    ("down", "down"),
    ("leave", "离开"),
    ("x", "x"),
)
PARTS = {
    "whole": ("whole, alike on all ranks", "完整，各 rank 相同"),
    "tokens": ("1/N of the tokens", "1/N 的词元"),
    "features": ("1/N of the width", "1/N 的宽度"),
    "summand": ("a summand of full size", "完整大小的加数"),
}
WEIGHT_NAMES = {
    "qkv": ("Query, key, value", "query、key、value"),
    "out": ("Attention output", "注意力输出投影"),
    "up": ("MLP up", "MLP 的 up"),
    "down": ("MLP down", "MLP 的 down"),
}
OPERATORS = {
    "identity": ("identity", "恒等"),
    "all-reduce": ("all-reduce", "all-reduce"),
    "all-gather": ("all-gather", "all-gather"),
    "reduce-scatter": ("reduce-scatter", "reduce-scatter"),
}
CUTS = {"columns": ("cut by columns", "按列切"), "rows": ("cut by rows", "按行切")}


def option(moment: Moment) -> tuple[str, str]:
    """A moment's name on the slider."""
    number, last = MOMENTS.index(moment), len(MOMENTS) - 1
    if number == 0:
        return "start", "开始"
    en, zh = NAMES[moment.column]
    if moment.phase == "forward":
        return f"forward: {en} ({number} of {last})", f"前向：{zh}（{number} / {last}）"
    return f"backward: {en} ({number} of {last})", f"反向：{zh}（{number} / {last}）"


def said(ranks: int, sequence: bool, moment: Moment, lang: str) -> str:
    """What happens at this moment, in one sentence."""
    if ranks == 1:
        return t(
            "One rank holds everything; nothing travels.", "一个 rank 持有全部，没有通信。", lang
        )
    op, weight = travels(moment, sequence), at_work(moment)
    forward = moment.phase == "forward"
    if gathers_again(moment, sequence):
        return t(
            "The tokens are gathered a second time, for the weights' gradients; the input's"
            " gradient is a summand.",
            "为了算权重的梯度，第二次收集词元；输入的梯度是一个加数。",
            lang,
        )
    if op == "identity":
        return t(
            "Nothing travels: all ranks have the same already.",
            "不必通信：各 rank 手里已经相同。",
            lang,
        )
    if op:
        return _collective(op, moment, lang)
    if weight and forward:
        name, cut = t(*WEIGHT_NAMES[weight], lang), t(*CUTS[CUT[weight]], lang)
        return (
            t(
                f"{name}, {cut}: each rank computes finished numbers of its own.",
                f"{name}，{cut}：每个 rank 算出自己那几个算完的数。",
                lang,
            )
            if CUT[weight] == "columns"
            else t(
                f"{name}, {cut}: each rank computes a summand of everything.",
                f"{name}，{cut}：每个 rank 算出全部结果的一个加数。",
                lang,
            )
        )
    if weight:
        name = t(*WEIGHT_NAMES[weight], lang)
        return t(
            f"Back through this product ({name}): the gradient of its input, and of this rank's"
            " weights.",
            f"反向经过 {name}：得到输入的梯度，以及本 rank 那部分权重的梯度。",
            lang,
        )
    return _local(moment, sequence, lang)


def _collective(op: str, moment: Moment, lang: str) -> str:
    what = {
        "all-reduce": ("the summands become the sum, on every rank", "加数变成和，每个 rank 都有"),
        "all-gather": ("every rank collects the tokens of all", "每个 rank 收集全部词元"),
        "reduce-scatter": (
            "the summands become the sum, 1/N of the tokens on each rank",
            "加数变成和，每个 rank 留 1/N 的词元",
        ),
    }[op]
    gradient = moment.phase == "backward"
    return t(
        f"{op} of {'gradients' if gradient else 'activations'}: {what[0]}.",
        f"{'梯度' if gradient else '激活值'}的 {op}：{what[1]}。",
        lang,
    )


def _local(moment: Moment, sequence: bool, lang: str) -> str:
    if moment.column in NORMS or moment.column in (0, 7, 14):
        if sequence and moment.phase == "backward" and moment.column in (0, 7):
            return t(
                "The norm's own gradient is a summand here: it must be summed over the ranks.",
                "这里归一化层自己的梯度是加数：必须在各 rank 之间求和。",
                lang,
            )
        if sequence:
            return t(
                "Token by token: each rank does its own tokens only.",
                "逐个词元计算：每个 rank 只算自己的词元。",
                lang,
            )
        return t(
            "Every rank does the same, with all tokens.",
            "每个 rank 都对全部词元做同样的计算。",
            lang,
        )
    return t("Each rank by itself: nothing travels.", "各 rank 各算各的，没有通信。", lang)


def has(sequence: bool, moment: Moment, lang: str) -> str:
    """In which part a rank has what was made last."""
    part = part_of_tensor if moment.phase == "forward" else part_of_gradient
    return t(*PARTS[part(moment.column, sequence)], lang)


def counted(ranks: int, sequence: bool, moment: Moment, lang: str) -> str:
    """Collectives of the block so far."""
    calls = calls_until(moment, sequence) if ranks > 1 else {}
    listed = t(", ", "、", lang).join(f"{n} × {op}" for op, n in calls.items())
    return t(
        f"collectives so far: {listed or 'none'}", f"到此为止的集合通信：{listed or '无'}", lang
    )


def summary(ranks: int, sequence: bool, moment: Moment, lang: str) -> str:
    """The picture in words."""
    where, told = t(*option(moment), lang), said(ranks, sequence, moment, lang)
    with_sp = t(", sequence parallelism", "，序列并行", lang) if sequence and ranks > 1 else ""
    part = has(sequence and ranks > 1, moment, lang)
    end = counted(ranks, sequence, moment, lang)
    return t(
        f"A block on {ranks} ranks{with_sp}, {where}. {told} A rank has: {part}; {end}.",
        f"{ranks} 个 rank 上的一层{with_sp}，{where}。{told}每个 rank 持有：{part}；{end}。",
        lang,
    )


def operators(column: int, sequence: bool) -> tuple[str, str]:
    """(forward, backward) of the operator that stands at an ENTER or LEAVE column."""
    back = column - 1
    forward = travels(Moment("forward", column), sequence)
    backward = travels(Moment("backward", back), sequence)
    return str(forward), str(backward)
