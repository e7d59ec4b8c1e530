"""Measures the networks of the tool anew and writes recorded.json, in a minute on one core:

python -m lab_utils.course.stability.tool_recorded
"""

from __future__ import annotations

import datetime
import itertools
import json
from typing import Any

import torch

from ...config import TrainConfig
from ...widgets.initialisation.costs import (
    ACTIVATIONS,
    DEPTHS,
    FILE,
    INITS,
    NORMS,
    RULES,
    SEEDS,
    WIDTHS,
    key,
    rules_key,
)
from .coordinates import PLACES, shape, sizes, slope
from .coordinates import WIDTHS as CHECKED
from .signal import signal


def network(depth: int, width: int, init: str, norm: str, activation: str) -> dict[str, Any]:
    """The stream and its gradient behind every block of one untrained GPT: four sequences of 32."""
    config = TrainConfig.of(
        "tiny",
        layers=depth,
        hidden=width,
        heads=width // 16,
        seq=32,
        global_batch=4,
        init=init,
        activation=activation,
    )
    found = signal(config, norm)
    return {
        "stream": [_short(v) for v in found.stream[1:]],
        "gradient": [_short(v) for v in found.gradient[1:]],
    }


def slopes(rules: tuple[str, ...]) -> dict[str, float]:
    """Slope of the logits before training, and of each place after four steps: the mean size of
    three seeds in four widths."""
    runs = [[sizes(shape(w, steps=4, seed=s, lr=0.01), rules) for s in SEEDS] for w in CHECKED]
    places = {"first": (0, "logits")} | {place: (-1, place) for place in PLACES}
    return {
        name: round(slope(CHECKED, [sum(one[step][place] for one in same) for same in runs]), 2)
        for name, (step, place) in places.items()
    }


def _short(value: float) -> float | None:
    return float(f"{value:.3g}") if value < 1e30 else None


def write() -> None:
    """Measure everything and write the file."""
    torch.set_num_threads(1)
    grid = itertools.product(DEPTHS, WIDTHS, INITS, NORMS, ACTIVATIONS)
    networks = {key(*one): network(*one) for one in grid}
    subsets = [s for n in range(len(RULES) + 1) for s in itertools.combinations(RULES, n)]
    checks = {rules_key(one): slopes(one) for one in subsets}
    about = {"torch": torch.__version__, "date": datetime.date.today().isoformat()}
    parts = [f'"about": {json.dumps(about)}']
    for name, rows in (("networks", networks), ("slopes", checks)):
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items())
        parts.append(f'"{name}": {{\n{lines}\n}}')
    FILE.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
