"""DeepSpeed's ZeRO behind our Engine (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward
Training Trillion Parameter Models"): stages 0 to 3 over the dp axis, with our model, our optimizers
and our batches.

DeepSpeed is set up as its documentation says, except where the defaults would train something else:
no clipping unless asked for (it clips to 1.0 by default), and a torch optimizer also when its
states are offloaded.
"""

from __future__ import annotations

import contextlib
import io
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from torch import Tensor

from ..config import TrainConfig
from ..config.lr_schedule import learning_rate
from ..data.loader import StepBatch
from ..layout.placement import Placement
from ..measure.traffic import OutsideCounter
from ..model import GPT
from ..parallel.mesh import Mesh
from ..parallel.recompute import recompute, torch_checkpoint
from .deepspeed_setup import load_deepspeed
from .engine import Engine
from .fragments import Fragment
from .optimizer import make_optimizer, set_rate


class DeepSpeedEngine(Engine):
    """One rank's side of a run by DeepSpeed. Raises ConfigError where its extension cannot be
    compiled."""

    def __init__(self, config: TrainConfig, mesh: Mesh) -> None:
        self.config, self.mesh, self.counter = config, mesh, OutsideCounter(mesh)
        self.library, self.updates = load_deepspeed(mesh.device.type), 0
        self._make()

    def _make(self) -> None:
        self.model = GPT(self.config.model, self.config.seed, self.config.init).to(self.mesh.device)
        recompute(self.model, self.config.recompute, by=torch_checkpoint)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it has compiled
            self.engine, *_ = self.library.initialize(
                model=self.model,
                optimizer=make_optimizer(self.model.parameters(), self.config),
                config=settings(self.config),
                dist_init_required=False,
            )
        self.pending = False  # gradients that were not applied

    def forward_backward(self, batch: StepBatch) -> float:
        if self.pending:
            if self.updates:
                raise RuntimeError(
                    "DeepSpeed cannot forget gradients: call update() between two"
                    " forward_backward()"
                )
            # nothing was applied yet, so a new engine is the same engine without gradients
            self._make()
        total, count = 0.0, len(batch.micro_batches)
        # it averages over ranks and micro-batches
        factor = self.mesh["dp"].size * count / batch.global_tokens
        for i, micro in enumerate(batch.micro_batches):
            loss, _ = self.engine(micro.tokens, micro.targets)
            self.engine.backward(loss * factor)
            if i < count - 1:
                self.engine.step()  # only counts micro-batches until the last
            total += loss.item()
        self.pending = True
        return total

    def update(self) -> bool:
        set_rate(self.engine.optimizer, learning_rate(self.config, self.updates))
        self.engine.step()
        self.pending, self.updates = False, self.updates + 1
        return True

    def fragments(self) -> list[Fragment]:
        """DeepSpeed puts each whole gradient together, which takes all ranks; the first brings
        them."""
        found = []
        for name, parameter in self.model.named_parameters():
            gradient = self.library.utils.safe_get_full_grad(parameter)
            if self.mesh["dp"].rank == 0:
                found.append(
                    Fragment(
                        Placement(name, tuple(gradient.shape)),
                        0,
                        gradient.detach().float().cpu().numpy().astype(np.float32, copy=True),
                    )
                )
        return found

    def held(self) -> dict[str, list[Tensor] | None]:
        """What can be seen between steps: weights and their shards, the optimizer's fp32 weights
        and states. Gradients are gone by then, buffers stay inside. Under ZeRO 3, DeepSpeed keeps
        weights below 100,000 elements whole on every rank."""
        base = (
            self.engine.optimizer.optimizer if self.config.parallel.zero else self.engine.optimizer
        )
        states: list[Any] = [
            *base.state,
            *(x for state in base.state.values() for x in state.values() if isinstance(x, Tensor)),
        ]
        shards = [
            parameter.ds_tensor
            for parameter in self.model.parameters()
            if hasattr(parameter, "ds_tensor")
        ]
        offload = self.config.parallel.offload
        found = {
            "parameters": [*self.model.parameters(), *shards],
            "gradients": None,
            "buckets": None,
            "optimizer": [] if offload else states,
            "offloaded": states if offload else [],
        }
        # weights that it gathers pass for saved activations
        return found | {"activations": None} if shards else found

    def counters(self) -> list[AbstractContextManager]:
        return [self.counter]


def settings(config: TrainConfig) -> dict[str, Any]:
    """DeepSpeed's own configuration for ours."""
    zero: dict[str, Any] = {"stage": config.parallel.zero}
    if config.parallel.offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": config.micro_batch,
        "gradient_accumulation_steps": config.micro_batches,
        "gradient_clipping": config.clip,
        "zero_optimization": zero,
        "bf16": {"enabled": config.precision == "bf16"},
        "zero_allow_untested_optimizer": True,  # SGD, and AdamW with torch's fused kernel
        "zero_force_ds_cpu_optimizer": False,
    }
