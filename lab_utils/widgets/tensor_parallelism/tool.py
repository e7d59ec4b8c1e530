"""The tensor-parallelism tool: a block walked forward and backward over the ranks, and what it
costs.

Two panels: the walk (walk, walk_words, walk_scene) and the costs of a step (costs, bars), whose
numbers are estimate's.
"""

from __future__ import annotations

from ..frame.controls import Checkbox, Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from ..frame.words import model_option
from . import bars, walk_scene
from .challenge import steps
from .costs import MICRO_BATCHES, MODELS, RANKS, SETTING
from .walk import MOMENTS, Moment
from .walk_words import option


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "tensor_parallelism",
        ("Tensor parallelism: one block on many ranks", "张量并行：一层分给多个 rank"),
        controls,
        (
            Panel(
                name="walk",
                scene=walk_scene.scene,
                controls=("ranks", "sequence", "moment"),
                width=walk_scene.WIDTH,
                height=walk_scene.HEIGHT,
            ),
            Panel(
                name="costs",
                scene=bars.scene,
                controls=SETTING,
                width=bars.WIDTH,
                height=bars.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _controls() -> tuple[Control, ...]:
    return (
        Slider(
            name="ranks",
            label=("Ranks N", "rank 数 N"),
            options=[(n, str(n)) for n in RANKS],
            start=RANKS.index(2),
        ),
        Checkbox(name="sequence", label=("Sequence parallelism", "序列并行")),
        Slider(
            name="moment",
            label=("Walk through the block", "逐步演示"),
            options=[(moment, option(moment)) for moment in MOMENTS],
            play=True,
            still=Moment("backward", 8),
        ),
        Select(
            name="model",
            label=("Model", "模型"),
            options=[model_option(name) for name in MODELS],
            start=MODELS.index("llama3-8b"),
        ),
        Slider(
            name="micro_batch",
            label=("Sequences at a time", "每次的序列数"),
            options=[(n, str(n)) for n in MICRO_BATCHES],
        ),
    )
