"""Exercise 2: layouts for three clusters, with the memory they need and what they lose most to,
said before they are priced."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ....config import ConfigError, ModelConfig, TrainConfig
from ....config.presets import PRESETS
from ....estimate.fit import RESERVED_BYTES
from ....estimate.hardware import cluster
from ....estimate.plan import plan
from ....estimate.plan.needs import needed_bytes
from ....estimate.time import step_time
from ....i18n import t
from ....layout.refusals import refuse_layout
from ..exercise import Column, Exercise
from ..verdict import Failure

GPU = cluster("H100-SXM")
FREE = GPU.memory_bytes - RESERVED_BYTES
LATE, OFF = 0.05, 0.2  # behind the planner; of the predicted bytes
AXES = ("dp", "pp", "tp")
LOSSES = ("bubble", "tp", "pp", "dp")


@dataclass(frozen=True)
class Case:
    """A model on so many H100s, eight to a machine, with so many sequences a step."""

    model: str
    gpus: int
    batch: int

    def __str__(self) -> str:
        return f"{self.model}, {self.gpus} × H100"


@dataclass(frozen=True)
class Priced:
    """What the estimator says of a layout: bytes, seconds, and what it loses most to."""

    held: int
    seconds: float
    loss: str


@functools.lru_cache(maxsize=64)
def best_seconds(case: Case) -> float:
    """Of the planner's fastest layout with one sequence at a time and 1F1B."""
    model = ModelConfig(**PRESETS[case.model])
    pins = dict(micro_batch=1, schedule="1f1b")
    return plan(model, GPU, case.gpus, case.batch, top=1, **pins)[0].seconds


@functools.lru_cache(maxsize=256)
def priced(config: TrainConfig) -> Priced:
    """The layout as the planner sees it."""
    time = step_time(config, GPU)
    lost = {"bubble": time.bubble} | dict(time.axis_seconds)
    worst = max(LOSSES, key=lost.__getitem__)
    return Priced(needed_bytes(config, kernels=GPU.kernels), time.step, worst)


def config_of(case: Case, layout: dict[str, Any]) -> TrainConfig:
    """The run that a layout stands for. Raises ConfigError where no engine could run it."""
    config = TrainConfig.of(
        case.model,
        **{axis: layout[axis] for axis in AXES},
        zero=layout["zero"],
        recompute=layout["recompute"],
        sequence_parallel=layout["tp"] > 1,
        bucket_mib=64.0,
        global_batch=case.batch,
        micro_batch=1,
        precision="bf16-pure",
    )
    refuse_layout(config)
    return config


def ask(answer: Callable[[], Any], case: Case) -> Any:
    """Open the envelope at a case; in words where it holds no layout."""
    found = answer()
    layout = found.get(case.model) if isinstance(found, dict) else None
    return layout if _well_formed(layout) else repr(layout)


def _well_formed(layout: Any) -> bool:
    return (
        isinstance(layout, dict)
        and all(type(layout.get(name)) is int and layout[name] >= 0 for name in (*AXES, "zero"))
        and all(layout[axis] for axis in AXES)
        and layout.get("recompute") in ("none", "selective", "full")
        and isinstance(layout.get("gb"), (int, float))
        and layout.get("loses_to") in LOSSES
    )


def judge(case: Case, facts: list[Any], _: int = 0) -> Failure | None:
    """Whether it can run, then whether it fits, is fast, and was foreseen."""
    layout = facts[0]
    if not isinstance(layout, dict):
        return Failure(
            "sealed.form",
            t(
                "dp, pp, tp, zero: whole numbers; recompute, gb, loses_to as the text says.",
                "dp、pp、tp、zero 为整数，recompute、gb、loses_to 按说明填写。",
            ),
            f"{layout!r:.120}",
        )
    ranks = layout["dp"] * layout["pp"] * layout["tp"]
    if ranks != case.gpus:
        return Failure(
            "sealed.ranks",
            t(f"{case.gpus} ranks.", f"{case.gpus} 个 rank。"),
            t(f"dp × pp × tp = {ranks}.", f"dp × pp × tp = {ranks}。"),
        )
    if layout["tp"] > GPU.ranks_per_node:
        return Failure(
            "sealed.machine",
            t("a tp group on one machine of 8.", "tp 组在一台 8 卡机器之内。"),
            f"tp = {layout['tp']}",
        )
    try:
        config = config_of(case, layout)
    except ConfigError as error:
        words = t("a layout that can be run.", "能够运行的布局。")
        return Failure("sealed.layout", words, str(error))
    return _scored(case, layout, priced(config))


def _scored(case: Case, layout: dict[str, Any], one: Priced) -> Failure | None:
    if one.held > FREE:
        return Failure(
            "sealed.fits",
            t(
                f"at most {FREE / 1e9:.0f} GB on the fullest GPU.",
                f"占用最多的 GPU 不超过 {FREE / 1e9:.0f} GB。",
            ),
            f"{one.held / 1e9:.0f} GB",
        )
    late = one.seconds / best_seconds(case) - 1
    if not late <= LATE:
        return _late(case, layout, late)
    if not abs(layout["gb"] * 1e9 / one.held - 1) <= OFF:
        return Failure(
            "sealed.memory",
            t(f"a prediction within {OFF:.0%}.", f"预测误差在 {OFF:.0%} 以内。"),
            t(
                f"{layout['gb']:g} GB predicted, {one.held / 1e9:.0f} GB estimated.",
                f"预测 {layout['gb']:g} GB，估算为 {one.held / 1e9:.0f} GB。",
            ),
        )
    if layout["loses_to"] != one.loss:
        return Failure(
            "sealed.loss",
            t("what the step loses most to.", "这一步损失最多的一项。"),
            t(f"predicted: {layout['loses_to']}.", f"预测的是 {layout['loses_to']}。"),
        )
    return None


def _late(case: Case, layout: dict[str, Any], late: float) -> Failure:
    """Too slow; where stages are not alike, by that name."""
    expected = t(f"at most {LATE:.0%} behind the planner.", f"最多比规划器慢 {LATE:.0%}。")
    layers, pp = PRESETS[case.model]["layers"], layout["pp"]
    if not layers % pp:
        return Failure("sealed.slow", expected, t(f"{late:.0%} behind.", f"慢 {late:.0%}。"))
    most = -(-layers // pp)
    came = t(
        f"{late:.0%} behind; {layers} layers on {pp} stages: whoever holds {most} sets the pace.",
        f"慢 {late:.0%}；{layers} 层分给 {pp} 个阶段，快慢由有 {most} 层的阶段决定。",
    )
    return Failure("sealed.uneven", expected, came)


def draw(random: Random) -> list[Case]:
    """The same in another order: the envelope holds answers for these three."""
    return random.sample(CASES, len(CASES))


def _words(case: Case, told: list[list[Any]]) -> str:
    layout = told[0][0]
    axes = " ".join(f"{axis} {layout[axis]}" for axis in AXES)
    return f"{axes} ZeRO-{layout['zero']} {layout['recompute']}"


def _behind(case: Case, told: list[list[Any]]) -> str:
    late = priced(config_of(case, told[0][0])).seconds / best_seconds(case) - 1
    return f"{100 * max(late, 0.0):.0f} %"


CASES = (Case("llama3-8b", 8, 64), Case("llama3-70b", 64, 64), Case("gpt3-175b", 64, 512))
EXERCISE = Exercise(
    check="sealed_layouts",
    answer="sealed",
    lab="lab09",
    ask=ask,
    judge=judge,
    columns=(
        Column("cluster", "集群", lambda case, _: str(case)),
        Column("layout", "布局", _words),
        Column("GB predicted", "预测 GB", lambda _, told: f"{told[0][0]['gb']:g}"),
        Column(
            "GB estimated",
            "估算 GB",
            lambda case, told: f"{priced(config_of(case, told[0][0])).held / 1e9:.0f}",
        ),
        Column("behind the planner", "比规划器慢", _behind),
    ),
    visible=CASES,
    draw=draw,
)
