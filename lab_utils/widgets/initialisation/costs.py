"""What was measured: signals of untrained GPTs through depth, and slopes of the coordinate check by
the rules that were kept (course/stability/tool_recorded.py measures them anew)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("recorded.json")
DEPTHS, WIDTHS, SEEDS = (4, 16, 32), (64, 256), (0, 1, 2)
INITS, NORMS, ACTIVATIONS = (
    ("gpt2", "xavier", "he", "mup"),
    ("pre", "post", "none"),
    ("gelu", "swiglu"),
)
RULES = ("hidden_init", "head_init", "hidden_rate", "head_rate")
PLACES = ("first", "attention", "mlp", "stream", "logits")


def key(depth: int, width: int, init: str, norm: str, activation: str) -> str:
    """A network's name in the recording."""
    return f"{depth} {width} {init} {norm} {activation}"


def rules_key(rules: Iterable[str]) -> str:
    """The name of a choice of muP's rules in the recording."""
    return " ".join(rule for rule in RULES if rule in rules)


@cache
def _kept() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def about() -> str:
    """With what and when it was measured."""
    return f"torch {_kept()['about']['torch']}, {_kept()['about']['date']}"


def network(*shape: Any) -> dict[str, list[float | None]]:
    """Root mean squares behind each block: of the stream, and of the gradient by it; None where
    they exceed 1e30 or are no numbers."""
    return _kept()["networks"][key(*shape)]


def slopes(rules: Iterable[str]) -> dict[str, float]:
    """Exponent of size ∝ width^exponent: of the logits before training ("first"), and at each place
    after four steps."""
    return _kept()["slopes"][rules_key(rules)]


def growth(values: list[float | None]) -> float:
    """How many times the largest exceeds the smallest; infinite where a number is missing."""
    return float("inf") if None in values else max(values) / min(values)
