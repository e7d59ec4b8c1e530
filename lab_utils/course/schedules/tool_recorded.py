"""Trains every schedule of the tool anew and writes its recorded.json, on one core in about ten
minutes, or thirty where others compute beside it:

python -m lab_utils.course.schedules.tool_recorded

A constant run is also the trunk from which WSD's branches leave, so they cost their cool-down
alone.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from functools import partial

import torch

from ...launch import launch
from ...widgets.schedules.grid import EVERY, FILE, SEEDS, STEPS, Setting, key, rate, settings
from .runs import Run


def run(setting: Setting, seed: int, steps: int = STEPS) -> list[float]:
    """Held-out losses of one whole run, or of its first `steps` updates; inside `launch`."""
    return _watched(Run(setting.config(seed)), setting, [], steps)


def _watched(one: Run, setting: Setting, before: list[float], steps: int = STEPS) -> list[float]:
    found = before or [_short(one.held_out())]
    for until in range(len(found) * EVERY, steps + 1, EVERY):
        one.train(until, partial(rate, setting))
        found = [*found, _short(one.held_out())]
    return found


def trunk_and_branches(
    trunk: Setting, branches: list[Setting], seed: int
) -> Iterator[tuple[str, list[float]]]:
    """A constant run, left at a checkpoint wherever a branch's rate begins to fall; inside
    `launch`."""
    one, left, found = Run(trunk.config(seed)), {}, []
    for at in [*sorted({b.falls_from for b in branches}), STEPS]:
        found = _watched(one, trunk, found, at)
        left[at] = one.checkpoint(), found
    yield key(trunk), found
    for branch in branches:
        checkpoint, before = left[branch.falls_from]
        one.go_back(checkpoint)
        yield key(branch), _watched(one, branch, before)


def _short(loss: float) -> float:
    return round(loss, 3)


def every_run(seed: int) -> dict[str, list[float]]:
    """All schedules with one seed; inside `launch`."""
    found, every = {}, settings()
    for setting in every:
        if setting.kind == "constant":
            branches = [
                s
                for s in every
                if s.kind == "wsd" and (s.rate, s.warmup) == (setting.rate, setting.warmup)
            ]
            found |= dict(trunk_and_branches(setting, branches, seed))
        elif setting.kind != "wsd":
            found[key(setting)] = run(setting, seed)
    return found


def write() -> None:
    """Run everything and write the file."""
    began = time.perf_counter()
    by_seed = [launch(every_run, 1, seed, threads=1)[0] for seed in SEEDS]
    about = {
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "minutes": round((time.perf_counter() - began) / 60, 1),
    }
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps([found[name] for found in by_seed])}"
        for name in map(key, settings())
    )
    FILE.write_text(
        f'{{"about": {json.dumps(about)},\n"runs": {{\n{lines}\n}}}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    write()
