"""All layouts of a model on a cluster that may be worth running, and which of them may fit.

Products of tp, cp, pp, virtual stages, ZeRO, micro-batch and recomputation; what cannot be better
is left out: tensor parallelism stays inside a node and comes with sequence parallelism (as fast,
less memory), and GPipe never beats 1F1B. Sequences below 16,384 tokens are cut over cp only where
that is pinned: no published run does it, and the ring's time was held against none so short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...config import Cluster, ConfigError, ModelConfig, ParallelConfig, TrainConfig, divisors
from ...layout.refusals import refuse_layout
from ..time.frameworks import Framework
from .needs import least_bytes, needed_bytes

RECOMPUTE = ("none", "selective", "full")
MICRO_BATCHES = (1, 2, 4, 8, 16)
VIRTUAL_STAGES = (2, 3, 4, 5, 6, 7, 8, 12)
LEAST_SHARE = 8192  # tokens: 131,072 over cp 16 in Grattafiori et al. 2024, table 4


@dataclass(frozen=True)
class Search:
    """A question: what may vary, and what is pinned (flags of TrainConfig)."""

    model: ModelConfig
    cluster: Cluster
    gpus: int
    global_batch: int
    precision: str
    optimizer: str
    framework: Framework
    pins: Mapping[str, Any]

    def choices(self, name: str, usual: Sequence[Any]) -> Sequence[Any]:
        return (self.pins[name],) if name in self.pins else usual

    def grids(self) -> Iterator[dict[str, int]]:
        """Degrees of tp, cp, pp and dp that use every GPU, give every rank whole heads and share
        the batch out equally."""
        node = self.cluster.ranks_per_node
        for tp in self.choices(
            "tp",
            [
                d
                for d in divisors(self.gpus)
                if d <= node and self.model.kv_heads % d == 0 and self.model.ffn % d == 0
            ],
        ):
            for cp in self.choices("cp", self._context_degrees(self.gpus // tp)):
                for pp in self.choices(
                    "pp", [d for d in divisors(self.gpus // (tp * cp)) if d <= self.model.layers]
                ):
                    dp = self.gpus // (tp * cp * pp)
                    if (
                        tp * cp * pp * dp == self.gpus
                        and self.global_batch % dp == 0
                        and self.pins.get("dp", dp) == dp
                    ):
                        yield dict(tp=tp, cp=cp, pp=pp, dp=dp)

    def _context_degrees(self, ranks: int) -> list[int]:
        """Degrees of cp that are tried where none is pinned."""
        most = max(1, self.model.seq // LEAST_SHARE)
        return [d for d in divisors(ranks) if d <= most and d.bit_count() == 1]

    def _context_kinds(self, cp: int) -> Sequence[str]:
        return self.choices("cp_kind", ("ring", "all-to-all")) if cp > 1 else ("ring",)

    def configs(self) -> Iterator[list[TrainConfig]]:
        """Groups that differ in recomputation only, the cheapest first."""
        for grid in self.grids():
            dp, pp, cp = grid["dp"], grid["pp"], grid["cp"]
            share = self.global_batch // dp
            for micro in self.choices("micro_batch", [b for b in MICRO_BATCHES if share % b == 0]):
                if share % micro:
                    continue
                for schedule, v in self._schedules(pp, share // micro):
                    for zero, kind in product(
                        self.choices("zero", (0, 1, 2, 3) if dp * cp > 1 else (0,)),
                        self._context_kinds(cp),
                    ):
                        axes = grid | dict(
                            cp_kind=kind, zero=zero, schedule=schedule, virtual_stages=v
                        )
                        group = [
                            self._config(axes, micro, policy)
                            for policy in self.choices("recompute", RECOMPUTE)
                        ]
                        yield [config for config in group if config is not None]

    def _schedules(self, pp: int, m: int) -> Iterator[tuple[str, int]]:
        usual = ["1f1b", "zero-bubble", "interleaved"] if pp > 1 else ["1f1b"]
        for schedule in self.choices("schedule", usual):
            if schedule != "interleaved":
                if self.pins.get("virtual_stages", 1) == 1:
                    yield schedule, 1
            elif m % pp == 0:
                most = self.model.layers // pp
                yield from (
                    (schedule, v)
                    for v in self.choices(
                        "virtual_stages", [v for v in VIRTUAL_STAGES if v <= most]
                    )
                    if 1 < v <= most
                )

    def _config(self, axes: Mapping[str, Any], micro: int, policy: str) -> TrainConfig | None:
        shares = axes["tp"] * axes["cp"]
        scattered = self.pins.get(
            "sequence_parallel", axes["tp"] > 1 and self.model.seq % shares == 0
        )
        parallel = ParallelConfig(**axes, sequence_parallel=scattered, bucket_mib=64.0)
        config = TrainConfig(
            model=self.model,
            parallel=parallel,
            global_batch=self.global_batch,
            micro_batch=micro,
            precision=self.precision,
            optimizer=self.optimizer,
            recompute=policy,
        )
        try:
            refuse_layout(config)
        except ConfigError:
            return None
        return config

    def candidates(self, room: float) -> Iterator[tuple[int, TrainConfig]]:
        """(group, configuration) of all that a quick look does not rule out."""
        for group, configs in enumerate(self.configs()):
            yield from (
                (group, config)
                for config in configs
                if least_bytes(config, self.framework, self.cluster.kernels) <= room
            )

    def smallest(self, room: float = float("inf")) -> tuple[TrainConfig, int] | None:
        """The layout that needs least memory, with its bytes; with a `room`, the first found that
        fits into it."""
        least = [
            (least_bytes(config, self.framework, self.cluster.kernels), config)
            for configs in self.configs()
            for config in configs
        ]
        best: tuple[TrainConfig, int] | None = None
        for bound, config in sorted(least, key=lambda one: one[0]):
            if bound > (room if best is None else min(room, best[1])):
                break
            held = needed_bytes(config, self.framework, self.cluster.kernels)
            if best is None or held < best[1]:
                best = config, held
            if held <= room < float("inf"):
                return config, held
        return best if room == float("inf") else None
