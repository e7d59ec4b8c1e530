"""`pipeline(stages, axis, …)`: pipeline parallelism of any list of layers, each of which reads the
tensor that the one before it gives.

The order of the work is the schedule's and the executor is our GPT's (pipeline.py). What is found
out here: which layers are whose, what the messages look like, and which weights two ranks share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..config import Schedule
from ..data.loader import MicroBatch, StepBatch
from ..i18n import t
from ..layout.schedule import PipelineSchedule, make_schedule
from ..layout.stages import stage_layers, stages_of_rank
from .comm import Axis
from .found_boundary import FoundBoundary, one_tensor
from .gradient_sync import GradientSync, same_start
from .pipeline import Pipeline
from .stage import Part

Loss = Callable[[Tensor, Tensor], Tensor]


def pipeline(
    stages: Iterable[nn.Module],
    axis: Axis,
    *,
    loss: Loss,
    micro_batches: int,
    schedule: Schedule = "1f1b",
    virtual_stages: int = 1,
    sizes: Sequence[int] | None = None,
    broadcast: bool = True,
) -> Pipelined:
    """Share the layers `stages` (a list, or an nn.Sequential) out over the ranks of `axis` in their
    order; they are whole on every rank before.

    Each layer reads one tensor and gives one, of any shape and any floating dtype; only the first
    may read something else, as token numbers. `loss(output, target)` is the mean over a
    micro-batch. `schedule`: "gpipe", "1f1b", or "interleaved" with `virtual_stages` (Huang et al.
    2019; Narayanan et al. 2021, section 2.2). `sizes`: how many layers each stage has; None: equal
    numbers. `broadcast`: first give all ranks rank 0's weights and buffers. A step is

        pipe = pipeline(layers, axis, loss=F.cross_entropy, micro_batches=4)
        optimizer = AdamW(pipe.module.parameters())        # once: this rank's own layers
        loss = pipe(x, y); optimizer.step(); optimizer.zero_grad()

    On an axis of one rank: the same layers, one micro-batch after the other. Raises ValueError for
    what cannot be shared out so.
    """
    layers, p = list(stages), axis.size
    if schedule not in ("gpipe", "1f1b", "interleaved"):
        raise ValueError(
            t(
                f"a pipeline of any model runs gpipe, 1f1b or interleaved, not {schedule!r}.",
                f"任意模型的流水线支持 gpipe、1f1b 和 interleaved，不支持 {schedule!r}。",
            )
        )
    if p == 1:
        schedule, virtual_stages, sizes = "1f1b", 1, [len(layers)]
    drawn_up = make_schedule(schedule, p, micro_batches, virtual_stages)
    shares = _shares(len(layers), p * virtual_stages, sizes)
    if broadcast:
        same_start(nn.ModuleList(layers), axis)
    return Pipelined(layers, axis, shares, drawn_up, loss, micro_batches)


def _shares(layers: int, stages: int, sizes: Sequence[int] | None) -> tuple[range, ...]:
    """The numbers of each stage's layers."""
    if sizes is None and layers < stages:
        raise ValueError(
            t(
                f"{stages} stages need at least {stages} layers, and the list has {layers}: use"
                " fewer ranks or virtual stages.",
                f"{stages} 个流水线阶段至少需要 {stages} 层，列表里只有 {layers} 层："
                "请减少 rank 或虚拟阶段。",
            )
        )
    if sizes is None:
        return stage_layers(layers, stages)
    if len(sizes) != stages or sum(sizes) != layers or min(sizes) < 1:
        raise ValueError(
            t(
                f"sizes {list(sizes)}: {stages} stages need {stages} numbers from 1 up that add up"
                f" to {layers} layers.",
                f"sizes {list(sizes)}：{stages} 个流水线阶段需要 {stages} 个不小于 1 的数，"
                f"总和为 {layers} 层。",
            )
        )
    return tuple(range(end - n, end) for n, end in zip(sizes, accumulate(sizes), strict=True))


class Pipelined:
    """This rank's part of a pipeline; see `pipeline`. `module`: its layers, under their numbers in
    the whole list, as an nn.Sequential names them."""

    def __init__(
        self,
        layers: list[nn.Module],
        axis: Axis,
        shares: tuple[range, ...],
        schedule: PipelineSchedule,
        loss: Loss,
        micro_batches: int,
    ) -> None:
        self.axis, self.micro_batches, self.count = axis, micro_batches, len(shares)
        here = stages_of_rank(axis.rank, axis.size, len(shares) // axis.size)
        self.module = nn.ModuleDict({str(i): layers[i] for s in here for i in shares[s]})
        self.shared = _shared_over_ranks(layers, shares, axis)
        self.boundary = FoundBoundary(axis, next(layers[0].parameters(), torch.empty(0)).device)
        parts = {s: [self._part(s, [layers[i] for i in shares[s]], loss)] for s in here}
        self.executor = Pipeline(parts, schedule, axis, axis.ledger, boundary=self.boundary)

    def __call__(
        self, x: Tensor | None, targets: Tensor | None, sync: GradientSync | None = None
    ) -> float:
        """Forward and backward passes of a batch, which is cut into equal micro-batches along dim
        0; returns the mean loss, on every rank.

        Gradients are added to what is in `.grad`. Only the first rank of the axis reads `x`, only
        the last `targets`. `sync`: what `data_parallel` or `shard` made of `module`; its gradients
        leave during the last micro-batch and it is finished here. Raises ValueError for rows that
        cannot be cut equally, and for a weight shared over ranks under ZeRO.
        """
        sync = GradientSync(self.module, self.axis) if sync is None else sync
        if sync.sharded and self.shared:
            raise ValueError(
                t(
                    "a weight that two pipeline ranks share cannot be cut by ZeRO: use"
                    " data_parallel.",
                    "两个流水线 rank 共享的权重不能再用 ZeRO 切分：请用 data_parallel。",
                )
            )
        pairs = zip(self._micro(x), self._micro(targets), strict=True)
        batch = StepBatch(0, tuple(MicroBatch(*pair) for pair in pairs), 0)
        earlier = {p: p.grad for p, *_ in self.shared if p is not None}
        for parameter in earlier:
            parameter.grad = None
        mean = self.executor.run(sync, batch, 1 / self.micro_batches) / self.micro_batches
        self.boundary.settle()
        sync.finish()
        self._sum_shared()
        for parameter, gradient in earlier.items():
            if gradient is not None:
                parameter.grad += gradient
        total = torch.tensor(mean, dtype=torch.float64, device=self.boundary.device)
        last = (self.count - 1) % self.axis.size
        self.axis.broadcast(total, last, purpose="control", label="loss").wait()
        return total.item()

    def _part(self, stage: int, layers: list[nn.Module], loss: Loss) -> Part:
        last = stage == self.count - 1

        def run(x: Tensor | None, micro: MicroBatch) -> Tensor:
            x = micro.tokens if x is None else x
            for layer in layers:
                x = layer(x)
            return loss(x, micro.targets) if last else one_tensor(x, stage)

        return Part(f"stage {stage}", run)

    def _micro(self, x: Tensor | None) -> tuple[Tensor | None, ...]:
        m = self.micro_batches
        if x is None:
            return (None,) * m
        rows = x.shape[0]
        if rows % m:
            fits = [n for n in range(1, rows + 1) if rows % n == 0]
            below, above = [n for n in fits if n < m][-1:], [n for n in fits if n > m][:1]
            nearest = [str(n) for n in below + above]
            raise ValueError(
                t(
                    f"{rows} rows cannot be cut into {m} equal micro-batches; nearest that works:"
                    f" {' or '.join(nearest)} micro-batches.",
                    f"{rows} 行无法等分成 {m} 个微批次；最接近的可用值：{' 或 '.join(nearest)}。",
                )
            )
        return x.chunk(m)

    def _sum_shared(self) -> None:
        """Add up the gradients of what several ranks hold, as of a tied embedding; those that do
        not hold it add zeros."""
        for parameter, shape, dtype in self.shared:
            total = torch.zeros(shape, dtype=dtype, device=self.boundary.device)
            if parameter is not None and parameter.grad is not None:
                total = parameter.grad.contiguous()
            self.axis.all_reduce(total, purpose="gradient", label="shared weight").wait()
            if parameter is not None:
                parameter.grad = total


class _Shared(NamedTuple):
    """A weight that layers of several ranks hold; None where this rank is none of them."""

    parameter: nn.Parameter | None
    shape: torch.Size
    dtype: torch.dtype


def _shared_over_ranks(
    layers: list[nn.Module], shares: tuple[range, ...], axis: Axis
) -> list[_Shared]:
    """In the order of the layers; frozen ones need nothing."""
    holders: dict[nn.Parameter, set[int]] = {}
    for stage, numbers in enumerate(shares):
        for parameter in nn.ModuleList(layers[i] for i in numbers).parameters():
            if parameter.requires_grad:
                holders.setdefault(parameter, set()).add(stage % axis.size)
    return [
        _Shared(parameter if axis.rank in held else None, parameter.shape, parameter.dtype)
        for parameter, held in holders.items()
        if len(held) > 1
    ]
