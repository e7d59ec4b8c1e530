"""The challenge of the schedule tool, all in its first panel: let the rate fall late, keep the end
open, and see what the inverse square root hangs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...i18n import t
from ..frame.challenge import Need, Step, given
from ..frame.controls import Control, State
from .grid import STEPS, Setting, middle, rate

CONTROLS = ("a_kind", "a_rate", "a_warmup", "a_cooldown", "a_end")
LOW, SQRT_LOW, OPEN_UNTIL = 2.545, 2.56, 432


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """A falling rate; one whose end may be put off; the inverse square root."""
    return (
        Step(
            task=(
                f"Panel A: a median loss of at most {LOW} after {STEPS} updates.",
                f"A 图：{STEPS} 次更新后，损失的中位数不超过 {LOW}。",
            ),
            needs=(_need(_above(LOW)),),
            why=(
                "Travel at the full rate as long as possible, then settle. At this length the model"
                " is still on its way, so what falls from the start loses more than it gains.",
                "尽量久地以最高学习率赶路，最后再收尾。训练这么短，模型还在半路上，"
                "一开始就降的调度得不偿失。",
            ),
            solution={"a_kind": "wsd", "a_rate": 0.003},
        ),
        Step(
            task=(
                f"Again at most {LOW}, but nobody knows yet whether to go on: until update"
                f" {OPEN_UNTIL} the full rate must stand.",
                f"损失的中位数仍不超过 {LOW}，但还不知道要不要继续训练："
                f"第 {OPEN_UNTIL} 次更新之前必须保持最高学习率。",
            ),
            needs=(_need(_falls_early), _need(_above(LOW))),
            why=(
                "A tenth of the run is enough to cool down. From the checkpoint before it one may"
                " go on as if there had been no end.",
                "用十分之一的训练来冷却就够了。从冷却之前的训练检查点，可以接着训练，就像没有结束过。",
            ),
            solution={"a_kind": "wsd", "a_rate": 0.003, "a_cooldown": 0.1},
        ),
        Step(
            task=(
                f"Now the inverse square root: a median loss of at most {SQRT_LOW}.",
                f"换成平方根倒数，损失的中位数不超过 {SQRT_LOW}。",
            ),
            needs=(_need(_above(SQRT_LOW)), given(controls, a_kind="inverse-sqrt")),
            why=(
                "Its rate is the peak × √(warm-up ÷ update): the warm-up also says how slowly it"
                " falls. Without one, a tenth of the peak is left after 100 updates.",
                "它的学习率等于最高值乘以 √（预热 ÷ 更新次数），预热同时决定了它降得多慢。"
                "没有预热，100 次更新之后只剩最高值的十分之一。",
            ),
            solution={"a_kind": "inverse-sqrt", "a_rate": 0.003, "a_warmup": 100},
        ),
    )


def _need(far: Callable[[State, str], str | None]) -> Need:
    return Need(controls=CONTROLS, far=far)


def _setting(state: State) -> Setting:
    return Setting(*(state[name] for name in CONTROLS))


def _above(limit: float) -> Callable[[State, str], str | None]:
    def far(state: State, lang: str) -> str | None:
        loss = middle(_setting(state))
        if loss <= limit:
            return None
        return t(
            f"the median is {loss:.3f}, {limit} at most.",
            f"中位数是 {loss:.3f}，上限 {limit}。",
            lang,
        )

    return far


def _falls_early(state: State, lang: str) -> str | None:
    setting = _setting(state)
    left = rate(setting, OPEN_UNTIL - 1) / setting.rate
    if left >= 1:
        return None
    return t(
        f"at update {OPEN_UNTIL}, {100 * left:.0f} % of the peak are left.",
        f"到第 {OPEN_UNTIL} 次更新，学习率只剩最高值的 {100 * left:.0f} %。",
        lang,
    )
