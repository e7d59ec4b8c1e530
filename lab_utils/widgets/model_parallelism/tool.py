"""The tool of model parallelism: a batch walks through the devices (walk), then the layers are
dealt out by hand (split)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...i18n import t
from ..frame.challenge import Need, Step
from ..frame.controls import Control, Panel, Slider, State
from ..frame.explorer import Explorer
from ..frame.units import nbytes, percent, seconds
from . import split, walk
from .costs import CUTS, DEVICES, equal_sizes, held, one_batch, times

BOUNDARIES = ("cut1", "cut2", "cut3")


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    return Explorer(
        "model_parallelism",
        ("Model parallelism: layers dealt out to devices", "模型并行：把各层分给多个设备"),
        _controls(),
        (
            Panel(
                name="walk",
                scene=walk.scene,
                controls=("devices", "moment"),
                width=walk.WIDTH,
                height=walk.HEIGHT,
            ),
            Panel(
                name="split",
                scene=split.scene,
                controls=BOUNDARIES,
                width=split.WIDTH,
                height=split.HEIGHT,
            ),
        ),
        _steps(),
        lang,
    )


def _controls() -> Sequence[Control]:
    return (
        Slider(
            name="devices",
            label=("Devices", "设备数"),
            options=[(n, str(n)) for n in DEVICES],
            start=DEVICES.index(2),
        ),
        Slider(
            name="moment",
            label=("Walk through the step", "逐步演示"),
            options={n: walk.moments(n) for n in DEVICES},
            by="devices",
            play=True,
            still=4,
        ),
        *(
            Slider(
                name=f"cut{i}",
                label=(f"Boundary {i}, after layer", f"边界 {i}，位于第几层之后"),
                options=[(n, str(n)) for n in CUTS[i - 1]],
                start=CUTS[i - 1].index(i * times().layers // 4),
            )
            for i in (1, 2, 3)
        ),
    )


def _steps() -> tuple[Step, ...]:
    return (
        Step(
            task=(
                "Llama 3 8B: no device may hold more than 60 GB, and at most 80 % of the device"
                " time may be idle. How many devices?",
                "Llama 3 8B：任何设备持有不超过 60 GB，而且闲置不超过设备时间的 80 %。要几个设备？",
            ),
            needs=(Need(controls=("devices",), far=_room), Need(controls=("devices",), far=_idle)),
            why=(
                "Four devices hold a quarter each, and one of them works at any time: 75 % is idle."
                " More devices would hold less, and idle more.",
                "四个设备各持有四分之一，任何时刻只有一个在工作：75 % 闲置。"
                "设备再多，各自持有得更少，闲置却更多。",
            ),
            solution={"devices": 4},
        ),
        Step(
            task=(
                "Four devices: deal the layers out so that none holds more than 47.5 GB.",
                "四个设备：重新分配各层，让任何设备持有都不超过 47.5 GB。",
            ),
            needs=(_at_most(lambda b, _: max(b), 47.5e9, nbytes),),
            why=(
                "Both ends hold a matrix of the vocabulary, so both get fewer layers. The time of a"
                " batch has not changed: only one device works at a time.",
                "首尾两端各有一个词表大小的矩阵，所以两端的层都要少一些。"
                "一个批次的用时没有变：每次只有一个设备在工作。",
            ),
            solution={"cut1": 7, "cut3": 25},
        ),
        Step(
            task=(
                "Now for a pipeline, in which the slowest device sets the pace: at most 48 GB, and"
                " the slowest device at most 238 ms.",
                "现在为流水线做准备，那里最慢的设备决定节奏：不超过 48 GB，而且最慢的设备不超过"
                " 238 ms。",
            ),
            needs=(
                _at_most(lambda b, _: max(b), split.LIMIT_BYTES, nbytes),
                _at_most(lambda _, s: max(s), 0.238, seconds),
            ),
            why=(
                "The head costs time, the embedding only memory. So the last device gives up two"
                " layers, and the first cannot take any of them.",
                "输出头费时间，词嵌入只占内存。所以最后一个设备让出两层，而第一个设备一层也接不了。",
            ),
            solution={"cut1": 8, "cut2": 17, "cut3": 26},
        ),
    )


def _room(state: State, lang: str) -> str | None:
    most = max(sum(terms.values()) for terms in held(equal_sizes(state["devices"])))
    if most <= 60e9:
        return None
    return t(
        f"the fullest device holds {nbytes(most)}, 60 GB at most.",
        f"最满的设备持有 {nbytes(most)}，上限是 60 GB。",
        lang,
    )


def _idle(state: State, lang: str) -> str | None:
    idle = one_batch(state["devices"]).bubble_over_total
    if idle <= 0.8:
        return None
    return t(
        f"{percent(idle)} of the device time is idle, 80 % at most.",
        f"设备时间的 {percent(idle)} 在闲置，上限是 80 %。",
        lang,
    )


def _at_most(
    of: Callable[[list[int], list[float]], float], limit: float, words: Callable[[float], str]
) -> Need:
    def far(state: State, lang: str) -> str | None:
        value = of(*split.totals(split.sizes_of(state)))
        if value <= limit:
            return None
        return t(
            f"{words(value)}, and the limit is {words(limit)}.",
            f"{words(value)}，上限是 {words(limit)}。",
            lang,
        )

    return Need(controls=BOUNDARIES, far=far)
