"""A step of a model that would not fit: torch's own operations on tensors that have shapes and no
memory.

The engine, autograd and the optimizer run as they are; only the kernels do not. So saved bytes,
lifetimes and the peak are those of the real run, which the tests hold it to on small models, and a
70-billion-parameter model takes seconds and no memory.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..config import ConfigError, TrainConfig
from ..data.loader import MicroBatch, StepBatch
from ..i18n import t
from ..parallel.comm import Axis
from ..parallel.ledger import Ledger
from ..parallel.mesh import AXES, Mesh


class _OneProcess(Mesh):
    """A mesh of one rank, for which no process group is needed."""

    def __init__(self) -> None:
        self.ledger, self.rank, self.device = Ledger(), 0, torch.device("cpu")
        self._axes = {name: Axis(name, [0], 0, None, self.ledger) for name in AXES}


class _Numbers(TorchDispatchMode):
    """Whoever asks a tensor without memory for its number (the loss, the gradient's norm) is told
    2."""

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            return 2.0
        return function(*args, **(kwargs or {}))


def fake_step(config: TrainConfig) -> dict[str, Any]:
    """The memory terms of a steady step of `config` on one process, counted by the same instruments
    as a real run's.

    Bytes: parameters, gradients, optimizer, activations, weight_copies, peak, at_peak … Raises
    ConfigError for more than one rank.
    """
    from ..engines.ours import OurEngine
    from .loop import counted_step_of

    if config.parallel.world_size > 1:
        raise ConfigError(
            t(
                "tensors without memory are counted on one process, not on"
                f" {config.parallel.world_size}: use --dp 1 --tp 1 --pp 1, or estimate.",
                f"无内存张量的统计只支持单进程，而不是 {config.parallel.world_size} 个：请用 --dp 1"
                " --tp 1 --pp 1，或改用 estimate。",
            )
        )
    with warnings.catch_warnings(), FakeTensorMode(), _Numbers():
        warnings.simplefilter("ignore")
        mesh = _OneProcess()
        engine = OurEngine(config, mesh)
        engine.forward_backward(_batch(config))
        engine.update()
        return counted_step_of(engine, _batch(config), mesh)[2]


def _batch(config: TrainConfig) -> StepBatch:
    """A batch that lies in memory as the loader's does."""
    rows = torch.empty(config.global_batch, config.model.seq + 1, dtype=torch.int64)
    parts = rows.split(config.micro_batch)
    return StepBatch(
        0,
        tuple(MicroBatch(p[:, :-1].contiguous(), p[:, 1:].contiguous()) for p in parts),
        config.global_batch * config.model.seq,
    )
