"""Dynamic loss scaling (Micikevicius et al. 2018, "Mixed Precision Training", section 3.2). Needs
no torch."""

from __future__ import annotations

from math import isfinite
from typing import Any, Literal, NamedTuple

from ..i18n import t

LARGEST = (2 - 2**-23) * 2.0**127  # of fp32, in which the loss is scaled


class Event(NamedTuple):
    """What a step came to: its number from 0, the scale that its loss was multiplied by, and what
    followed from it."""

    step: int
    scale: float
    event: Literal["ok", "skip", "grow"]


class LossScaler:
    """The factor that lifts small fp16 gradients above underflow, kept just below where large ones
    overflow.

    Multiply the loss by `scale`, divide the gradients by it, and skip the optimizer step if any of
    them is not finite. `update` then says so: an overflow multiplies the scale by `backoff` (never
    below `least`), `growth_interval` good steps in a row multiply it by `growth` (never beyond
    fp32). Factors that are powers of two change no mantissa bit. Raises ValueError for numbers with
    which it could not work.
    """

    def __init__(
        self,
        initial: float = 65536.0,
        growth_interval: int = 2000,
        growth: float = 2.0,
        backoff: float = 0.5,
        least: float = 1.0,
    ) -> None:
        _check(
            _is_number(least) and least > 0,
            f"least must be a finite number above 0, not {least!r}.",
            f"least 应为大于 0 的有限数，而不是 {least!r}。",
        )
        _check(
            _is_number(initial) and least <= initial <= LARGEST,
            f"initial must lie between least ({least:g}) and fp32's largest number, not"
            f" {initial!r}.",
            f"initial 应介于 least（{least:g}）与 fp32 的最大值之间，而不是 {initial!r}。",
        )
        _check(
            _is_count(growth_interval) and growth_interval >= 1,
            f"growth_interval must be a whole number of steps from 1 up, not {growth_interval!r}.",
            f"growth_interval 应为不小于 1 的整数（步数），而不是 {growth_interval!r}。",
        )
        _check(
            _is_number(growth) and growth > 1,
            f"growth must be a finite number above 1, not {growth!r}.",
            f"growth 应为大于 1 的有限数，而不是 {growth!r}。",
        )
        _check(
            _is_number(backoff) and 0 < backoff < 1,
            f"backoff must lie between 0 and 1, not {backoff!r}.",
            f"backoff 应介于 0 与 1 之间，而不是 {backoff!r}。",
        )
        self.scale, self.growth_interval, self.growth, self.backoff, self.least = (
            float(initial),
            growth_interval,
            growth,
            backoff,
            least,
        )
        self._step = self._good_steps = 0
        self._begin_trace()

    def update(self, overflow: bool) -> None:
        """One step is over. `overflow`: some gradient, on whichever rank, was not finite, and every
        rank skipped the step."""
        self._good_steps = 0 if overflow else self._good_steps + 1
        if overflow:
            self._change("skip", max(self.scale * self.backoff, self.least))
        elif self._good_steps >= self.growth_interval:
            self._good_steps = 0
            if self.scale * self.growth <= LARGEST:
                self._change("grow", self.scale * self.growth)
        self._step += 1

    def _change(self, event: Literal["skip", "grow"], scale: float) -> None:
        self._changes.append(Event(self._step, self.scale, event))
        self.scale = scale

    @property
    def trace(self) -> list[Event]:
        """Every step since this scaler was made or loaded. Only steps that changed something are
        stored; the rest follows."""
        events: list[Event] = []
        for change in self._changes:
            events += [
                Event(step, change.scale, "ok")
                for step in range(self._first_step + len(events), change.step)
            ]
            events.append(change)
        return events + [
            Event(step, self.scale, "ok")
            for step in range(self._first_step + len(events), self._step)
        ]

    def _begin_trace(self) -> None:
        self._first_step, self._changes = self._step, list[Event]()

    def state(self) -> dict[str, float | int]:
        """What a training checkpoint keeps; the factors are the configuration's."""
        return {"scale": self.scale, "good_steps": self._good_steps, "step": self._step}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from `state()`; raises ValueError for what is no such state, and then changes
        nothing."""
        scale, good_steps, step = (state.get(key) for key in ("scale", "good_steps", "step"))
        _check(
            _is_number(scale)
            and 0 < scale <= LARGEST
            and _is_count(good_steps)
            and _is_count(step),
            "a loss scaler's state has a scale above 0 and the counts good_steps and step, not"
            f" {state!r}.",
            f"损失缩放器的状态应包含大于 0 的 scale 以及计数 good_steps 和 step，"
            f"而不是 {state!r}。",
        )
        self.scale, self._good_steps, self._step = float(scale), good_steps, step
        self._begin_trace()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check(condition: bool, en: str, zh: str) -> None:
    if not condition:
        raise ValueError(t(en, zh))
