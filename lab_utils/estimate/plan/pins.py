"""What a plan is told not to vary, looked at before the search: values that mean nothing, and pairs
that exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ...config import ConfigError, ModelConfig, ParallelConfig, TrainConfig
from ...i18n import t
from ...layout.refusals import refuse_layout


def refuse_bad_pins(model: ModelConfig, gpus: int, pins: Mapping[str, Any]) -> None:
    """Raise ConfigError, with what would work, for pins that no layout can have."""
    for name, value in pins.items():
        if name in ("tp", "cp", "pp", "dp", "micro_batch", "virtual_stages"):
            _check(
                isinstance(value, int) and not isinstance(value, bool) and value >= 1,
                f"--{name.replace('_', '-')} must be a whole number from 1 up, not {value!r}.",
                f"--{name.replace('_', '-')} 应为不小于 1 的整数，而不是 {value!r}。",
            )
    _check(
        pins.get("zero", 0) in (0, 1, 2, 3),
        f"--zero must be 0, 1, 2 or 3, not {pins.get('zero')!r}.",
        f"--zero 只能是 0、1、2 或 3，而不是 {pins.get('zero')!r}。",
    )
    _pipeline(model, pins)
    _context(model, pins)
    product = prod(pins.get(axis, 1) for axis in ("dp", "tp", "cp", "pp"))
    _check(
        "dp" not in pins or gpus % product == 0,
        f"--dp {pins.get('dp')} with what else is fixed makes groups of {product} GPUs, which do"
        f" not divide {gpus}: use --gpus {max(gpus // product, 1) * product}.",
        f"--dp {pins.get('dp')} 与其他固定项合起来每组 {product} 张 GPU，不能整除 {gpus}："
        f"请使用 --gpus {max(gpus // product, 1) * product}。",
    )


def _pipeline(model: ModelConfig, pins: Mapping[str, Any]) -> None:
    v, pp, schedule = (pins.get(name) for name in ("virtual_stages", "pp", "schedule"))
    _check(
        not (v and v > 1 and schedule not in (None, "interleaved")),
        f"--schedule {schedule} gives each rank one stage: leave out --virtual-stages {v}, or use"
        " --schedule interleaved.",
        f"--schedule {schedule} 下每个进程只有一个阶段：请去掉 --virtual-stages {v}，或改用"
        " --schedule interleaved。",
    )
    _check(
        not (v == 1 and schedule == "interleaved"),
        "--schedule interleaved needs --virtual-stages 2 or more; with 1 it is --schedule 1f1b.",
        "--schedule interleaved 需要 --virtual-stages 2 或更多；取 1 时就是 --schedule 1f1b。",
    )
    _check(
        not (pp == 1 and ((v and v > 1) or schedule in ("interleaved", "zero-bubble"))),
        "--pp 1 is no pipeline: leave it out, or leave out --schedule and --virtual-stages.",
        "--pp 1 没有流水线：请去掉它，或去掉 --schedule 与 --virtual-stages。",
    )
    most = model.layers // (pp or (2 if v and v > 1 else 1))
    _check(
        most >= 1 and (v or 1) <= most,
        f"{pp or 2} × {v or 1} pipeline stages need a layer each, and the model has"
        f" {model.layers}: use "
        + (f"--virtual-stages {most} or fewer." if most > 1 else f"--pp {model.layers} or fewer."),
        f"{pp or 2} × {v or 1} 个流水线阶段至少各需一层，而模型只有 {model.layers} 层：请使用"
        + (f" --virtual-stages {most} 或更少。" if most > 1 else f" --pp {model.layers} 或更少。"),
    )


def _context(model: ModelConfig, pins: Mapping[str, Any]) -> None:
    """A pinned cp must be able to cut the sequence (or the heads) in one of the two ways."""
    if pins.get("cp", 1) == 1:
        return
    kinds = (pins["cp_kind"],) if "cp_kind" in pins else ("ring", "all-to-all")
    refused = []
    for kind in kinds:
        axes = ParallelConfig(tp=pins.get("tp", 1), cp=pins["cp"], cp_kind=kind)
        try:
            refuse_layout(TrainConfig(model=model, parallel=axes, global_batch=1, micro_batch=1))
        except ConfigError as error:
            refused.append(error)
    if len(refused) == len(kinds):
        raise refused[0]


def _check(condition: bool, en: str, zh: str) -> None:
    if not condition:
        raise ConfigError(t(en, zh))
