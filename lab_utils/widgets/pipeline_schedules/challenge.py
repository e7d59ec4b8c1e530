"""The challenge of the pipeline tool: enough micro-batches, then a bubble bought with order, then a
boundary for the heavy head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...i18n import t
from ..frame.asked import asked
from ..frame.challenge import Need, Step
from ..frame.controls import Control, State
from ..frame.units import percent
from .costs import Played, cut, even_seconds, parts, played
from .timeline import share

SETTING = ("schedule", "ranks", "micro")
BUBBLE, HELD, OVER = 0.2, 4, 0.03


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """The three steps, each solved by a layout that one would copy."""
    interleaved = played("interleaved", 4, 8)
    return (
        Step(
            task=(
                "GPipe on 4 ranks: bring the bubble down to 20 % of the ideal time.",
                "GPipe，4 个 rank：把气泡降到理想时间的 20 % 以内。",
            ),
            needs=(asked(controls, schedule="gpipe", ranks=4), _bubble()),
            why=(
                "Every rank idles 3 slots, however many micro-batches there are; 16 of them make"
                " that 3/16. Look at what it costs: all 16 are held at once.",
                "微批次再多，每个 rank 闲置的总是 3 格；有 16 个时，就是 3/16。"
                "再看代价：16 个全部同时持有。",
            ),
            solution={"micro": 16},
        ),
        Step(
            task=(
                "4 ranks, but only 8 micro-batches, and no rank may hold more than 4: the bubble at"
                " most 20 %.",
                "4 个 rank，但只有 8 个微批次，而且任何 rank 最多持有 4 个：气泡不超过 20 %。",
            ),
            needs=(asked(controls, ranks=4, micro=8), _held(), _bubble()),
            why=(
                "1F1B holds 4 and has GPipe's bubble. Interleaved has"
                f" {share(interleaved.timeline.bubble_over_ideal)}, and holds"
                f" {max(interleaved.held):g}. Zero-bubble lets weight gradients wait, and fills"
                " the gap with them.",
                "1F1B 持有 4 个，但气泡与 GPipe 相同；interleaved 的气泡是"
                f" {share(interleaved.timeline.bubble_over_ideal)}，却要持有"
                f" {max(interleaved.held):g} 个。zero-bubble 推迟权重梯度，用它们填上空隙。",
            ),
            solution={"schedule": "zero-bubble", "micro": 8},
        ),
        Step(
            task=(
                "Llama 3 8B on 4 stages: move the boundaries until the step is at most 3 % longer"
                " than with perfectly even stages.",
                "Llama 3 8B，4 个阶段：移动边界，让一步最多比完全均匀的阶段长 3 %。",
            ),
            needs=(asked(controls, model="llama3-8b"), _even()),
            why=(
                f"The head is worth {parts('llama3-8b').head_in_blocks:.1f} layers, so the last"
                " stage gets two or three layers less; 34 layers' worth on four stages cannot be"
                " more even than 9, 9, 8 and 8.",
                f"输出头相当于 {parts('llama3-8b').head_in_blocks:.1f} 层，"
                "所以最后一个阶段要少两三层；"
                "约 34 层的工作量分给四个阶段，最均匀也就是 9、9、8、8。",
            ),
            solution={"cut1": 9, "cut2": 18, "cut3": 26},
        ),
    )


def _need(judge: Callable[[Played, str], str | None]) -> Need:
    def far(state: State, lang: str) -> str | None:
        found = played(state["schedule"], state["ranks"], state["micro"])
        if found is None:
            return t(
                f"{state['micro']} micro-batches do not come in groups of {state['ranks']}.",
                f"{state['micro']} 个微批次无法按 {state['ranks']} 个一组。",
                lang,
            )
        return judge(found, lang)

    return Need(controls=SETTING, far=far)


def _bubble() -> Need:
    def judge(found: Played, lang: str) -> str | None:
        bubble = found.timeline.bubble_over_ideal
        if bubble <= BUBBLE:
            return None
        return t(
            f"the bubble is {share(bubble)} of the ideal time, {percent(BUBBLE)} at most.",
            f"气泡为理想时间的 {share(bubble)}，上限是 {percent(BUBBLE)}。",
            lang,
        )

    return _need(judge)


def _held() -> Need:
    def judge(found: Played, lang: str) -> str | None:
        most = max(found.held)
        if most <= HELD:
            return None
        return t(
            f"a rank holds {most:g} micro-batches, {HELD} at most.",
            f"有 rank 持有 {most:g} 个微批次，上限是 {HELD} 个。",
            lang,
        )

    return _need(judge)


def _even() -> Need:
    def far(state: State, lang: str) -> str | None:
        timeline, took = cut(state["model"], *(state[f"cut{i}"] for i in (1, 2, 3)))
        over = timeline.seconds / even_seconds(state["model"]) - 1
        if over <= OVER:
            return None
        slowest = max(range(len(took)), key=took.__getitem__)
        return t(
            f"the step is {percent(over)} longer; all wait for stage {slowest}.",
            f"一步长了 {percent(over)}，大家都在等阶段 {slowest}。",
            lang,
        )

    return Need(controls=("model", "cut1", "cut2", "cut3"), far=far)
