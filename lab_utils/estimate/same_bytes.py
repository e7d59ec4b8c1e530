"""Configurations that cost the same bytes, made equal, so that a cache answers for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..config import TrainConfig

# no byte depends on these
_ANY = dict(
    lr=1.0,
    lr_schedule="constant",
    lr_end=1.0,
    warmup=0,
    weight_decay=0.0,
    clip=0.0,
    loss_scale=1.0,
    loss_scale_window=1,
    steps=1,
    seed=0,
    corpus=None,
)


def same_bytes(config: TrainConfig, **but: Any) -> TrainConfig:
    """The one that stands for all that differ from `config` in such flags; `but`: flags with
    values of their own."""
    if config.init != "mup":  # which has several learning rates
        but = {"init": "gpt2", "mup_base": 1} | but
    return replace(config, **_ANY | but)
