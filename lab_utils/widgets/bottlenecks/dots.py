"""A layer of the lesson, measured at several batches on one core, with that core's own roof. They
are seconds, so no later run shows the very same; written anew by

    python -c "from lab_utils.widgets.bottlenecks import dots; from lab_utils.measure import
    roofline; dots.write(roofline)"

The instrument is handed in because no tool imports torch.
"""

from __future__ import annotations

import datetime
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from .costs import BATCHES

FILE = Path(__file__).with_name("dots.json")


class Recorded(NamedTuple):
    """The roof of one core (FLOP/s, bytes per second); batch → (FLOPs per byte, FLOP/s)."""

    flops_per_second: float
    bytes_per_second: float
    layer: dict[int, tuple[float, float]]
    about: tuple[str, str]


def write(roofline: Any) -> None:
    """Measure the roof and the layer, and write the file anew. Several rounds, the fastest kept:
    what others do on the machine comes and goes."""
    rounds = range(5)
    roof = tuple(map(max, zip(*(roofline.measure_roof(1.0) for _ in rounds), strict=True)))
    tries = [[roofline.layer_dot(batch) for batch in BATCHES] for _ in rounds]
    best = (min(dots, key=lambda dot: dot.seconds) for dots in zip(*tries, strict=True))
    layer = list(zip(BATCHES, best, strict=True))
    found = {
        "torch": version("torch"),
        "date": datetime.date.today().isoformat(),
        "roof": roof,
        "layer": {batch: (dot.intensity, dot.flops_per_second) for batch, dot in layer},
    }
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


@cache
def recorded() -> Recorded:
    """What was measured."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    layer = {int(batch): tuple(dot) for batch, dot in found["layer"].items()}
    return Recorded(*found["roof"], layer, (f"torch {found['torch']}", found["date"]))
