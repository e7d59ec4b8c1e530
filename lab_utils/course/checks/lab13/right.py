"""What is right in lab 13: the three factors, as the lab's text defines them."""

from __future__ import annotations

from math import cos, pi, sqrt

KINDS = ("linear", "cosine", "wsd")


def right_factor(
    kind: str, update: int, total: int, warmup: int, floor: float, cooldown: int
) -> float:
    """The share of the peak rate that update number `update` (from 0) of `total` gets.

    `warmup` updates climb in equal steps, the last of them to 1. Linear and cosine then fall to
    `floor`, which is the share of the last update; WSD stays at 1 until the last `cooldown` updates
    and falls with 1 − √t (Hägele et al. 2024, "Scaling Laws and Compute-Optimal Training
    Beyond Fixed Training Durations"). After the end it stays at `floor`.
    """
    if update < warmup:
        return (update + 1) / warmup
    last_full = total - 1 - cooldown if kind == "wsd" else max(warmup - 1, 0)
    t = min(1.0, max(0, update - last_full) / (total - 1 - last_full))
    kept = {"linear": 1 - t, "cosine": (1 + cos(pi * t)) / 2, "wsd": 1 - sqrt(t)}[kind]
    return floor + (1 - floor) * kept
