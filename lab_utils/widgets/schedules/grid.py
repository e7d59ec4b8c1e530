"""The schedules that were run, the rate of each update, and what the runs showed
(course/schedules/tool_recorded.py makes them anew)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ...config import TrainConfig
from ...config.lr_schedule import learning_rate

FILE = Path(__file__).with_name("recorded.json")
SEEDS = (0, 1, 2)
STEPS, EVERY = 480, 24  # updates of a run; between two looks at the held-out text
KINDS = ("constant", "linear", "cosine", "wsd", "inverse-sqrt", "one-cycle")
RATES, WARMUPS = (0.001, 0.003, 0.01), (0, 20, 100)
COOLDOWNS, ENDS = (0.1, 0.2, 0.4), (0.0, 0.1)
SHAPE = dict(layers=1, hidden=32, heads=2, seq=32, global_batch=2, clip=1.0)


class Setting(NamedTuple):
    """One schedule: peak rate, updates of warm-up, share of the run in which WSD's rate falls, and
    the share of the rate that is left at the end."""

    kind: str
    rate: float
    warmup: int
    cooldown: float
    end: float

    def plain(self) -> Setting:
        """The same schedule with what its kind has no use for at its first option."""
        return Setting(
            self.kind,
            self.rate,
            WARMUPS[0] if self.kind == "one-cycle" else self.warmup,
            self.cooldown if self.kind == "wsd" else COOLDOWNS[0],
            ENDS[0] if self.kind in ("constant", "inverse-sqrt") else self.end,
        )

    def config(self, seed: int = 0, steps: int = STEPS) -> TrainConfig:
        """The run, but for a cool-down that is not the engine's."""
        return TrainConfig.of(
            "tiny",
            **SHAPE,
            steps=steps,
            seed=seed,
            lr=self.rate,
            lr_schedule=self.kind,
            warmup=WARMUPS[0] if self.kind == "one-cycle" else self.warmup,
            lr_end=self.end,
        )

    @property
    def falls_from(self) -> int:
        """The number of updates at the full rate, or on the way to it, before WSD's rate falls."""
        return STEPS - round(self.cooldown * STEPS)


def settings() -> list[Setting]:
    """Every schedule that was run, once."""
    grid = [
        Setting(kind, rate, warmup, cooldown, end).plain()
        for kind in KINDS
        for rate in RATES
        for warmup in WARMUPS
        for cooldown in COOLDOWNS
        for end in ENDS
    ]
    return list(dict.fromkeys(grid))


def rate(setting: Setting, update: int) -> float:
    """The rate of an update: the engine's, but that WSD's may fall over another share of the run
    than a fifth."""
    if setting.kind != "wsd":
        return learning_rate(_config(setting), update)
    level = learning_rate(_config(setting._replace(kind="constant")), update)
    into = max(0, update + 1 - setting.falls_from) / (STEPS - setting.falls_from)
    return level * (1 + (setting.end - 1) * into)


@cache
def _config(setting: Setting) -> TrainConfig:
    return setting.config()


def key(setting: Setting) -> str:
    """A schedule's name in the recording."""
    return " ".join(map(str, setting.plain()))


@cache
def kept() -> dict[str, Any]:
    """The recording: `about`, and by schedule the held-out loss of each seed after every EVERY
    updates, from none on."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def about() -> str:
    """With what and when it was measured."""
    return f"torch {kept()['about']['torch']}, {kept()['about']['date']}"


def losses(setting: Setting) -> list[list[float]]:
    """For each seed, the held-out loss at 0, EVERY, 2·EVERY … updates."""
    return kept()["runs"][key(setting)]


def finals(setting: Setting) -> list[float]:
    """Held-out loss at the end, one for each seed."""
    return [one[-1] for one in losses(setting)]


def middle(setting: Setting) -> float:
    """The median of the seeds' final losses."""
    return median(finals(setting))
