"""torch's own ways of keeping less, tried on eight blocks of a small GPT: lesson 03's measurements.

Bytes are counted on live storages, FLOPs as the kernels run; nothing comes from a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ..config import TrainConfig
from ..data.loader import Loader
from ..i18n import t
from ..measure.flops import FlopMeter
from ..measure.live import LiveStorages
from ..measure.memory import SavedActivations
from ..model import GPT
from ..text import Table, table
from ..widgets.frame.units import percent

RunBlock = Callable[[nn.Module, Tensor], Tensor]


class Tried(NamedTuple):
    """One pass forward and back: bytes kept between the two, FLOPs, and the gradient."""

    kept: int
    flops: int
    gradient: Tensor


def try_way(
    run_block: RunBlock, around: AbstractContextManager | None = None, device: str = "cpu"
) -> Tried:
    """Eight blocks, 256 tokens, each run by run_block(block, x), inside `around`."""
    config = TrainConfig.of("tiny", layers=8, seq=128, global_batch=2)
    model = GPT(config.model).to(device)
    tokens = Loader(config).batch(0).micro_batches[0].tokens.to(device)
    x = model.embed(tokens).detach().requires_grad_()
    there = [*model.parameters(), tokens, x]
    live, meter = LiveStorages(dict, SavedActivations(nn.Module()), there), FlopMeter()
    before = live.now
    with meter, live:
        with around or nullcontext():
            y = x
            for block in model.blocks:
                y = run_block(block, y)
            loss = y.square().sum()
        kept = live.now - before
        loss.backward()
    weights = [p for p in model.parameters() if p.grad is not None]
    return Tried(kept, meter.hardware, torch.cat([p.grad.flatten() for p in weights]))


def ways_table(tried: Sequence[Tried]) -> Table:
    """Everything kept, our checkpoint, torch's two, and products kept: each beside the first."""
    names = (
        t("everything kept", "全部留下"),
        t("ours", "我们的"),
        "use_reentrant=True",
        "use_reentrant=False",
        t("all but products recomputed", "除矩阵乘外都重算"),
    )
    rows: list[tuple[Any, ...]] = [
        (
            "",
            t("kept for backward, bytes", "为反向保存，字节"),
            t("share", "占比"),
            t("extra FLOPs", "额外 FLOPs"),
            t("same gradient", "梯度相同"),
        )
    ]
    first = tried[0]
    for name, one in zip(names, tried, strict=True):
        rows.append(
            (
                name,
                f"{one.kept:,}",
                percent(one.kept / first.kept),
                percent(one.flops / first.flops - 1),
                torch.equal(one.gradient, first.gradient),
            )
        )
    return table(rows)


class Counted(AbstractContextManager):
    """`hooks`, torch's own, with the bytes counted that pass through them: `down` when saved, `up`
    when asked for."""

    def __init__(self, hooks: saved_tensors_hooks) -> None:
        self.hooks, self.down, self.up = hooks, 0, 0
        pack, unpack = hooks.pack_hook, hooks.unpack_hook

        def counted_pack(x: Tensor) -> Any:
            self.down += x.nbytes
            return x.nbytes, pack(x)

        def counted_unpack(held: Any) -> Tensor:
            self.up += held[0]
            return unpack(held[1])

        hooks.pack_hook, hooks.unpack_hook = counted_pack, counted_unpack

    def __enter__(self) -> Counted:
        self.hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.hooks.__exit__(*error)
