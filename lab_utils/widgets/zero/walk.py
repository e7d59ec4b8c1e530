"""Who holds what during one step with ZeRO, as data: for every moment, each shard of each unit on
its owner and elsewhere.

ZeRO's order is that of its events (played.py), with one micro-batch and the units of the `tiny`
model (larger models have more blocks in between); the order of plain data parallelism stands here.
Ranks differ only in which shard is theirs, so what a rank holds of a shard depends on whether it
owns it.
"""

from __future__ import annotations

from typing import NamedTuple

from ...layout.zero_events import gathers_after_update
from ..frame.controls import Option
from .played import UNITS, Moment, Played, played

# offload: ZeRO-3 with its optimizer states in the host's memory
STAGES = ("0", "1", "2", "3", "offload")
LAST = len(UNITS) - 1


class Cell(NamedTuple):
    """One shard of one unit on one rank. `moving`: a collective is bringing it, or its sum, just
    now.

    `status`: "absent"; of parameters "old", "new" (updated) or "gathered" (here until the unit has
    computed); of gradients "local" (this rank's data only), "filling" (the same, in a buffer that
    will be freed), "sum" (over all ranks) or "empty" (memory is kept for it, but nothing of use is
    in it); of optimizer states "held" or "host".
    """

    status: str
    moving: bool = False


ABSENT = Cell("absent")


def moments(stage: str) -> list[Moment]:
    """The moments of one step, in order."""
    forward = [Moment("forward", unit) for unit in range(len(UNITS))]
    backward = [Moment("backward", unit) for unit in reversed(range(len(UNITS)))]
    gather = [Moment("gather")] if gathers_after_update(_number(stage)) else []
    return [Moment("start"), *forward, *backward, Moment("sum"), Moment("update"), *gather]


def options(stage: str) -> list[Option]:
    """The same as the options of a slider."""
    return [(moment, moment_words(moment)) for moment in moments(stage)]


def moment_words(moment: Moment) -> tuple[str, str]:
    """The moment's name."""
    en, zh = unit_words(moment.unit)
    return {
        "start": ("before the step", "一步开始之前"),
        "forward": (f"forward pass: {en}", f"前向传播：{zh}"),
        "backward": (f"backward pass: {en}", f"反向传播：{zh}"),
        "sum": ("the gradients are summed", "梯度求和完成"),
        "update": ("the optimizer steps", "优化器更新"),
        "gather": ("the updated shards go round", "分发更新后的分片"),
    }[moment.phase]


def stage_words(stage: str) -> tuple[str, str]:
    """The stage's name."""
    return {
        "0": ("plain data parallelism", "普通数据并行"),
        "offload": ("ZeRO-3 with offload", "ZeRO-3 + 卸载"),
    }.get(stage, (f"ZeRO-{stage}", f"ZeRO-{stage}"))


def unit_words(unit: int) -> tuple[str, str]:
    """The unit's name in both languages."""
    name = UNITS[unit]
    return {"embedding": ("embedding", "嵌入层"), "head": ("head", "输出层")}.get(
        name, (f"block {name[7:]}", f"第 {name[7:]} 层")
    )


def _number(stage: str) -> int:
    return 3 if stage == "offload" else int(stage)


def _played(stage: str, moment: Moment) -> Played:
    return played(_number(stage))[moment]


def parameters(stage: str, moment: Moment, unit: int, mine: bool) -> Cell:
    """A shard of a unit's parameters on a rank that owns it (`mine`) or does not."""
    phase = moment.phase
    if stage in ("0", "1", "2"):
        updated = phase == "gather" or phase == "update" and (mine or stage == "0")
        return Cell("new" if updated else "old", moving=phase == "gather" and not mine)
    if mine:
        return Cell("new" if phase == "update" else "old")
    if phase == "start" or UNITS[unit] not in _played(stage, moment).unsharded:
        return ABSENT
    return Cell("gathered", moving=UNITS[unit] in _played(stage, moment).arriving)


def gradients(stage: str, moment: Moment, unit: int, mine: bool) -> Cell:
    """The same of its gradients."""
    phase, at = moment
    # stages 0 and 1 keep their buffers from step to step
    kept = Cell("empty") if stage in ("0", "1") else ABSENT
    if phase == "start":
        return kept
    # tiny's gradients fill one bucket, which leaves when the last of them exists
    if stage == "0":
        if phase == "forward" or phase == "backward" and unit < at:
            return kept
        return Cell("local") if phase == "backward" else Cell("sum", moving=phase == "sum")
    name, now = UNITS[unit], _played(stage, moment)
    if name in now.filling:
        return Cell("local" if stage == "1" else "filling", moving=name in now.leaving)
    return Cell("sum", moving=name in now.leaving) if mine and name in now.summed else kept


def optimizer(stage: str, moment: Moment, unit: int, mine: bool) -> Cell:
    """The same of its optimizer states."""
    if not mine and stage != "0":
        return ABSENT
    return Cell("host" if stage == "offload" else "held")


def loans(stage: str, unit: int) -> list[tuple[int, int]]:
    """Of each pass the first and the last moment, as positions in `moments`, in which a rank has
    the others' shards of a unit's parameters."""
    here = [
        (i, moment.phase)
        for i, moment in enumerate(moments(stage))
        if parameters(stage, moment, unit, mine=False).status == "gathered"
    ]
    passes = [[i for i, phase in here if phase == wanted] for wanted in ("forward", "backward")]
    return [(found[0], found[-1]) for found in passes if found]


def wire(stage: str, moment: Moment) -> list[tuple[str, str]]:
    """The collectives that begin at a moment, each with its unit; a sum that begins when a backward
    pass ends belongs to the next moment."""
    if stage == "0":
        return [("all_reduce", "bucket 0")] if moment.phase == "sum" else []
    return [] if moment.phase == "start" else list(_played(stage, moment).begun)
