"""A step on CUDA tensors without memory, on a machine without a GPU: torch's CUDA build knows what
each of its CUDA kernels saves and returns, whether or not there is a device.

Needs `torch===2.13.0` (the build with CUDA) in an environment of its own: see cuda_saved_bytes.py.
The engine, the model, its tensor-parallel layers, autograd's graph and the instruments are the real
ones. What needs a driver is done here in its place: autograd's engine (fake_autograd.py), the
choice of the attention kernel, autocast's question whether there is a device, and the states of
random generators. Of several ranks one is there; its collectives allocate what they do on NCCL, and
keep it for as long (Alone).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from fake_autograd import Box, backward
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from lab_utils import TrainConfig
from lab_utils.config import ParallelConfig
from lab_utils.data.loader import MicroBatch, StepBatch
from lab_utils.measure.live import LiveStorages
from lab_utils.measure.memory import SavedActivations, held_bytes
from lab_utils.parallel.comm import Axis, Pending
from lab_utils.train.fake import _Numbers, _OneProcess

_sdpa = F.scaled_dot_product_attention


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


# -- the step --------------------------------------------------------------------------------------


class Kept(Pending):
    """A collective under way. NCCL's work keeps its tensors until it is waited for
    (ProcessGroupNCCL.hpp, TensorShelf)."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor: Tensor | None = tensor

    def wait(self) -> None:
        """Let go of them."""
        self.tensor = None


class Alone(Axis):
    """One rank of an axis whose others are not there: nothing is sent, and what comm.Axis allocates
    on a GPU is allocated."""

    def all_reduce(self, tensor: Tensor, **_: Any) -> Pending:
        return Pending()

    def all_gather(self, whole: Tensor, **_: Any) -> Pending:
        return Pending() if self.size == 1 else Kept(self._equal_parts(whole)[self.rank].clone())

    def reduce_scatter(self, whole: Tensor, **_: Any) -> tuple[Tensor, Pending]:
        if self.size == 1:
            return whole.view(-1), Pending()
        return self._equal_parts(whole)[self.rank], Kept(whole.clone())


class _OneGpu(_OneProcess):
    """A mesh of one process, at `tp_rank` of the tp axis and first of the dp axis; the others are
    not there."""

    def __init__(self, parallel: ParallelConfig, tp_rank: int = 0) -> None:
        super().__init__()
        self.device = torch.device("cuda", 0)
        self._axes["tp"] = Alone("tp", list(range(parallel.tp)), tp_rank, None, self.ledger)
        self._axes["dp"] = Alone("dp", list(range(parallel.dp)), 0, None, self.ledger)


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


def cuda_step(config: TrainConfig, tp_rank: int = 0) -> dict[str, Any]:
    """The memory terms of a steady step of one rank of `config`, in bytes, and `by_module`: what
    the forward passes save, by the module that saves it first."""
    from lab_utils.engines.ours import OurEngine

    with warnings.catch_warnings(), FakeTensorMode(), _Numbers(), without_a_driver():
        warnings.simplefilter("ignore")
        engine = OurEngine(config, _OneGpu(config.parallel, tp_rank))
        engine.forward_backward(_batch(config))
        engine.update()
        batch = _batch(config)
        saved = Saved(engine.model, engine.weights())
        live = LiveStorages(engine.held, saved, (x for m in batch.micro_batches for x in m))

        def observe(what: str, tensor: Tensor, held: bool) -> None:
            saved.observe(what, tensor, held)
            live.observe(what, tensor, held)

        engine.mesh.ledger.observer = observe
        with saved, live:
            engine.forward_backward(batch)
            engine.update()
        found = {"activations": saved.peak, "weight_copies": saved.copies_peak}
        at_peak = {term: nbytes for term, nbytes in live.at_peak().items() if nbytes}
        found |= held_bytes(engine.held()) | {"peak": live.peak, "at_peak": at_peak}
        return found | {"by_module": saved.by_module}


def _batch(config: TrainConfig) -> StepBatch:
    """As train.fake's: it lies in memory as the loader's does, on the device."""
    share = config.global_batch // config.parallel.dp
    rows = torch.empty(share, config.model.seq + 1, dtype=torch.int64, device="cuda")
    parts = rows.split(config.micro_batch)
    return StepBatch(
        0,
        tuple(MicroBatch(p[:, :-1].contiguous(), p[:, 1:].contiguous()) for p in parts),
        config.global_batch * config.model.seq,
    )
