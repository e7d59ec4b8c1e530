"""The data-parallel step: what moves between ranks (a walk around the ring) and what it costs (a
timeline).

The walk depends on the ranks and the moment, the timeline on the ranks and everything else: two
panels, two tables.
"""

from __future__ import annotations

from ..frame.controls import Control, Option, Panel, Select, Slider
from ..frame.explorer import Explorer
from ..frame.words import model_option
from . import ring_walk, timeline
from .costs import LINKS, MODELS, RANKS, SETTING, SYNCS, TOKENS
from .ladder import steps


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "data_parallelism",
        ("One step of data parallelism", "数据并行的一步"),
        controls,
        (
            Panel(
                name="walk",
                scene=ring_walk.scene,
                controls=("ranks", "moment"),
                width=ring_walk.WIDTH,
                height=ring_walk.HEIGHT,
            ),
            Panel(
                name="timeline",
                scene=timeline.scene,
                controls=SETTING,
                width=timeline.WIDTH,
                height=timeline.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _controls() -> tuple[Control, ...]:
    def link(name: str) -> Option:
        rate = f"{LINKS[name] / 1e9:g} GB/s"
        return name, f"NVLink ({rate})" if name == "nvlink" else f"{name} Gb/s ({rate})"

    def sync(name: str) -> Option:
        in_words = {
            "naive": ("one all-reduce per gradient (naive)", "逐个梯度 all-reduce（朴素）"),
            "one": ("one bucket for everything", "全部放进一个桶"),
        }
        return name, in_words.get(name, (f"in buckets of {name} MiB", f"按 {name} MiB 分桶"))

    return (
        Slider(
            name="ranks",
            label=("Ranks N", "rank 数 N"),
            options=[(n, f"{n:,}") for n in RANKS],
            start=RANKS.index(4),
        ),
        Select(
            name="model",
            label=("Model", "模型"),
            options=[model_option(name) for name in MODELS],
            start=MODELS.index("gpt2"),
        ),
        Select(
            name="link",
            label=("Link", "链路"),
            options=[link(name) for name in LINKS],
            start=list(LINKS).index("100"),
        ),
        Slider(
            name="tokens",
            label=("Tokens per rank and step", "每个 rank 每步的词元数"),
            options=[(n, f"{n:,}") for n in TOKENS],
            start=TOKENS.index(2**17),
        ),
        Select(
            name="sync",
            label=("Gradients travel", "梯度同步"),
            options=[sync(name) for name in SYNCS],
        ),
        Slider(
            name="moment",
            label=("Walk through the step", "逐步演示"),
            options={n: ring_walk.moments(n) for n in RANKS},
            by="ranks",
            play=True,
            still=3,
        ),
    )
