"""The pipeline tool: a schedule on the clock (timeline), and a model's layers cut into stages
(balance). Both draw what layout/schedule.py says and estimate/time plays."""

from __future__ import annotations

from ..frame.controls import Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from ..frame.words import model_option
from . import balance, timeline
from .challenge import SETTING, steps
from .costs import CUTS, MICRO_BATCHES, MODELS, RANKS, parts
from .recorded import SCHEDULES


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "pipeline_schedules",
        ("Pipeline schedules", "流水线调度"),
        controls,
        (
            Panel(
                name="timeline",
                scene=timeline.scene,
                controls=SETTING,
                width=timeline.WIDTH,
                height=timeline.HEIGHT,
            ),
            Panel(
                name="balance",
                scene=balance.scene,
                controls=("model", "cut1", "cut2", "cut3"),
                width=balance.WIDTH,
                height=balance.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _controls() -> tuple[Control, ...]:
    names = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "interleaved (v = 2)"}
    return (
        Select(
            name="schedule",
            label=("Schedule", "流水线调度"),
            options=[(name, names.get(name, name)) for name in SCHEDULES],
        ),
        Slider(
            name="ranks",
            label=("Ranks p", "rank 数 p"),
            options=[(n, str(n)) for n in RANKS],
            start=RANKS.index(4),
        ),
        Slider(
            name="micro",
            label=("Micro-batches m", "微批次数 m"),
            options=[(n, str(n)) for n in MICRO_BATCHES],
            play=True,
            still=8,
        ),
        Select(
            name="model", label=("Model", "模型"), options=[model_option(name) for name in MODELS]
        ),
        *(_boundary(i) for i in (1, 2, 3)),
    )


def _boundary(i: int) -> Slider:
    """A boundary between two stages: the layers before it; it opens where equal numbers put it."""
    options = {model: [(n, str(n)) for n in CUTS[model][i - 1]] for model in MODELS}
    starts = {model: CUTS[model][i - 1].index(i * parts(model).layers // 4) for model in MODELS}
    return Slider(
        name=f"cut{i}",
        label=(f"Boundary {i}, after layer", f"边界 {i}，位于第几层之后"),
        options=options,
        by="model",
        start=starts[MODELS[0]],
    )
