"""A tour of every tool: what the tests do on its page, in words that hold for all of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lab_utils.widgets import Explorer, data_parallelism, gradient_checkpointing, memory_anatomy, zero_stages
from lab_utils.widgets.checkpoint_walk import Moment as CheckpointMoment
from lab_utils.widgets.controls import start_state, states
from lab_utils.widgets.zero_walk import Moment

LANGS = ("en", "zh")


@dataclass(frozen=True)
class Tour:
    """`solved`: values that meet the challenge; `spoilt`: then these do not. `rule`: one that axe must have applied.

    `keys`: (control, key pressed on it, the value that it then has), to be reached in this order. `slides`: (control, key) for
    the measurement of speed, from the values `slides_from`. `looks`: states, or parts of one, in which labels must be in their places.
    `on_the_way`: values that look quite different, for axe to see, too.
    """

    make: Callable[[str], Explorer]
    solved: dict[str, Any]
    spoilt: dict[str, Any]
    rule: str
    keys: list[tuple[str, str, Any]]
    slides: list[tuple[str, str]]
    looks: Callable[[Explorer], Iterator[dict[str, Any]]]
    slides_from: dict[str, Any] = field(default_factory=dict)
    on_the_way: dict[str, Any] = field(default_factory=dict)


def every(*steps: int) -> Callable[[Explorer], Iterator[dict[str, Any]]]:
    """Of the states of each panel, one in so many."""
    def look(tool: Explorer) -> Iterator[dict[str, Any]]:
        by_name = {control.name: control for control in tool.controls}
        for panel, step in zip(tool.panels, steps, strict=True):
            yield from [state for state in states([by_name[name] for name in panel.controls]) if state][::step]

    return look


def sixty_at_random(tool: Explorer) -> Iterator[dict[str, Any]]:
    """One control after the other, wherever it stands."""
    draw = random.Random(4)
    for _ in range(60):
        control = draw.choice(tool.controls)
        yield {control.name: draw.choice(control.options)[0]}


TOURS = {
    "data parallelism": Tour(
        data_parallelism.explorer, {"ranks": 8, "moment": "update", "model": "llama3-8b", "tokens": 2**20, "sync": "25"}, {"sync": "one"}, "select-name",
        [("ranks", "ArrowRight", 8), ("moment", "End", "update"), ("model", "ArrowDown", "llama3-8b"), ("link", "ArrowUp", "1"), ("tokens", "Home", 2**14),
         ("sync", "ArrowDown", "1")],
        [("moment", "ArrowRight")] * 12 + [("moment", "ArrowLeft")] * 16 + [("ranks", "ArrowLeft")] * 4 + [("ranks", "ArrowRight")] * 6
        + [("ranks", "ArrowLeft")] * 3,
        every(5, 13), slides_from={"ranks": 8, "model": "gpt2", "sync": "1"},
    ),
    "ZeRO": Tour(
        zero_stages.explorer,
        {"ranks": 32, "stage": "2", "model": "llama3-8b", "precision": "bf16-pure", "optimizer": "adamw", "micro_batches": 1}, {"micro_batches": 2},
        "select-name",
        [("ranks", "ArrowRight", 8), ("stage", "ArrowLeft", "2"), ("moment", "End", Moment("publish")), ("model", "ArrowUp", "gpt2-xl"),
         ("precision", "ArrowUp", "fp32"), ("optimizer", "ArrowDown", "sgd"), ("micro_batches", "End", 8)],
        [("moment", "ArrowRight")] * 5 + [("moment", "ArrowLeft")] * 12 + [("ranks", "ArrowRight")] * 5 + [("stage", "ArrowLeft")] * 3
        + [("stage", "ArrowRight")] * 4 + [("micro_batches", "ArrowRight")] * 2,
        every(19, 37, 53), on_the_way={"ranks": 4, "stage": "1", "moment": Moment("backward", 1), "model": "tiny", "precision": "fp32"},
    ),
    "anatomy": Tour(
        memory_anatomy.explorer,
        {"precision": "bf16", "micro_batch": memory_anatomy.LARGEST_MICRO_BATCH, "micro_batches": 1, "recompute": "full", "dp": 1, "zero": 0, "tp": 8,
         "sequence_parallel": True, "pp": 2}, {"recompute": "none"}, "button-name",
        [("model", "ArrowUp", "llama3-8b"), ("gpu", "ArrowDown", "H200"), ("precision", "ArrowUp", "bf16"), ("optimizer", "ArrowDown", "sgd"),
         ("micro_batch", "End", 4), ("micro_batches", "Home", 1), ("recompute", "ArrowDown", "selective"), ("dp", "ArrowLeft", 8), ("zero", "End", 3),
         ("tp", "ArrowRight", 2), ("sequence_parallel", "Space", True), ("pp", "ArrowRight", 2)],
        [("micro_batch", "ArrowRight")] * 2 + [("micro_batches", "ArrowLeft")] * 2 + [("dp", "ArrowLeft")] * 4 + [("zero", "ArrowRight")] * 3
        + [("tp", "ArrowRight")] * 3 + [("pp", "ArrowRight")] * 4 + [("dp", "ArrowRight")] * 4 + [("zero", "ArrowLeft")] * 3,
        sixty_at_random,
    ),
    "checkpointing": Tour(
        gradient_checkpointing.explorer, {"layer0": True, "layer1": True, "layer2": True, "layer5": False}, {"layer5": True}, "button-name",
        [("layer0", "Space", False), ("layer4", "Space", True), ("moment", "End", CheckpointMoment("backward", "embed"))],
        [("moment", "ArrowRight")] * 4 + [("moment", "ArrowLeft")] * 15 + [("moment", "ArrowRight")] * 6,
        sixty_at_random,
    ),
}  # fmt: skip


def alts_of(tool: Explorer, state: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """What Python says of every picture in `state`; one that compares does so with `before`."""
    sums = [hasattr(panel, "pack") for panel in tool.panels]
    return [panel.scene(state, tool.lang, before)["alt"] if compares else tool.scene(panel, state)["alt"]
            for panel, compares in zip(tool.panels, sums, strict=True)]


def start(tool: Explorer) -> dict[str, Any]:
    """The values that it opens with."""
    return start_state(tool.controls)
