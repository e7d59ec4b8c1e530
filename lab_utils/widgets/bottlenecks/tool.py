"""The bottleneck tool: which wall a job stands at.

Two panels: the operations of a block under a GPU's roof, with a layer that was measured on one core
under that core's own roof far below (roof_scene); and the step that they make, what limits it and
whether it fits (step_scene). GPU figures are the estimator's (costs), the core's are recorded
(dots).
"""

from __future__ import annotations

from ..frame.controls import Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from . import roof_scene, step_scene
from .challenge import steps
from .costs import BATCHES, JOB, LENGTHS, RANKS, SETTING


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "bottlenecks",
        ("Bottleneck roofline: which wall do you stand at?", "瓶颈与屋顶线：你正面对哪一堵墙？"),
        controls,
        (
            Panel(
                name="roof",
                scene=roof_scene.scene,
                controls=JOB,
                width=roof_scene.WIDTH,
                height=roof_scene.HEIGHT,
            ),
            Panel(
                name="step",
                scene=step_scene.scene,
                controls=SETTING,
                width=step_scene.WIDTH,
                height=step_scene.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _controls() -> tuple[Control, ...]:
    return (
        Select(
            name="model",
            label=("Model", "模型"),
            options=(("gpt2", "GPT-2"), ("gpt2-xl", "GPT-2 XL"), ("llama3-8b", "Llama 3 8B")),
        ),
        Select(
            name="gpu", label=("GPU", "GPU"), options=(("H100-SXM", "H100"), ("A100-80", "A100"))
        ),
        Select(
            name="precision",
            label=("Precision", "精度"),
            options=(
                ("bf16", ("bf16 by autocast", "autocast 的 bf16")),
                ("bf16-pure", ("bf16 throughout", "全程 bf16")),
            ),
        ),
        Select(
            name="length",
            label=("Tokens in a sequence s", "序列长度 s"),
            options=tuple((length, f"{length:,}") for length in LENGTHS),
        ),
        Select(
            name="ranks", label=("GPUs N", "GPU 数 N"), options=tuple((n, str(n)) for n in RANKS)
        ),
        Select(
            name="network",
            label=("Network, for each GPU", "每张 GPU 的网络"),
            options=(("400", "400 Gb/s"), ("10", "10 Gb/s")),
        ),
        Slider(
            name="batch",
            label=("Sequences on a GPU B", "每张 GPU 的序列数 B"),
            options=tuple((b, str(b)) for b in BATCHES),
            play=True,
            still=8,
        ),
    )
