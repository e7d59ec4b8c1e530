"""Lab 06's answers at work in a room: three stages of ZeRO in a few steps of training."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterable, Iterator
from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from .axis import Axis
from .chain import Chain, make_optimizer
from .lab05 import Said
from .link import Link


def zero1(link: Link, answer: Any, words: dict, weights: list[Tensor]) -> Said:
    """Steps with the states shared out; after each the weights go to the grader."""
    model, axis = _model(link, words, weights)
    zero = answer(model, axis, make_optimizer(words["optimizer"]))
    for x, y in _batches(link, words):
        model.zero_grad()
        model(x, y).backward()
        _gate(link, "backward over")
        zero.step()
        model.zero_grad()
        _gate(link, "step over", _sample(model.parameters(), words))
    return {"done": 0}, []


def zero2(link: Link, answer: Any, words: dict, weights: list[Tensor]) -> Said:
    """The same, and gradients that do not stay; `step` returns a norm."""
    model, axis = _model(link, words, weights)
    zero = answer(model, axis, make_optimizer(words["optimizer"]))
    max_norm = words["max_norm"] or inf
    for number, (x, y) in enumerate(_batches(link, words)):
        hook = None
        if number == words["overflow_at"] and axis.rank == 1:
            hook = _overflow(model.blocks[0].into.weight)
        model(x, y).backward()
        if hook is not None:
            hook.remove()
        _gate(link, "backward over")
        told = _number(zero.step(max_norm))
        _gate(link, "step over", [told, *_sample(model.parameters(), words)])
    return {"done": 0}, []


def zero3(link: Link, answer: Any, words: dict, weights: list[Tensor]) -> Said:
    """Weights that come and go: those that each block uses go to the grader from inside it."""
    # right before a first block, whose input needs no gradient
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    model, axis = _model(link, words, weights)
    del weights[:]
    for number, block in enumerate(model.blocks):
        block.stand = _stand(link, number, block, words)
    model.gate = lambda name: link.ask({"gate": "backward", "block": name})[0]
    zero = answer(list(model.blocks), axis)
    optimizer = make_optimizer(words["optimizer"])(zero.shards)
    _gate(link, "made")
    for x, y in _batches(link, words):
        loss = model(x, y)
        _gate(link, "forward over")
        loss.backward()
        del loss
        _gate(link, "backward over")
        optimizer.step()
        optimizer.zero_grad()
        _gate(link, "step over")
    link.ask({"gate": "last"})
    model(x, y)  # shows the weights after the last step
    return {"done": 0}, []


def _model(link: Link, words: dict, weights: list[Tensor]) -> tuple[Chain, Axis]:
    _touch(words)
    model = Chain(words["width"], words["inner"], words["gain"], words["dtype"])
    model.fill(weights)
    del weights[:]
    _gate(link, "model")
    return model, Axis(link, words["rank"], words["ranks"])


def _touch(words: dict) -> None:
    """Train a block of the same size, so that what torch takes for its first step of this kind is
    there before memory is looked at: pages of its files, its products' buffers."""
    model = Chain(words["width"], words["inner"][:1], False, words["dtype"])
    x = torch.ones(2, words["width"], dtype=model.blocks[0].scale.dtype)
    optimizer = make_optimizer(words["optimizer"])(list(model.parameters()))
    for _ in range(2):
        model(x, x).backward()
        optimizer.step()


def _number(came: Any) -> Tensor:
    """As a tensor of one element; what is none, as nan."""
    try:
        return torch.tensor([float(came)], dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return torch.tensor([nan], dtype=torch.float64)


def _batches(link: Link, words: dict) -> Iterator[list[Tensor]]:
    for _ in range(words["steps"]):
        yield _gate(link, "batch")


def _gate(link: Link, name: str, tensors: Iterable[Tensor] = ()) -> list[Tensor]:
    """Stand at a gate where memory may be looked at; what only waits to be collected is not
    held."""
    gc.collect()  # quick: the worker has frozen all that was there before
    return link.ask({"gate": name}, list(tensors))[1]


def _sample(parameters: Any, words: dict) -> list[Tensor]:
    """Every weight, or of a large model as many as are asked for."""
    return [p.detach().view(-1)[: words["sample"]] for p in parameters]


def _stand(link: Link, number: int, block: torch.nn.Module, words: dict) -> Any:
    def stand() -> None:
        used = [block.into.weight, block.scale, block.back.weight]
        used += [] if block.gain is None else [block.gain]
        link.ask({"gate": "forward", "block": number}, _sample(used, words))

    return stand


def _overflow(weight: Tensor) -> Any:
    at_the_end = torch.zeros(weight.numel(), dtype=weight.dtype)
    at_the_end[-1] = inf
    return weight.register_hook(lambda gradient: gradient + at_the_end.view(gradient.shape))
