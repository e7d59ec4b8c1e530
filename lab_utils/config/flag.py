"""What every part of a configuration is made of: its words, flags with their help in both
languages, and the checks that name what would work."""

from __future__ import annotations

from dataclasses import field, fields
from functools import cache
from math import isfinite, isqrt
from typing import Any, Literal, get_args, get_type_hints

from ..i18n import t

Norm = Literal["layernorm", "rmsnorm"]
Activation = Literal["gelu", "swiglu"]
Positions = Literal["learned", "rope"]
Attention = Literal["sdpa", "explicit"]
Schedule = Literal["gpipe", "1f1b", "interleaved", "zero-bubble"]
Precision = Literal["fp32", "bf16", "bf16-pure", "fp16", "fp8"]
# what autocast runs matrix products in, in bytes; fp8 is bf16 but for the products inside of blocks
AUTOCAST_BYTES = {"bf16": 2, "fp16": 2, "fp8": 2}
OptimizerName = Literal["sgd", "adamw", "adam", "adafactor", "lion", "adam8bit", "muon"]
Init = Literal["gpt2", "xavier", "he", "mup"]
LrSchedule = Literal["constant", "linear", "cosine", "wsd", "inverse-sqrt", "one-cycle"]
GradientSync = Literal["bucketed", "naive"]
ContextParallel = Literal["ring", "all-to-all"]

# the most of a count: far beyond any run, and still answered within seconds
MOST, _MOST_OF = 10**9, {"layers": 10_000, "pp": 256, "virtual-stages": 64}


class ConfigError(ValueError):
    """A configuration that cannot be run; the message says what was wrong and what would work."""


def check(condition: bool, en: str, zh: str) -> None:
    """Raise ConfigError, in the reader's language, unless the condition holds."""
    if not condition:
        raise ConfigError(t(en, zh))


def flag(default: Any, en: str, zh: str) -> Any:
    """A field with its line of `--help`."""
    return field(default=default, metadata={"help": (en, zh)})


_hints = cache(get_type_hints)


def check_choices(config: Any) -> None:
    """Every Literal field holds one of its words; every int is at least 1 unless its default is
    0."""
    hints = _hints(type(config))
    for f in fields(config):
        value, name = getattr(config, f.name), f.name.replace("_", "-")
        words = get_args(hints[f.name])
        if words and all(isinstance(w, str) for w in words):
            check(
                value in words,
                f"--{name} {value!r} is not known: choose {', '.join(words)}.",
                f"--{name} 没有 {value!r} 这个取值，可选：{'、'.join(words)}。",
            )
        elif hints[f.name] is int:
            least = 0 if f.default == 0 else 1
            check(
                isinstance(value, int) and not isinstance(value, bool) and value >= least,
                f"--{name} must be a whole number from {least} up, not {value!r}.",
                f"--{name} 应为不小于 {least} 的整数，而不是 {value!r}。",
            )
            most = _MOST_OF.get(name, MOST)
            check(
                name == "seed" or value <= most,
                f"--{name} must be at most {most:,}, not {value:,}.",
                f"--{name} 最多为 {most:,}，而不是 {value:,}。",
            )


def is_number(value: Any) -> bool:
    """Whether it is a number that is neither infinite nor NaN."""
    return isinstance(value, int | float) and isfinite(value)


def divisors(n: int) -> list[int]:
    """The whole numbers that divide n, ascending."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def nearest(n: int, degree: int) -> str:
    """The divisors of n on either side of `degree`, to offer instead of it."""
    around = [
        max((d for d in divisors(n) if d < degree), default=None),
        min((d for d in divisors(n) if d > degree), default=None),
    ]
    return ", ".join(str(d) for d in around if d is not None)
