"""What is refused, and why: one sentence each, with the nearest thing that works."""

from __future__ import annotations

from ..config import TrainConfig
from .refusals_engines import refuse_for_deepspeed, refuse_for_torch
from .refusals_layout import refuse, refuse_layout

__all__ = ["ENGINES", "refuse_layout", "refuse_what_cannot_run"]

ENGINES = ("ours", "torch", "deepspeed")


def refuse_what_cannot_run(config: TrainConfig, engine: str = "ours") -> None:
    """Raise ConfigError for engines, layouts and formats that are not carried out."""
    refuse(
        engine not in ENGINES,
        f"there is no engine {engine!r}; choose {', '.join(ENGINES)}.",
        f"没有名为 {engine!r} 的引擎，可选：{'、'.join(ENGINES)}。",
    )
    refuse_layout(config)
    if engine == "torch":
        refuse_for_torch(config)
    if engine == "deepspeed":
        refuse_for_deepspeed(config)
