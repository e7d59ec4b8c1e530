"""The gradient noise scale (McCandlish et al. 2018, "An empirical model of large-batch training",
section 2.2 and appendix A.1).

A gradient of B sequences is the true one, G, plus noise of covariance Σ/B, so its squared norm is
|G|² + tr Σ / B on average. Two batch sizes give both; tr Σ / |G|² is the batch at which signal and
noise are equal. Data parallelism measures two sizes in every step: one rank's gradient and the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from ...config import TrainConfig
from ...data.loader import Loader, MicroBatch
from ...model import GPT
from ...parallel.mesh import Mesh
from .runs import Run


class Norms(NamedTuple):
    """Squared norms of gradients of the mean loss: of `few` sequences (the mean over several), and
    of `many`."""

    small: float
    big: float
    few: int
    many: int


class Noise(NamedTuple):
    """`signal` is |G|², `noise` tr Σ of one sequence."""

    signal: float
    noise: float

    @property
    def scale(self) -> float:
        """B_simple, in sequences; no number where the estimate of |G|² is not above 0."""
        return self.noise / self.signal if self.signal > 0 else float("nan")


def noise(norms: Sequence[Norms]) -> Noise:
    """Signal and noise from several measurements of the same two sizes. The two are averaged before
    they are divided: the mean of ratios would be biased."""
    few, many = norms[0].few, norms[0].many
    small, big = fmean(n.small for n in norms), fmean(n.big for n in norms)
    return Noise((many * big - few * small) / (many - few), (small - big) / (1 / few - 1 / many))


def norms_on_rank(config: TrainConfig, batches: int) -> list[Norms]:
    """On each of dp ranks: its own gradient beside the sum that it gets anyhow, for several batches
    at the first weights; the same list everywhere."""
    axis = Mesh(config.parallel)["dp"]
    loader = Loader(config, axis.rank)
    model, found = GPT(config.model, config.seed, config.init), []
    few = config.global_batch // axis.size
    for step in range(batches):
        own = gradient(model, loader.batch(step).micro_batches[0]) / axis.size
        small = (own * axis.size).square().sum() / axis.size
        axis.all_reduce(own, purpose="gradient", label="all").wait()
        axis.all_reduce(small, purpose="control", label="norm").wait()
        found.append(Norms(small.item(), own.square().sum().item(), few, config.global_batch))
    return found


def norms_of(run: Run, few: int, times: int) -> Norms:
    """The same on one rank, where the run stands: `times` batches of `few` held-out sequences, and
    all of them together."""
    every = run.unseen(few * times)
    parts = zip(every.tokens.split(few), every.targets.split(few), strict=True)
    gradients = [gradient(run.engine.model, MicroBatch(*part)) for part in parts]
    small = fmean(g.square().sum().item() for g in gradients)
    return Norms(small, torch.stack(gradients).mean(0).square().sum().item(), few, few * times)


def gradient(model: GPT, micro: MicroBatch) -> Tensor:
    """Of the mean loss of a micro-batch, flat."""
    parameters = list(model.parameters())
    loss, count = model(micro.tokens, micro.targets)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss / count, parameters)])
