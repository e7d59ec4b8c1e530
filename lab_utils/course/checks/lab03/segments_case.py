"""Exercise 2's cases: layers that count their runs and know who called them, and what they are fed
with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import checkpoint as torch_checkpoint

from ....i18n import t
from ....parallel import recompute
from ..ranks import BrokenRule

READY_MADE = {torch_checkpoint.__file__, recompute.__file__}
TOKENS, WIDTH = 256, 32


@dataclass(frozen=True)
class Case:
    """A segment of layers with these inner widths, in fp32. `criterion`: the one thing that the
    case is there to show."""

    inner: tuple[int, ...]
    criterion: str | None = None
    dropout: float = 0.0
    keep_as: str | None = None
    # each layer also gets a tensor that needs a gradient, a mask, a number and None
    arguments: bool = False
    needs_gradient: bool = True  # of the input
    frozen: tuple[int, ...] = ()  # layers whose parameters need none
    nested: bool = False  # all layers but the first are a segment inside the segment
    passes: int = 1  # forward passes before the first backward pass
    again: bool = False  # the whole once more, gradients adding up
    seed: int = 0

    def __str__(self) -> str:
        words = [t(f"{len(self.inner)} layers", f"{len(self.inner)} 层")]
        words += [t(f"dropout {self.dropout:g}", f"dropout {self.dropout:g}")] * bool(self.dropout)
        words += [t(f"inputs kept as {self.keep_as}", f"输入以 {self.keep_as} 保存")] * bool(
            self.keep_as
        )
        words += [t("more arguments", "更多输入")] * self.arguments
        words += [t("an input that needs no gradient", "输入不需要梯度")] * (
            not self.needs_gradient
        )
        words += [t("frozen layers", "有冻结的层")] * bool(self.frozen)
        words += [t("a segment inside the segment", "段中有段")] * self.nested
        words += [
            t(
                f"{self.passes} passes before the backward pass",
                f"先做 {self.passes} 次前向，再做反向",
            )
        ] * (self.passes > 1)
        words += [t("two steps", "两步")] * self.again
        return t(", ", "、").join(words)

    def layers(self) -> nn.ModuleList:
        """The layers with their first weights."""
        torch.manual_seed(self.seed)
        made = nn.ModuleList(Layer(inner, self.dropout) for inner in self.inner)
        for number in self.frozen:
            made[number].requires_grad_(False)
        return made

    def feed(self) -> Feed:
        """What the layers are called with, drawn from the seed."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        inputs = [
            torch.randn(TOKENS, WIDTH, generator=generator).requires_grad_(self.needs_gradient)
            for _ in range(self.passes)
        ]
        others: tuple[Any, ...] = ()
        if self.arguments:
            shift = torch.randn(WIDTH, generator=generator).requires_grad_()
            others = (shift, torch.rand(TOKENS, 1, generator=generator) < 0.2, 0.5, None)
        return Feed(
            inputs,
            others,
            [torch.randn(TOKENS, WIDTH, generator=generator) for _ in range(self.passes)],
        )


@dataclass
class Feed:
    """Inputs of each pass, the further arguments, and the gradients of the outputs."""

    inputs: list[Tensor]
    others: tuple[Any, ...]
    gradients: list[Tensor]


class Layer(nn.Module):
    """x + down(dropout(gelu(up(x + shift)))) times `factor`, 0 where `mask` is set; counts its
    runs."""

    def __init__(self, inner: int, dropout: float) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)
        self.dropout, self.runs = nn.Dropout(dropout), 0
        self.must_see: Callable[[], None] = lambda: None

    def forward(
        self,
        x: Tensor,
        shift: Tensor | None = None,
        mask: Tensor | None = None,
        factor: float = 1.0,
        nothing: None = None,
    ) -> Tensor:
        self.runs += 1
        self.must_see()
        _refuse_ready_made()
        h = F.gelu(self.up(x if shift is None else x + shift))
        y = factor * self.down(self.dropout(h))
        return x + (y if mask is None else y.masked_fill(mask, 0.0))


def _refuse_ready_made() -> None:
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename in READY_MADE:
            raise BrokenRule(
                "from-scratch",
                t("the second run is your own code's.", "第二次运行由你自己的代码完成。"),
                t(
                    "the layers were run by a ready-made checkpoint, in"
                    f" {Path(frame.f_code.co_filename).name}.",
                    f"运行这些层的是现成的 checkpoint，"
                    f"在 {Path(frame.f_code.co_filename).name} 里。",
                ),
            )
        frame = frame.f_back
