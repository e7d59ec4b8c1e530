"""Bytes on the fullest GPU, and the planner's layouts, kept in held.json: the estimator finds both
out rank by rank, which takes minutes for a whole tool.

`python -m lab_utils.widgets.three_d.keep` writes the file anew; a test holds it to the estimator.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from ...config import ConfigError, ModelConfig, TrainConfig
from ...config.presets import PRESETS
from ...estimate.hardware import cluster
from ...estimate.plan import Plan, plan
from ...estimate.plan.needs import needed_bytes
from .words import speaking

FILE = Path(__file__).with_name("held.json")
SHOWN = 5
_PINS = dict(micro_batch=1, schedule="1f1b")


@functools.cache
def kept() -> dict[str, Any]:
    """{"bytes": {layout: bytes}, "best": {question: layouts, or why there are none}}."""
    return (
        json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"bytes": {}, "best": {}}
    )


def held_bytes(config: TrainConfig) -> int:
    """What the fullest rank needs, by the rules of CUDA kernels."""
    known, key = kept()["bytes"], key_of(config)
    if key not in known:
        known[key] = needed_bytes(config, kernels="cuda")
    return known[key]


def key_of(config: TrainConfig) -> str:
    """A layout in a word."""
    p = config.parallel
    numbers = (config.global_batch, p.dp, p.tp, p.pp, p.zero)
    return " ".join([_names()[config.model], *map(str, numbers), config.recompute])


@functools.cache
def _names() -> dict[ModelConfig, str]:
    return {ModelConfig(**PRESETS[name]): name for name in PRESETS}


def found_best(gpu: str, gpus: int, model: str, batch: int) -> list[Any]:
    """The planner's fastest layouts that differ in tp or pp, each [tp, pp, zero, recompute, bytes];
    or where nothing fits its sentence in English and in Chinese."""
    question = f"{gpu} {gpus} {model} {batch}"
    known = kept()["best"]
    if question not in known:
        known[question] = search_best(gpu, gpus, model, batch)
    return known[question]


def search_best(gpu: str, gpus: int, model: str, batch: int) -> list[Any]:
    """The same, searched for."""
    said = []
    for lang in ("en", "zh"):
        try:
            with speaking(lang):
                found = plan(
                    ModelConfig(**PRESETS[model]), cluster(gpu), gpus, batch, top=24, **_PINS
                )
                return _different(found)
        except ConfigError as error:
            said.append(str(error))
    return said


def _different(found: list[Plan]) -> list[list[Any]]:
    first: dict[tuple[int, int], list[Any]] = {}
    for one in found:
        p = one.config.parallel
        row = [p.tp, p.pp, p.zero, one.config.recompute, one.memory_bytes]
        first.setdefault((p.tp, p.pp), row)
    return list(first.values())[:SHOWN]
