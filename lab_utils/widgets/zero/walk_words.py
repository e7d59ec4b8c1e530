"""What the walk through a ZeRO step says: of each term what the ranks hold of it, and what is on
the wire."""

from __future__ import annotations

from ...i18n import t
from ..frame.controls import say
from .walk import LAST, UNITS, Moment, moment_words, stage_words, unit_words, wire

# what a cell's status is called, in its tooltip
STATUS = {
    "old": ("parameters", "参数"),
    "new": ("updated parameters", "更新后的参数"),
    "gathered": ("gathered, will be freed", "临时收集，用完释放"),
    "local": ("gradient of this rank's data", "本 rank 数据的梯度"),
    "filling": ("gradient of this rank's data, will be freed", "本 rank 数据的梯度，稍后释放"),
    "sum": ("gradient, summed over the ranks", "各 rank 求和后的梯度"),
    "empty": ("empty, memory kept", "无内容，仍占内存"),
    "held": ("optimizer states", "优化器状态"),
    "host": ("in the host's memory", "在主机内存中"),
    "moving": ("{}, on the wire", "{}，正在传输"),
}


def said(ranks: int, stage: str, moment: Moment, lang: str) -> list[tuple[str, str]]:
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
            return (
                "each rank has updated its own shard; its copy of the others is old",
                "每个 rank 更新了自己的分片，手里其余分片仍是旧的",
            )
        if phase == "gather":
            return (
                "the updated shards have gone round: new everywhere",
                "更新后的分片已发给所有 rank，各处参数都已更新",
            )
        return (
            "whole on every rank" + ", updated" * (phase == "update"),
            "每个 rank 都有完整的一份" + "，已更新" * (phase == "update"),
        )
    if phase == "update":
        return (
            "only its own shard, updated; no more is needed before the next step",
            "只有自己的分片，已更新；下一步之前不需要更多",
        )
    if phase not in ("forward", "backward"):
        return "each rank holds only its own shard", "每个 rank 只有自己的分片"
    (en, zh), ahead = unit_words(at), at + 1 if phase == "forward" else at - 1
    if not 0 <= ahead <= LAST:
        return f"its own shard, and {en} gathered", f"自己的分片，加上收集来的{zh}"
    next_en, next_zh = unit_words(ahead)
    return (
        f"its own shard, {en} gathered, {next_en} arriving",
        f"自己的分片，收集来的{zh}，以及正在到达的{next_zh}",
    )


def _said_gradients(ranks: int, stage: str, moment: Moment) -> tuple[str, str]:
    phase, at = moment
    if phase in ("start", "forward"):
        if stage in ("0", "1"):
            return "none yet; their memory is kept from step to step", "尚无，但所占内存一直保留"
        return "none yet", "尚无"
    if phase != "backward":
        if stage == "0":
            return (
                f"whole on every rank, summed over the {ranks:,} ranks",
                f"每个 rank 都有完整的一份，已对 {ranks:,} 个 rank 求和",
            )
        summed = (
            f"its own shard, summed over the {ranks:,} ranks",
            f"自己的分片，已对 {ranks:,} 个 rank 求和",
        )
        return (
            (
                f"{summed[0]}; the rest is used up but keeps its memory",
                f"{summed[1]}；其余已用完，但仍占内存",
            )
            if stage == "1"
            else summed
        )
    en, zh = unit_words(at)
    if stage == "0":
        return (
            f"computed down to {en}, of each rank's own data only",
            f"已算到{zh}，只来自各自的数据",
        )
    if at == LAST:
        return (
            f"{en} being computed, of each rank's own data",
            f"正在计算{zh}的梯度，只来自各自的数据",
        )
    next_en, next_zh = unit_words(at + 1)
    rest = ("; of what is summed, its own shard", "；已求和的只留自己的分片")
    if stage == "1":
        rest = ("; what is summed stays whole in memory", "；已求和的仍整份占着内存")
    if at + 1 == LAST:
        rest = "", ""
    return (
        f"{en} being computed, {next_en} being summed{rest[0]}",
        f"{zh}正在计算，{next_zh}正在求和{rest[1]}",
    )


def _said_optimizer(stage: str, moment: Moment) -> tuple[str, str]:
    where = {
        "0": ("whole on every rank", "每个 rank 都有完整的一份"),
        "offload": ("its own shard, in the host's memory", "自己的分片，放在主机内存中"),
    }.get(stage, ("only its own shard", "只有自己的分片"))
    return (
        (f"{where[0]}, used just now", f"{where[1]}，刚刚用到")
        if moment.phase == "update"
        else where
    )


def summary(ranks: int, stage: str, moment: Moment, lang: str) -> str:
    what = "".join(
        t(f" {name.capitalize()}: {words}.", f"{name}：{words}。", lang)
        for name, words in said(ranks, stage, moment, lang)
    )
    begun = wire(stage, moment)
    names = {op: op.replace("_", "-") for op, _ in begun}
    listed = (
        [f"{names[op]} × {len(begun)}" for op in names]
        if len(begun) > 2
        else [_call(names[op], unit, lang) for op, unit in begun]
    )
    on_wire = t(
        f" On the wire: {', '.join(listed) or 'nothing'}.",
        f"通信：{'、'.join(listed) or '无'}。",
        lang,
    )
    stage_name, moment_name = say(stage_words(stage), lang), say(moment_words(moment), lang)
    where = t(
        f"{capital(stage_name)} on {ranks:,} ranks, {moment_name}.",
        f"{ranks:,} 个 rank，{stage_name}，{moment_name}。",
        lang,
    )
    return where + what + on_wire


def capital(words: str) -> str:
    """The words with a capital first letter, the others as they are."""
    return words[0].upper() + words[1:]


def _call(op: str, unit: str, lang: str) -> str:
    if unit not in UNITS:
        return t(f"{op} of the gradients", f"梯度的 {op}", lang)
    what = say(unit_words(UNITS.index(unit)), lang)
    return t(f"{op} of {what}", f"{what}的 {op}", lang)
