"""The learning-rate range test: one short run whose rate grows until the loss explodes (Smith 2017,
"Cyclical Learning Rates for Training Neural Networks", section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

from ..config import TrainConfig
from ..config.flag import check

SMOOTHING = 0.05  # weight of a new loss in the running mean
WORSE = 4.0  # the run ends when the running mean is this many times its lowest


@dataclass(frozen=True)
class RateSearch:
    """What the test saw: `rates[i]` moved the weights after `losses[i]` (nats, the mean over the
    global batch) was measured; `smoothed` is their running mean without its bias."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]

    @property
    def steepest(self) -> float:
        """The rate at which the smoothed loss falls fastest, per factor of the rate."""
        falls = [
            (after - before) / log(self.rates[i + 1] / self.rates[i])
            for i, (before, after) in enumerate(zip(self.smoothed, self.smoothed[1:], strict=False))
        ]
        return self.rates[falls.index(min(falls))]

    @property
    def lowest(self) -> float:
        """The rate at which the smoothed loss is lowest: already too large to train with."""
        return self.rates[self.smoothed.index(min(self.smoothed))]

    @property
    def suggestion(self) -> float:
        """A tenth of `lowest`, the usual rule of thumb; no more than that."""
        return self.lowest / 10


def find_learning_rate(
    config: TrainConfig, low: float = 1e-6, high: float = 1.0, updates: int = 80
) -> RateSearch:
    """Train `config` from its first weights on its own layout, with the rate growing by one factor
    an update from `low` to `high`; ends early where the loss explodes.

    The rate grows with updates, not with micro-batches, so accumulation and layout change nothing;
    `config`'s own rate, schedule and steps are not used. Raises ConfigError for rates that do not
    ascend from above 0, and for fewer than 10 updates.
    """
    check(
        0 < low < high and isfinite(high),
        f"the rates must ascend from above 0, not from {low!r} to {high!r}.",
        f"学习率应从大于 0 的值开始递增，而不是从 {low!r} 到 {high!r}。",
    )
    check(
        isinstance(updates, int) and updates >= 10,
        f"a range test needs at least 10 updates, not {updates!r}.",
        f"学习率区间测试至少需要 10 次更新，而不是 {updates!r}。",
    )
    from ..launch import launch

    config = config.replace(steps=updates, lr_schedule="constant", warmup=0)
    rates = tuple(low * (high / low) ** (i / (updates - 1)) for i in range(updates))
    by_rank = launch(_on_rank, config.parallel.world_size, config, rates, threads=1)
    losses = by_rank[0]
    return RateSearch(rates[: len(losses)], tuple(losses), tuple(_smooth(losses)))


def _on_rank(config: TrainConfig, rates: tuple[float, ...]) -> list[float]:
    """The global mean losses until one explodes; the same list on every rank."""
    import torch

    from ..engines.ours import engine_here

    engine, loader = engine_here(config)
    engine.updates.rate = lambda update: rates[update]
    losses: list[float] = []
    for step in range(len(rates)):
        batch = loader.batch(step)
        total = torch.tensor(
            engine.forward_backward(batch), dtype=torch.float64, device=engine.mesh.device
        )
        for axis in (engine.mesh.data, engine.mesh["pp"], engine.mesh["tp"]):
            axis.all_reduce(total, purpose="control", label="loss").wait()
        losses.append(total.item() / (config.global_batch * config.model.seq))
        smoothed = _smooth(losses)
        if not isfinite(losses[-1]) or smoothed[-1] > WORSE * min(smoothed):
            break
        engine.update()
    return losses


def _smooth(losses: list[float]) -> list[float]:
    mean, found = 0.0, []
    for i, loss in enumerate(losses, 1):
        mean += SMOOTHING * (loss - mean)
        found.append(mean / (1 - (1 - SMOOTHING) ** i))
    return found
