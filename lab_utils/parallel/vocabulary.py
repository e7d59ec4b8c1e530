"""The two ends of the model under tensor parallelism: embedding and cross-entropy with the
vocabulary shared out.

Logits are the largest activation of a small model, and gathering them would cost more than all
layers together. The loss needs three numbers a token from every rank: its largest logit, its sum of
exponentials, and the target's logit from whoever holds that word (Shoeybi et al. 2019,
"Megatron-LM", section 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..model import IGNORED
from .comm import Axis

if TYPE_CHECKING:
    from .tensor import Region


class VocabParallelEmbedding(nn.Embedding):
    """Each rank looks up the words from `start` on that it holds, gives zeros for the others, and
    the sum is right."""

    region: Region
    start: int

    def forward(self, tokens: Tensor) -> Tensor:
        rows = tokens - self.start
        elsewhere = (rows < 0) | (rows >= self.weight.shape[0])
        found = super().forward(rows.masked_fill(elsewhere, 0))
        return Leave.apply(found.masked_fill(elsewhere[..., None], 0.0), self.region)


class Leave(torch.autograd.Function):
    """Sum over ranks on the way out; the gradient goes back to all of them as it is."""

    @staticmethod
    def forward(ctx: Any, summand: Tensor, region: Region) -> Tensor:
        ctx.region = region
        y, pending = region.reduce(summand.clone())
        pending.wait()
        return region.own(y)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        whole, pending = ctx.region.gather(gradient.contiguous())
        pending.wait()
        return whole, None


class VocabParallelLoss:
    """Stands in for `model.loss_sum_and_count`, with logits (b, s, V/N) that begin at word
    `start`."""

    def __init__(self, axis: Axis, start: int) -> None:
        self.axis, self.start = axis, start

    def __call__(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        loss = _CrossEntropy.apply(
            logits.flatten(0, -2).float(), targets.flatten(), self.axis, self.start
        )
        return loss, (targets != IGNORED).sum()


class _CrossEntropy(torch.autograd.Function):
    """Loss sum of (tokens, V/N) logits. Saved: the softmax over the whole vocabulary, this rank's
    part of it."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, axis: Axis, start: int) -> Tensor:
        largest = logits.amax(-1)  # of this rank's words, then of all: exp must not overflow
        axis.all_reduce(largest, purpose="activation", reduction="max").wait()
        shifted = logits - largest[:, None]
        rows = targets - start  # a target that is elsewhere adds 0 here, and its logit there
        here = (rows >= 0) & (rows < logits.shape[-1])
        rows = rows.masked_fill(~here, 0)
        target_logit = shifted.gather(-1, rows[:, None])[:, 0].masked_fill(~here, 0.0)
        exponentials = shifted.exp_()
        sums = torch.stack((exponentials.sum(-1), target_logit))
        axis.all_reduce(sums, purpose="activation").wait()
        counted = targets != IGNORED
        ctx.save_for_backward(exponentials.div_(sums[0, :, None]), rows, here, counted)
        return (sums[0].log() - sums[1]).masked_fill(~counted, 0.0).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        softmax, rows, here, counted = ctx.saved_tensors
        of_logits = softmax.clone()
        of_logits.scatter_add_(-1, rows[:, None], -here[:, None].to(softmax.dtype))
        return of_logits.mul_(counted[:, None]).mul_(gradient), None, None, None
