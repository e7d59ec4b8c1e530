"""Pipeline parallelism by torch.distributed.pipelining: the stages that we cut, its schedules and
its executor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.distributed import pipelining

from ..config import TrainConfig
from ..data.loader import StepBatch
from ..layout.stages import stage_layers
from ..model import GPT
from ..parallel.comm import Axis
from .torch_tensor import local

SCHEDULES = {
    "gpipe": pipelining.ScheduleGPipe,
    "1f1b": pipelining.Schedule1F1B,
    "interleaved": pipelining.ScheduleInterleaved1F1B,
    "zero-bubble": pipelining.ScheduleInterleavedZeroBubble,
}


class Stage(GPT):
    """One pipeline stage, or where there is only one the whole model. Parameters keep the names
    that they have in GPT.

    The weights are drawn for the whole model on the CPU, then other stages' are dropped.
    """

    def __init__(self, config: TrainConfig, stage: int, device: torch.device) -> None:
        super().__init__(config.model, config.seed, config.init)
        p = config.parallel
        stages = p.pp * p.virtual_stages
        self.autocast = config.precision == "bf16"
        self.blocks = nn.ModuleDict(
            {
                str(layer): self.blocks[layer]
                for layer in stage_layers(config.model.layers, stages)[stage]
            }
        )
        if stage > 0:
            del self.token_embedding
            if hasattr(self, "position_embedding"):
                del self.position_embedding
        if stage < stages - 1:
            del self.final_norm, self.head
        self.to(device)

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """From tokens or the stage before's activations to activations, logits, or with targets
        loss sum and count."""
        with torch.autocast(x.device.type, torch.bfloat16) if self.autocast else nullcontext():
            x = self.embed(x) if hasattr(self, "token_embedding") else x
            for block in self.blocks.children():
                x = block(x)
            return self.head_loss(x, targets) if hasattr(self, "head") else x


class TorchPipeline:
    """Forward and backward passes of `stages` (by number), each under its own data parallelism, in
    the schedule's order."""

    def __init__(
        self,
        stages: dict[int, nn.Module],
        config: TrainConfig,
        axis: Axis,
        device: torch.device,
        boundary: torch.dtype,
    ) -> None:
        p, count = config.parallel, config.parallel.pp * config.parallel.virtual_stages
        seq = config.model.seq
        self.first, self.last = 0 in stages, count - 1 in stages
        tokens = torch.empty(config.micro_batch, seq, dtype=torch.int64, device="meta")
        between = torch.empty(
            config.micro_batch,
            seq // (p.tp if p.sequence_parallel else 1),
            config.model.hidden,
            dtype=boundary,
            device="meta",
            requires_grad=True,
        )
        made = []
        for number, module in stages.items():
            logits = (
                torch.empty(*tokens.shape, local(module.head.weight).shape[0], device="meta")
                if number == count - 1
                else None
            )
            made.append(
                pipelining.PipelineStage(
                    module,
                    number,
                    count,
                    device,
                    group=axis.group,
                    input_args=between if number else tokens,
                    output_args=between if logits is None else logits,
                )
            )
        of = SCHEDULES[p.schedule]
        several = issubclass(of, pipelining.schedules.PipelineScheduleMulti)
        self.schedule = of(
            made if several else made[0],
            config.micro_batches,
            loss_fn=self._loss,
            scale_grads=False,
        )
        self.loss: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = (
            stages[count - 1].loss if self.last else None
        )
        self.factor = 1.0

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return self.loss(logits, targets)[0] * self.factor

    def run(self, batch: StepBatch, factor: float) -> float:
        """Gradients of `factor` × the loss sum; returns the share's loss sum, 0 where no stage
        ends."""
        self.factor = factor
        tokens = (torch.cat([micro.tokens for micro in batch.micro_batches]),) if self.first else ()
        targets = torch.cat([micro.targets for micro in batch.micro_batches]) if self.last else None
        losses: list[Tensor] = []
        self.schedule.step(
            *tokens, target=targets, losses=losses if self.last else None, return_outputs=False
        )
        return sum(loss.item() for loss in losses) / factor
