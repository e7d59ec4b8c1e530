"""The ZeRO stages tool: who holds which shard at each moment of a step, what that saves, and what
it costs on the wire.

Three panels: a walk through the step (walk), bytes per rank (held), traffic per step
(traffic). The bytes are estimate.memory's, the traffic is estimate.traffic's; real runs of
`tiny` are laid over both (measured).
"""

from __future__ import annotations

from ..frame import words
from ..frame.controls import Panel, Select, Slider
from ..frame.explorer import Explorer
from ..frame.words import model_option
from . import held, traffic, walk_scene
from .bars import WIDTH
from .challenge import steps
from .costs import MICRO_BATCHES, MODELS, OPTIMIZERS, PRECISIONS, RANKS
from .walk import STAGES, Moment, moments, options

_START = {
    "ranks": 4,
    "stage": "3",
    "moment": Moment("start"),
    "model": "llama3-8b",
    "precision": "bf16-pure",
    "optimizer": "adamw",
    "micro_batches": 1,
}


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "zero",
        ("ZeRO: who holds what, and what it costs", "ZeRO：谁持有什么，代价是什么"),
        controls,
        (
            Panel(
                name="walk",
                scene=walk_scene.scene,
                controls=("ranks", "stage", "moment"),
                width=walk_scene.WIDTH,
                height=walk_scene.HEIGHT,
            ),
            Panel(
                name="bytes",
                scene=held.scene,
                controls=("model", "precision", "optimizer", "ranks", "micro_batches", "stage"),
                width=WIDTH,
                height=held.HEIGHT,
            ),
            Panel(
                name="traffic",
                scene=traffic.scene,
                controls=("model", "precision", "ranks", "micro_batches", "stage"),
                width=WIDTH,
                height=traffic.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _controls() -> tuple[Slider | Select, ...]:
    def start(name: str, values: tuple) -> int:
        return values.index(_START[name])

    stages = [
        ("0", ("0: plain data parallelism", "0：普通数据并行")),
        *((str(z), f"ZeRO-{z}") for z in (1, 2, 3)),
        ("offload", ("ZeRO-3 + offload", "ZeRO-3 + 卸载")),
    ]
    return (
        Slider(
            name="ranks",
            label=("Ranks N", "rank 数 N"),
            options=[(n, f"{n:,}") for n in RANKS],
            start=start("ranks", RANKS),
        ),
        Slider(name="stage", label=("Stage", "级别"), options=stages, start=start("stage", STAGES)),
        Slider(
            name="moment",
            label=("Walk through the step", "逐步演示"),
            options={stage: options(stage) for stage in STAGES},
            by="stage",
            start=start("moment", tuple(moments(_START["stage"]))),
            play=True,
            still=Moment("backward", 2),
        ),
        Select(
            name="model",
            label=("Model", "模型"),
            options=[model_option(name) for name in MODELS],
            start=start("model", tuple(MODELS)),
        ),
        Select(
            name="precision",
            label=("Precision", "精度"),
            options=[(name, words.PRECISIONS[name]) for name in PRECISIONS],
            start=start("precision", PRECISIONS),
        ),
        Select(
            name="optimizer",
            label=("Optimizer", "优化器"),
            options=[(name, words.OPTIMIZERS[name]) for name in OPTIMIZERS],
            start=start("optimizer", OPTIMIZERS),
        ),
        Slider(
            name="micro_batches",
            label=("Micro-batches m", "微批次数 m"),
            options=[(m, str(m)) for m in MICRO_BATCHES],
        ),
    )
