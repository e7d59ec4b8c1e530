"""A small GPT with dropout, its text, and an optimizer that sees how far it moves the weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ....config import TrainConfig
from ....model import GPT

VOCAB, SEQ, ROWS = 24, 8, 4


class SmallGPT(nn.Module):
    """`(tokens, targets)`, both (4, 8), → the mean loss, with dropout after the embedding; float64,
    so that the smallest step can be measured."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        sizes = {"layers": 1, "hidden": 16, "heads": 2, "vocab": VOCAB, "seq": SEQ}
        self.gpt = GPT(TrainConfig.of("tiny", **sizes).model, seed).double()

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = F.dropout(self.gpt.embed(tokens), 0.1)
        for block in self.gpt.blocks:
            x = block(x)
        loss, count = self.gpt.head_loss(x, targets)
        return loss / count


class Data:
    """Micro-batches, one after the other: `next()` reads the one at `position` and moves on; a
    position may be set. The text counts up by a step that each row draws."""

    def __init__(self, seed: int, rank: int = 0) -> None:
        self.seed, self.rank, self.position = seed, rank, 0

    def next(self) -> tuple[Tensor, Tensor]:
        """Tokens and targets, (4, 8), int64."""
        seed = hash((self.seed, self.rank, self.position)) % 2**31
        generator = torch.Generator().manual_seed(seed)
        first, step = torch.randint(1, 5, (2, ROWS, 1), generator=generator)
        rows = (first + step * torch.arange(SEQ + 1)) % VOCAB
        self.position += 1
        return rows[:, :-1], rows[:, 1:]


class Log(list):
    """A list that a copy of its owner shares: who trains a copied model is seen, too."""

    def __deepcopy__(self, _: Any) -> Log:
        return self


def pull(weight: Tensor) -> float:
    """One number of a weight's gradient, by which two gradients are told apart."""
    if weight.grad is None:
        return 0.0
    flat = weight.grad.flatten()
    return (flat * torch.linspace(1, 2, flat.numel(), dtype=flat.dtype)).sum().item()


class WatchedSGD(torch.optim.SGD):
    """SGD with momentum; appends to `rates`, for every step, the rate that each group's first
    parameter really got: how far it moved, by its momentum. `pulls`: of each step's gradient one
    number."""

    def __init__(self, groups: Any, rates: list[tuple[float, ...]]) -> None:
        super().__init__(groups, lr=1.0, momentum=0.5)
        self.rates, self.pulls = rates, Log()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "rates": self.rates, "pulls": self.pulls}

    def step(self, closure: Any = None) -> None:
        """As SGD's."""
        weights = [group["params"][0] for group in self.param_groups]
        before = [weight.detach().clone() for weight in weights]
        super().step()
        found = []
        for weight, old in zip(weights, before, strict=True):
            moved, along = old - weight.detach(), self.state[weight]["momentum_buffer"]
            found.append(((moved * along).sum() / along.square().sum()).item())
        self.rates.append(tuple(found))
        self.pulls.append(pull(weights[0]))
