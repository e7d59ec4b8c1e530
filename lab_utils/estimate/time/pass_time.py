"""Seconds of one micro-batch through a part of the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassTime:
    """Seconds of one micro-batch through a part of the model: what the rank computes, and waits for
    along tp and cp meanwhile (`cp`: for the latter alone).

    `backward` includes what is recomputed; `weight` is the part that a zero-bubble schedule may put
    off.
    """

    forward: float = 0.0
    backward: float = 0.0
    weight: float = 0.0
    tp_forward: float = 0.0
    tp_backward: float = 0.0
    tp_hidden: float = 0.0
    cp: float = 0.0

    def __add__(self, other: PassTime) -> PassTime:
        return PassTime(
            self.forward + other.forward,
            self.backward + other.backward,
            self.weight + other.weight,
            self.tp_forward + other.tp_forward,
            self.tp_backward + other.tp_backward,
            self.tp_hidden + other.tp_hidden,
            self.cp + other.cp,
        )

    def __mul__(self, times: int) -> PassTime:
        return PassTime(
            times * self.forward,
            times * self.backward,
            times * self.weight,
            times * self.tp_forward,
            times * self.tp_backward,
            times * self.tp_hidden,
            times * self.cp,
        )

    @property
    def compute(self) -> float:
        """Forward, backward and recomputation."""
        return self.forward + self.backward + self.weight

    @property
    def waiting(self) -> float:
        """What the rank stands still for along tp and cp."""
        return self.tp_forward + self.tp_backward
