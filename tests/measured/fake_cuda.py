"""A step on CUDA tensors without memory, on a machine without a GPU: torch's CUDA build knows what
each of its CUDA kernels saves and returns, whether or not there is a device.

Needs `torch===2.13.0` (the build with CUDA) in an environment of its own: see cuda_saved_bytes.py.
The engine, the model, autograd's graph and the instruments are the real ones. What needs a driver
is done here in its place: autograd's engine (the same order, node by node), the choice of the
attention kernel, autocast's question whether there is a device, and the states of random
generators.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import get_gradient_edge

from lab_utils import TrainConfig
from lab_utils.data.loader import MicroBatch, StepBatch
from lab_utils.measure import memory as instruments
from lab_utils.measure.fake import _Numbers, _OneProcess
from lab_utils.measure.live import LiveStorages
from lab_utils.measure.memory import SavedActivations, held_bytes

_sdpa = F.scaled_dot_product_attention


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


class Saved(SavedActivations):
    """The project's own meter, with boxes that can be emptied. `by_module`: bytes that each module
    was the first to save."""

    def __init__(self, model: torch.nn.Module, weights: Sequence[Tensor]) -> None:
        super().__init__(model, weights)
        self._hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda x: Box(self._pack(x)), Box.open
        )
        self.at, self.by_module = [""], dict[str, int]()
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda *_, name=name: self.at.append(name))
            module.register_forward_hook(lambda *_: self.at.pop() and None)

    def _hold(self, tensor: Tensor) -> None:
        before = self.now
        super()._hold(tensor)
        if self.now != before:
            self.by_module[self.at[-1]] = self.by_module.get(self.at[-1], 0) + self.now - before


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, enable_gqa: bool = False
) -> Tensor:
    """The kernel that torch 2.13 takes on a GPU (sdp_utils.cpp: flash for 16 bits, which knows
    grouped queries; the memory-efficient one for fp32, which does not: then the written-out
    one)."""
    if q.dtype != torch.float32:
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal)[0]
    if q.shape[1] == k.shape[1]:
        needed = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            q, k, v, None, needed, 0.0, is_causal
        )[0]
    return _sdpa(q, k, v, is_causal=is_causal, enable_gqa=enable_gqa)


# -- autograd's engine -----------------------------------------------------------------------------


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
            following = list(node.next_functions)
            # a function of ours answers for every argument, tensors or not; its tensors come last
            results = _run(node, arrived)[-len(following) :]
            del node
            for i, (target, slot) in enumerate(following):
                if target is None:
                    continue
                key = _key(target)
                if results[i] is not None:
                    result = _fitted(results[i], target, slot)
                    results[i] = None
                    buffer = buffers.setdefault(key, {})
                    there = buffer.pop(slot, None)
                    buffer[slot] = result if there is None else there + result
                    del there, result
                waiting[key] -= 1
                if not waiting[key] and key in buffers:
                    leaf = type(target).__name__ == "AccumulateGrad"
                    order = -(1 << 62) if leaf else -target._sequence_nr()
                    heappush(ready, (order, next(entered), target))


def _run(node: Any, arrived: dict[int, Tensor]) -> list[Tensor | None]:
    inputs = [arrived.pop(i, None) for i in range(len(node._input_metadata))]
    Box.used, before = [], Box.used
    call = node.apply if isinstance(node, torch.autograd.function.BackwardCFunction) else node
    results = call(*inputs)
    del inputs
    for box in Box.used:
        box.content = None
    Box.used = before
    return list(results) if isinstance(results, tuple) else [results]


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


# -- the step --------------------------------------------------------------------------------------


class _OneGpu(_OneProcess):
    def __init__(self) -> None:
        super().__init__()
        self.device = torch.device("cuda", 0)


@contextmanager
def without_a_driver() -> Iterator[None]:
    """Inside, what torch would ask the driver is answered here."""
    state = torch.zeros(16, dtype=torch.uint8)
    answers = {
        "torch.autograd.backward": backward,
        "torch.nn.functional.scaled_dot_product_attention": attention,
        "torch.autograd._is_checkpoint_valid": mock.Mock(return_value=True),
        "torch.cuda.amp.common.amp_definitely_not_available": mock.Mock(return_value=False),
        "torch.cuda.is_bf16_supported": mock.Mock(return_value=True),
        "torch.cuda.get_rng_state": mock.Mock(return_value=state),
        "torch.cuda.set_rng_state": mock.Mock(return_value=None),
        "torch.random.fork_rng": mock.Mock(side_effect=lambda **_: ExitStack()),
    }
    with ExitStack() as stack:
        for question, answer in answers.items():
            stack.enter_context(mock.patch(question, answer))
        yield


def cuda_step(config: TrainConfig) -> dict[str, Any]:
    """The memory terms of a steady step of `config` on one GPU, in bytes, and `by_module`: what the
    first micro-batch's forward pass saves, by the module that saves it first."""
    from lab_utils.train.engine import OurEngine

    with warnings.catch_warnings(), FakeTensorMode(), _Numbers(), without_a_driver():
        warnings.simplefilter("ignore")
        engine = OurEngine(config, _OneGpu())
        engine.forward_backward(_batch(config))
        engine.update()
        batch = _batch(config)
        saved = Saved(engine.model, engine.weights())
        live = LiveStorages(engine.held, saved, (x for m in batch.micro_batches for x in m))
        with saved, live:
            engine.forward_backward(batch)
            engine.update()
        found = {"activations": saved.peak, "weight_copies": saved.copies_peak}
        at_peak = {term: nbytes for term, nbytes in live.at_peak().items() if nbytes}
        found |= held_bytes(engine.held()) | {"peak": live.peak, "at_peak": at_peak}
        return found | {"by_module": saved.by_module}


def _batch(config: TrainConfig) -> StepBatch:
    """As measure.fake's: it lies in memory as the loader's does, on the device."""
    rows = torch.empty(config.global_batch, config.model.seq + 1, dtype=torch.int64, device="cuda")
    parts = rows.split(config.micro_batch)
    return StepBatch(
        0,
        tuple(MicroBatch(p[:, :-1].contiguous(), p[:, 1:].contiguous()) for p in parts),
        config.global_batch * config.model.seq,
    )
