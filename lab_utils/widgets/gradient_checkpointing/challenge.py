"""The challenge of the gradient-checkpointing tool: what is cheapest to compute again, which blocks
to take, and how far one can go."""

from __future__ import annotations

from functools import partial

from ...i18n import t
from ..frame.challenge import Need, Step
from ..frame.controls import State, Words
from ..frame.units import NO_BREAK, nbytes, percent
from .costs import ATTENTION, LAYERS, curve, extra_work, recomputed
from .walk import part_words, peak_moment, policy_of

# of each step: the most bytes saved at once, and the most extra work, as a share of a plain step
LIMITS = ((110 * 10**6, 0.05), (90 * 10**6, 0.20), (35 * 10**6, 0.30))
CHOICE = ("what", *(f"layer{layer}" for layer in range(LAYERS)))


def steps() -> tuple[Step, ...]:
    """Attention alone; some blocks, but not the last; all but the last."""
    return (
        _step(
            LIMITS[0],
            (
                "The scores of attention are large and quick to compute again: they take a third of"
                " what a block saves, and few of its FLOPs. That is selective recomputation.",
                "注意力分数占的内存多，重算却很便宜：它占一层所保存内容的三分之一，"
                "却只占很少的浮点运算。这就是选择性重计算。",
            ),
            {"what": ATTENTION},
        ),
        _step(
            LIMITS[1],
            (
                "Three blocks keep only their input, and none of them is the last: its activations"
                " would come back while all the others are still there.",
                "有三层只保留输入，而且都不是最后一层：最后一层重算时，其他各层的激活值都还在。",
            ),
            _ticked(0, 2, 4),
        ),
        _step(
            LIMITS[2],
            (
                "The last block is the first that the backward pass reaches: to drop its"
                " activations and compute them at once again would save next to nothing.",
                "反向传播最先到达最后一层：刚丢掉它的激活值就要重算，几乎省不下什么。",
            ),
            _ticked(0, 1, 2, 3, 4),
        ),
    )


def _ticked(*layers: int) -> dict[str, bool]:
    return {f"layer{layer}": True for layer in layers}


def _step(limit: tuple[int, float], why: Words, solution: State) -> Step:
    room, work = _round_bytes(limit[0]), percent(limit[1])
    return Step(
        task=(
            f"Save at most {room} at once, with at most {work} more work.",
            f"同时保存的激活值不超过 {room}，额外计算不超过 {work}。",
        ),
        needs=(
            Need(controls=CHOICE, far=partial(_saves_too_much, limit=limit[0])),
            Need(controls=CHOICE, far=partial(_works_too_much, limit=limit[1])),
        ),
        why=why,
        solution=solution,
    )


def _round_bytes(amount: int) -> str:
    return f"{amount // 10**6}{NO_BREAK}MB"


def _saves_too_much(state: State, lang: str, limit: int) -> str | None:
    """How much is saved at the peak, and when that is."""
    policy = policy_of(state)
    peak, (phase, part) = curve(policy).peak, peak_moment(policy)
    if peak <= limit:
        return None
    if phase == "backward" and part in recomputed(policy):
        cause = t(
            f"block {part} comes back on top of what the others keep",
            f"第 {part} 层重算回来时，其他层保留的还在",
            lang,
        )
    elif policy == ATTENTION:
        cause = t("all blocks keep the rest", "各层还保留着其余部分", lang)
    else:
        count = LAYERS - len(recomputed(policy))
        cause = t(
            f"{count} block{'s' * (count > 1)} keep{'s' * (count == 1)} everything",
            f"有 {count} 层保留了全部",
            lang,
        )
    when = t(*part_words(part), lang)
    return t(
        f"{nbytes(peak)} of {_round_bytes(limit)}, at {when}: {cause}.",
        f"{nbytes(peak)}，上限 {_round_bytes(limit)}；峰值在{when}：{cause}。",
        lang,
    )


def _works_too_much(state: State, lang: str, limit: float) -> str | None:
    """What is done twice, in blocks."""
    policy = policy_of(state)
    if extra_work(policy) <= limit:
        return None
    count = len(recomputed(policy))
    return t(
        f"+{percent(extra_work(policy))} of {percent(limit)} of work: {count}"
        f" block{'s' * (count > 1)} run forward twice.",
        f"额外计算 {percent(extra_work(policy))}，上限 {percent(limit)}："
        f"有 {count} 层前向算了两遍。",
        lang,
    )
