"""autograd's engine for tensors on a GPU that is not there: torch's own asks the driver before it
begins.

The same order, node by node; nodes and the operators that they call are torch's.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from lab_utils.measure import memory as instruments


class Box:
    """What autograd keeps of one tensor. The engine would empty it once its node has run."""

    used: list[Box] = []

    def __init__(self, content: Any) -> None:
        self.content = content

    def open(self) -> Tensor:
        """The tensor; the box is to be emptied after the node that asks."""
        Box.used.append(self)
        saved = self.content
        return saved.tensor if isinstance(saved, instruments._Saved) else saved


def _key(node: Any) -> Any:
    accumulates = type(node).__name__ == "AccumulateGrad"
    return id(node.variable) if accumulates else (node.name(), node._sequence_nr())


def _dependencies(node: Any) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    seen, stack = {_key(node)}, [node]
    while stack:
        for following, _ in stack.pop().next_functions:
            if following is None:
                continue
            key = _key(following)
            counts[key] = counts.get(key, 0) + 1
            if key not in seen:
                seen.add(key)
                stack.append(following)
    return counts


def backward(tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
    """torch.autograd.backward for one root: latest node first, gradients of leaves at once,
    gradients that meet added out of place."""
    root = tensors[0] if isinstance(tensors, (tuple, list)) else tensors
    gradient = grad_tensors[0] if isinstance(grad_tensors, (tuple, list)) else grad_tensors
    edge = get_gradient_edge(root) if isinstance(root, Tensor) else root
    if gradient is None:
        gradient = torch.ones_like(root)
    waiting, entered = _dependencies(edge.node), count()
    # as in torch, `gradient` stays alive until the end
    buffers = {_key(edge.node): {edge.output_nr: gradient}}
    ready = [(0, next(entered), edge.node)]
    del root, tensors, grad_tensors, edge
    with torch.no_grad():
        while ready:
            node = heappop(ready)[2]
            arrived = buffers.pop(_key(node))
            if type(node).__name__ == "AccumulateGrad":
                _accumulate(node.variable, arrived.pop(0))
                continue
            following = [edge for edge in node.next_functions if edge[0] is not None]
            results = _run(node, arrived, following)
            del node
            for i, (target, slot) in enumerate(following):
                key = _key(target)
                if results[i] is not None:
                    result, results[i] = results[i], None
                    buffer = buffers.setdefault(key, {})
                    there = buffer.pop(slot, None)
                    buffer[slot] = result if there is None else there + result
                    del there, result
                waiting[key] -= 1
                if not waiting[key] and key in buffers:
                    leaf = type(target).__name__ == "AccumulateGrad"
                    order = -(1 << 62) if leaf else -target._sequence_nr()
                    heappush(ready, (order, next(entered), target))


def _run(node: Any, arrived: dict[int, Tensor], following: list[Any]) -> list[Tensor | None]:
    """The gradients for the edges that lead anywhere, in their shapes and formats; only then is
    what came in, and what the node saved, let go."""
    inputs = [arrived.pop(i, None) for i in range(len(node._input_metadata))]
    Box.used, before = [], Box.used
    call = node.apply if isinstance(node, torch.autograd.function.BackwardCFunction) else node
    results = call(*inputs)
    results = _for_edges(node, list(results) if isinstance(results, tuple) else [results])
    for i, (target, slot) in enumerate(following):
        if results[i] is not None:
            results[i] = _fitted(results[i], target, slot)
    del inputs
    for box in Box.used:
        box.content = None
    Box.used = before
    return results


def _for_edges(node: Any, results: list[Tensor | None]) -> list[Tensor | None]:
    """What a node gave, for each of its edges that lead anywhere. A function of ours answers for
    every argument, tensors or not."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return [x for x, needed in zip(results, node.needs_input_grad, strict=True) if needed]
    edges = zip(results, node.next_functions, strict=True)
    return [x for x, (target, _) in edges if target is not None]


def _fitted(gradient: Tensor, target: Any, slot: int) -> Tensor:
    wanted = target._input_metadata[slot]
    if tuple(gradient.shape) != tuple(wanted.shape):
        gradient = gradient.sum_to_size(*wanted.shape)
    return gradient if gradient.dtype == wanted.dtype else gradient.to(wanted.dtype)


def _accumulate(variable: Tensor, gradient: Tensor) -> None:
    if variable.grad is not None:
        variable.grad += gradient
    elif gradient.stride() == variable.stride():
        variable.grad = gradient.detach()
    else:
        variable.grad = torch.empty_like(variable).copy_(gradient)
    del gradient
    for hook in dict(variable._post_accumulate_grad_hooks or {}).values():
        hook(variable)
