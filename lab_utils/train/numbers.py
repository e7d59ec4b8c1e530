"""What the numbers of a real run look like: how large its gradients are, and what becomes of its
updates when the weights are kept in bf16."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..data.loader import Loader
from ..engines.optimizer import make_optimizer
from ..model import GPT

Sizes = dict[int, int]  # exponent e → how many numbers lie in [2^e, 2^(e+1))
Keep = Literal["master", "nearest", "stochastic"]
THREADS = 1


def sizes_of(tensors: Iterable[Tensor]) -> Sizes:
    """How many numbers there are of each power of two; zeros are left out."""
    found: Counter[int] = Counter()
    for tensor in tensors:
        exponents = torch.frexp(tensor.detach().double()[tensor != 0])[1] - 1
        for exponent, count in zip(*exponents.unique(return_counts=True), strict=True):
            found[int(exponent)] += int(count)
    return dict(sorted(found.items()))


def gradient_sizes(config: TrainConfig, step: int) -> dict[str, Sizes]:
    """Train in fp32 on one process for `step` steps and look at the next backward pass:
    "activations" are the gradients that arrive at the outputs of linear layers, "weights" those
    of all parameters."""
    torch.set_num_threads(THREADS)
    model = GPT(config.model, config.seed)
    optimizer, loader = make_optimizer(model.parameters(), config), Loader(config, 0)
    for number in range(step):
        _backward(model, loader, number)
        optimizer.step()
    arrived: list[Tensor] = []
    hooks = [
        module.register_forward_hook(lambda _, __, out: _watch(out, arrived))
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    _backward(model, loader, step)
    for hook in hooks:
        hook.remove()
    weights = [parameter.grad for parameter in model.parameters()]
    return {"activations": sizes_of(arrived), "weights": sizes_of(weights)}


def _watch(out: Tensor, arrived: list[Tensor]) -> None:
    out.register_hook(lambda gradient: arrived.append(gradient))


def _backward(model: nn.Module, loader: Loader, step: int) -> float:
    """Gradients of the mean loss; returns the mean loss."""
    batch, total = loader.batch(step), 0.0
    model.zero_grad()
    for tokens, targets in batch.micro_batches:
        loss, _ = model(tokens, targets)
        (loss / batch.global_tokens).backward()
        total += loss.item()
    return total / batch.global_tokens


def nearest(x: Tensor) -> Tensor:
    """fp32 numbers that bf16 has, each the nearest to its own."""
    return x.bfloat16().float()


def stochastic(x: Tensor, generator: torch.Generator) -> Tensor:
    """The same, up or down by chance: a random number below one bf16 step is added to the bits, and
    the 16 bits that bf16 has not are cut off."""
    noise = torch.randint(2**16, x.shape, dtype=torch.int32, generator=generator)
    return (x.view(torch.int32) + noise).bitwise_and(-(2**16)).view(torch.float32)


def train_rounded(config: TrainConfig, keep: Keep) -> tuple[list[float], list[float]]:
    """A run whose model only ever sees bf16 weights; all else is fp32, so that nothing differs
    but how an update reaches them. `keep`: an fp32 master weight, or the bf16 weight alone, the
    sum rounded to the nearest or stochastically. Returns the mean loss of each step, and the share
    of the weights that it changed."""
    torch.set_num_threads(THREADS)
    model = GPT(config.model, config.seed)
    weights = [p.detach() for p in model.parameters()]
    kept = [nn.Parameter(w.clone()) for w in weights]
    optimizer, loader = make_optimizer(kept, config), Loader(config, 0)
    chance = torch.Generator().manual_seed(config.seed)
    rounding: dict[str, Callable[[Tensor], Tensor]] = {
        "master": lambda x: x,
        "nearest": nearest,
        "stochastic": lambda x: stochastic(x, chance),
    }
    losses, moved = [], []
    _store(weights, kept, nearest if keep != "master" else rounding[keep])
    for step in range(config.steps):
        losses.append(_backward(model, loader, step))
        for parameter, copy in zip(model.parameters(), kept, strict=True):
            copy.grad = parameter.grad
        optimizer.step()
        changed = _store(weights, kept, rounding[keep])
        moved.append(changed / sum(w.numel() for w in weights))
    return losses, moved


def _store(
    weights: list[Tensor], kept: list[nn.Parameter], rounding: Callable[[Tensor], Tensor]
) -> int:
    """Round what is kept, show it to the model in bf16; returns how many weights changed."""
    changed = 0
    with torch.no_grad():
        for weight, copy in zip(weights, kept, strict=True):
            copy.copy_(rounding(copy.detach()))
            seen = nearest(copy)
            changed += int((seen != weight).sum())
            weight.copy_(seen)
    return changed
