"""What is held against what, on which work, and the ratio that comes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, NamedTuple

from ..config import TrainConfig

STRATEGIES: dict[str, dict[str, Any]] = {  # in flags; "axis" is the one that gets all ranks
    "dp": dict(axis="dp"),
    "zero1": dict(axis="dp", zero=1),
    "zero2": dict(axis="dp", zero=2),
    "zero3": dict(axis="dp", zero=3),
    "tp": dict(axis="tp"),
    "tp+sp": dict(axis="tp", sequence_parallel=True),
    "pp": dict(axis="pp"),
    "3d": dict(dp=2, tp=2, pp=2),
    "scaling": dict(axis="dp"),
}
# contender: its engine
CONTENDERS = {
    "ours": "ours",
    "ours alone": "ours",
    "torch alone": "torch",
    "bucketed": "ours",
    "naive": "ours",
    "torch": "torch",
    "deepspeed": "deepspeed",
}
PIPELINE_MICRO_BATCHES = 4


class Row(NamedTuple):
    """What is held against what. An engine against itself is noise; against itself "alone", on one
    rank with that rank's share of the batch, it is the efficiency of scaling: 1 is linear."""

    strategy: str
    first: str
    second: str


@dataclass(frozen=True)
class Ratio:
    """Throughput of `first` ÷ throughput of `second`, one number per pair of blocks; seconds are of
    the median step."""

    strategy: str
    first: str
    second: str
    ranks: int
    ratios: tuple[float, ...]
    first_seconds: float
    second_seconds: float

    @property
    def median(self) -> float:
        """The middle ratio; above 1, `first` is faster."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and third quartile of the ratios."""
        low, _, high = quantiles(self.ratios, n=4)
        return low, high


def rows_for(strategies: Collection[str], deepspeed: bool = True) -> Iterator[Row]:
    """The rows of these strategies: first each engine against itself, once, then ours against the
    others, at last what two ranks make of one's work."""
    chosen = [s for s in strategies if s != "scaling"]
    others = {
        s: ["torch", *(["deepspeed"] if deepspeed and STRATEGIES[s].get("axis") == "dp" else [])]
        for s in chosen
    }
    for engine in ("ours", "torch", "deepspeed"):
        yield from [Row(s, engine, engine) for s in chosen if engine in ("ours", *others[s])][:1]
    for strategy in chosen:
        if strategy == "dp":
            yield Row("dp", "bucketed", "naive")
        yield from (Row(strategy, "ours", other) for other in others[strategy])
    if "scaling" in strategies:
        yield from (Row("scaling", e, f"{e} alone") for e in ("ours", "torch"))


def config_for(strategy: str, base: TrainConfig, ranks: int, batch_per_rank: int) -> TrainConfig:
    """The work of a strategy's rows: `base`'s model, `batch_per_rank` sequences for each rank and
    step."""
    flags = dict(STRATEGIES[strategy])
    axis = flags.pop("axis", None)
    if axis:
        flags[axis] = ranks
    dp, pp = flags.get("dp", 1), flags.get("pp", 1)
    # eight ranks on few cores take turns: less work
    batch = batch_per_rank * (ranks if axis else 4)
    micro_batches = PIPELINE_MICRO_BATCHES if pp > 1 else 1
    return base.replace(
        **flags, global_batch=batch, micro_batch=max(1, batch // dp // micro_batches)
    )


def config_of(contender: str, config: TrainConfig) -> TrainConfig:
    """What a contender trains in a row of `config`: all of it, or alone one rank's share."""
    if contender.endswith(" alone"):
        share = config.global_batch // config.parallel.dp
        return config.replace(dp=1, global_batch=share, micro_batch=config.micro_batch)
    return config.replace(gradient_sync="naive") if contender == "naive" else config
