"""The ZeRO stages tool: who holds which shard at each moment of a step, what that saves, and what it costs on the wire.

Three panels: a walk through the step (zero_walk), bytes per rank (zero_bytes), traffic per step (zero_traffic). The bytes
are estimate.memory's, the traffic is estimate.traffic's; real runs of `tiny` are laid over both (zero_measured).
"""

from __future__ import annotations

from functools import cache

from ..layout.parameters import parameter_count
from . import zero_bytes, zero_traffic, zero_walk_scene
from .controls import Challenge, Option, Panel, Select, Slider, State
from .explorer import Explorer
from .units import digits
from .zero_costs import MICRO_BATCHES, MODELS, OPTIMIZERS, PRECISIONS, RANKS, Setting, config, fits, sends_no_more_than_ddp
from .zero_walk import STAGES, Moment, moments, options

_START = {"ranks": 4, "stage": "3", "moment": Moment("backward", 3), "model": "llama3-8b", "precision": "bf16-pure", "optimizer": "adamw", "micro_batches": 1}


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    return Explorer(
        ("ZeRO: who holds what, and what it costs", "ZeRO：谁持有什么，代价是什么"),
        _controls(),
        (
            Panel(name="walk", scene=zero_walk_scene.scene, controls=("ranks", "stage", "moment"), width=zero_walk_scene.WIDTH, height=zero_walk_scene.HEIGHT),
            Panel(name="bytes", scene=zero_bytes.scene, controls=("model", "precision", "optimizer", "ranks", "micro_batches", "stage"),
                  width=zero_bytes.WIDTH, height=zero_bytes.HEIGHT),
            Panel(name="traffic", scene=zero_traffic.scene, controls=("model", "precision", "ranks", "micro_batches", "stage"),
                  width=zero_traffic.WIDTH, height=zero_traffic.HEIGHT),
        ),
        Challenge(
            task=("① Llama 3 8B with AdamW on 24 GB GPUs: as few ranks as possible, sending no more than plain data parallelism. "
                  "② Llama 3 70B with AdamW on 16 GPUs of 80 GB, nothing offloaded.",
                  "① 在 24 GB 的 GPU 上用 AdamW 训练 Llama 3 8B：rank 数尽可能少，通信量不超过普通数据并行。"
                  "② 在 16 张 80 GB 的 GPU 上用 AdamW 训练 Llama 3 70B，不做卸载。"),
            panel="bytes",
            met=met,
        ),
        lang,
    )  # fmt: skip


def met(state: State) -> bool:
    """Whether the state solves the task that is set for its model."""
    setting, stage = Setting.of(state), state["stage"]
    if setting.optimizer != "adamw":
        return False
    if setting.model == "llama3-70b":
        return setting.ranks == 16 and stage != "offload" and fits(setting, stage, 80)
    return setting.model == "llama3-8b" and _is_frugal(setting, stage) and setting.ranks == _fewest()


def _is_frugal(setting: Setting, stage: str) -> bool:
    return fits(setting, stage, 24) and sends_no_more_than_ddp(setting, stage)


@cache
def _fewest() -> int:
    """The smallest number of ranks with which the first task can be solved."""
    every = (Setting("llama3-8b", ranks, precision, "adamw", m) for ranks in RANKS for precision in PRECISIONS for m in MICRO_BATCHES)
    return next(setting.ranks for setting in every if any(_is_frugal(setting, stage) for stage in STAGES))


def _controls() -> tuple[Slider | Select, ...]:
    def model(name: str) -> Option:
        count = parameter_count(config(Setting(name, 2, "fp32", "adamw", 1), "0").model)
        scale, unit = next((s, u) for s, u in ((1e9, "B"), (1e6, "M"), (1e3, "k")) if count >= s)
        return name, f"{MODELS[name]} ({digits(count / scale)}{unit})"

    def start(name: str, values: tuple) -> int:
        return values.index(_START[name])

    stages = [("0", ("0: plain data parallelism", "0：普通数据并行")), *((str(z), f"ZeRO-{z}") for z in (1, 2, 3)),
              ("offload", ("ZeRO-3 + offload", "ZeRO-3 + 卸载"))]  # fmt: skip
    precisions = {"fp32": ("fp32", "fp32"), "bf16-pure": ("bf16, fp32 master weights", "bf16，fp32 主权重")}
    optimizers = {"adamw": "AdamW", "sgd": ("SGD with momentum", "带动量的 SGD")}
    return (
        Slider(name="ranks", label=("Ranks N", "rank 数 N"), options=[(n, f"{n:,}") for n in RANKS], start=start("ranks", RANKS)),
        Slider(name="stage", label=("Stage", "级别"), options=stages, start=start("stage", STAGES)),
        Slider(name="moment", label=("Walk through the step", "逐步演示"), options={stage: options(stage) for stage in STAGES}, by="stage",
               start=start("moment", tuple(moments(_START["stage"]))), play=True),
        Select(name="model", label=("Model", "模型"), options=[model(name) for name in MODELS], start=start("model", tuple(MODELS))),
        Select(name="precision", label=("Precision", "精度"), options=list(precisions.items()), start=start("precision", PRECISIONS)),
        Select(name="optimizer", label=("Optimizer", "优化器"), options=list(optimizers.items()), start=start("optimizer", OPTIMIZERS)),
        Slider(name="micro_batches", label=("Micro-batches m", "微批次数 m"), options=[(m, str(m)) for m in MICRO_BATCHES]),
    )  # fmt: skip
