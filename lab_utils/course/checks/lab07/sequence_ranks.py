"""Exercise 3 on the ranks: an MLP under sequence parallelism, run once forward and backward, and
the same on one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....i18n import t
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..waited_axis import Sent, WaitedAxis, see, waited_axis

CUT = {"up.weight": 0, "up.bias": 0, "down.weight": 1}  # along which dim
WHOLE = ("norm.weight", "norm.bias", "down.bias")


@dataclass(frozen=True)
class Case:
    """x + down(gelu(up(norm(x)))) for `tokens` tokens of all ranks together."""

    ranks: int
    tokens: int
    wide: int
    width: int = 4
    criterion: str | None = None
    seed: int = 0

    def layers(self) -> tuple[nn.Module, nn.Module, nn.Module]:
        """norm, up, down: whole, and alike on all ranks; no number in them is 0 or 1."""
        torch.manual_seed(self.seed)
        norm = nn.LayerNorm(self.width)
        layers = norm, nn.Linear(self.width, self.wide), nn.Linear(self.wide, self.width)
        for parameter in (p for layer in layers for p in layer.parameters()):
            nn.init.normal_(parameter)
        return tuple(layer.double() for layer in layers)

    def tokens_and_weights(self) -> tuple[Tensor, Tensor]:
        """x, and what weighs the output in the loss."""
        torch.manual_seed(self.seed + 1)
        x, v = torch.randn(2, self.tokens, self.width, dtype=torch.float64)
        return x, v

    def __str__(self) -> str:
        return t(
            f"N = {self.ranks}, {self.tokens} tokens, {self.wide} features inside",
            f"N = {self.ranks}、{self.tokens} 个词元、内部 {self.wide} 个特征",
        )


@dataclass
class Facts:
    """One rank: output and gradients as they came, before and after `finish`, what was sent in each
    pass, and how many tokens went through `norm` (0: it was not called as a module)."""

    y: Any
    x: Any
    before: dict[str, Any]
    after: dict[str, Any]
    held: int
    forward: Sent
    backward: Sent
    finish: Sent
    normed: int


@dataclass(frozen=True)
class Right:
    """One process's output and gradients, and the bias that may be added only once."""

    y: Tensor
    x: Tensor
    gradients: dict[str, Tensor]
    bias: Tensor


@lru_cache(maxsize=64)
def right(case: Case) -> Right:
    """The same on one process."""
    norm, up, down = case.layers()
    x, v = case.tokens_and_weights()
    x.requires_grad_()
    y = x + down(F.gelu(up(norm(x))))
    (y * v).sum().backward()
    modules = nn.ModuleDict({"norm": norm, "up": up, "down": down})
    gradients = {name: p.grad for name, p in modules.named_parameters()}
    return Right(y.detach(), x.grad, gradients, down.bias.detach())


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """Build it, run it forward and backward on this rank's tokens, and have it finish."""
    plain, axis = waited_axis("all_reduce", "all_gather", "reduce_scatter")
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        saw(number, _examine(answer, case, axis))


def _examine(answer: Callable[..., Any], case: Case, axis: WaitedAxis) -> Facts:
    normed: list[int] = [0]
    norm, up, down = case.layers()
    norm.register_forward_pre_hook(lambda _, args: normed.append(args[0].shape[:-1].numel()))
    mlp = answer(norm, up, down, axis)
    x, v = (whole.chunk(case.ranks)[axis.rank].clone() for whole in case.tokens_and_weights())
    x.requires_grad_()
    y, forward = _watched(axis, lambda: mlp(x))
    fits = isinstance(y, Tensor) and y.shape == v.shape and y.requires_grad
    _, backward = _watched(axis, lambda: (y * v).sum().backward() if fits else None)
    before = _gradients(mlp)
    _, finish = _watched(axis, mlp.finish)
    held = {id(p): p.numel() for p in mlp.parameters()}
    return Facts(
        y.detach().clone() if isinstance(y, Tensor) else None,
        x.grad,
        before,
        _gradients(mlp),
        sum(held.values()),
        forward,
        backward,
        finish,
        max(normed),
    )


def _watched(axis: WaitedAxis, work: Callable[[], Any]) -> tuple[Any, Sent]:
    axis.begin()
    with Transfers() as transfers:
        result = work()
    return result, see(axis, transfers)


def _gradients(mlp: nn.Module) -> dict[str, Any]:
    found = {}
    for name in (*CUT, *WHOLE):
        module, _, parameter = name.partition(".")
        tensor = getattr(getattr(mlp, module, None), parameter, None)
        gradient = getattr(tensor, "grad", None)
        found[name] = None if gradient is None else gradient.detach().clone()
    return found
