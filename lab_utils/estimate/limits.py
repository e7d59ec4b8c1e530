"""How large a question may be that is answered within seconds."""

from __future__ import annotations

from ..config import ConfigError, TrainConfig
from ..i18n import t

# a report lists every rank; the largest published cluster of one run is of this order
MOST_RANKS = 131_072
# GPipe's and interleaved schedules are played through; 1F1B and zero-bubble have closed forms
_MOST_PASSES = 2**19


def refuse_beyond(config: TrainConfig) -> None:
    """Raise ConfigError for a run that is larger than what an estimate looks at."""
    p, m = config.parallel, config.micro_batches
    refuse_more_ranks(p.world_size)
    stages = p.pp * p.virtual_stages
    if p.schedule in ("gpipe", "interleaved") and stages * m > _MOST_PASSES:
        raise ConfigError(
            t(
                f"{stages:,} stages × {m:,} micro-batches of --schedule {p.schedule} are more than"
                f" this looks at: use a larger --micro-batch, so that the product is at most"
                f" {_MOST_PASSES:,}, or --schedule 1f1b.",
                f"--schedule {p.schedule} 的 {stages:,} 个阶段 × {m:,} 个微批次超出了可估算的范围："
                f"请增大 --micro-batch，使乘积不超过 {_MOST_PASSES:,}，或改用 --schedule 1f1b。",
            )
        )


def refuse_more_ranks(ranks: int) -> None:
    """Raise ConfigError for more ranks than a report lists, or a plan looks at."""
    if ranks > MOST_RANKS:
        raise ConfigError(
            t(
                f"{ranks:,} ranks are more than this looks at: give at most {MOST_RANKS:,}.",
                f"{ranks:,} 个进程超出了可估算的范围：请给出不超过 {MOST_RANKS:,} 个。",
            )
        )
