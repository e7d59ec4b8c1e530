"""Tensor parallelism by DTensor: the plan that torch's documentation gives for a transformer, for
our GPT.

The layers are those that `parallel/tensor.py` shares out, so that the two can be compared. Every
parameter becomes a DTensor, also those that all ranks hold whole: optimizers and clipping refuse
lists that mix DTensors with others.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from ..model import GPT, loss_sum_and_count


def parallelize_tensors(model: GPT, mesh: DeviceMesh, sequence_parallel: bool) -> None:
    """Share out `model` (whole or a pipeline stage, with its weights in place) over the one axis of
    `mesh`."""
    between = Shard(1) if sequence_parallel else Replicate()  # the residual stream (b, s, h)
    norm = SequenceParallel() if sequence_parallel else _Whole()
    plan: dict[str, ParallelStyle] = {}
    for number, block in model.blocks.named_children():
        inside = {"attention_norm": norm, "mlp_norm": norm}
        for name, columns, row in (
            ("attention", ("query", "key", "value"), "output"),
            ("mlp", ("gate", "up"), "down"),
        ):
            # once for all columns
            inside[name] = PrepareModuleInput(
                input_layouts=between, desired_input_layouts=Replicate()
            )
            inside |= {
                f"{name}.{column}": ColwiseParallel()
                for column in columns
                if hasattr(getattr(block, name), column)
            }
            inside[f"{name}.{row}"] = RowwiseParallel(output_layouts=between)
        plan |= {f"blocks.{number}.{name}": style for name, style in inside.items()}
    if hasattr(model, "token_embedding"):
        plan["token_embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
    if hasattr(model, "position_embedding"):
        plan["position_embedding"] = _Whole(between)
    if hasattr(model, "head"):
        plan |= {"final_norm": norm, "head": ColwiseParallel(input_layouts=between)}
        model.loss = _VocabParallelLoss(mesh, model.config.vocab)
    tied = model.config.tied and hasattr(model, "head")
    # every rank has drawn the same weights: nothing is sent
    parallelize_module(model, mesh, plan, src_data_rank=None)
    if tied:
        model.head.weight = model.token_embedding.weight


class _Whole(ParallelStyle):
    """Every rank holds the module's parameters whole. Local tensors in and out; with Shard(1), of
    its own tokens only."""

    def __init__(self, layout: Replicate | Shard = Replicate()) -> None:  # noqa: B008 - has no state
        super().__init__()
        self.layout = layout

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return distribute_module(module, device_mesh, self._replicate, self._enter, self._leave)

    @staticmethod
    def _replicate(_: str, module: nn.Module, mesh: DeviceMesh) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            module.register_parameter(
                name,
                nn.Parameter(distribute_tensor(parameter, mesh, [Replicate()], src_data_rank=None)),
            )

    def _enter(
        self, _: nn.Module, inputs: tuple[Tensor, ...], mesh: DeviceMesh
    ) -> tuple[DTensor, ...]:
        return tuple(
            DTensor.from_local(x, mesh, [Replicate()], run_check=False).redistribute(
                placements=[self.layout]
            )
            for x in inputs
        )

    @staticmethod
    def _leave(_: nn.Module, output: DTensor, mesh: DeviceMesh) -> Tensor:
        return output.to_local()


class _VocabParallelLoss:
    """Stands in for `model.loss_sum_and_count`, with this rank's part of the logits (b, s, V/N);
    used, forward and backward, inside `loss_parallel()`."""

    def __init__(self, mesh: DeviceMesh, vocab: int) -> None:
        self.mesh, self.vocab = mesh, vocab

    def __call__(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        b, s, _ = logits.shape
        whole = DTensor.from_local(
            logits,
            self.mesh,
            [Shard(-1)],
            run_check=False,
            shape=(b, s, self.vocab),
            stride=(s * self.vocab, self.vocab, 1),
        )
        loss, count = loss_sum_and_count(whole, targets)
        return loss.to_local(), count


def reduce_partial_gradients(parameters: list[nn.Parameter]) -> None:
    """Add up what sequence parallelism showed to every rank for its own tokens only: norms,
    positions, some biases."""
    for parameter in parameters:
        if (
            isinstance(parameter.grad, DTensor)
            and parameter.grad.placements != parameter.placements
        ):
            parameter.grad = parameter.grad.redistribute(placements=parameter.placements)


def local(tensor: Any) -> Tensor:
    """What this rank holds of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


__all__ = ["local", "loss_parallel", "parallelize_tensors", "reduce_partial_gradients"]
