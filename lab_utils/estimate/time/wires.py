"""What one rank sends along dp and pp in a step, how much of it travels under computing, and what
its update reads and writes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf

from ...config import Cluster, ModelConfig, TrainConfig
from ...config.flag import AUTOCAST_BYTES
from ...layout.parameters import parameter_count, parameter_shapes
from ...layout.stages import stage_layers
from ...layout.zero_events import gathers_after_update, reductions
from ..update import FP32, update_flops
from .frameworks import Framework
from .links import axis_link, collective_seconds
from .pass_time import PassTime
from .roofline import memory_rate

# AdamW reads weight, gradient and both moments and writes all but the gradient: 7 fp32 numbers. SGD
# with momentum: 5.
OPTIMIZER_STEP_BYTES = {
    "adamw": 28,
    "adam": 28,
    "sgd": 20,
    "lion": 20,
    "muon": 20,
    "adafactor": 16,
    "adam8bit": 16,
}


class Wires:
    """What one rank sends along dp and pp, and how long that takes."""

    def __init__(
        self, config: TrainConfig, cluster: Cluster, framework: Framework, free: frozenset[str]
    ) -> None:
        self.config, self.cluster, self.framework, self.free = config, cluster, framework, free
        p = config.parallel
        self.held = 2 if config.precision == "bf16-pure" else 4
        self.gradient = framework.gradient_bytes or self.held
        self.link = axis_link(cluster, p, "data")
        self.numel = parameters_of_rank(config)
        self.dp_free = "dp" in free or p.replicas == 1

    @property
    def message_seconds(self) -> float:
        """One boundary tensor from one stage to the next."""
        p, model = self.config.parallel, self.config.model
        if p.pp == 1 or "pp" in self.free:
            return 0.0
        share = p.tp if p.sequence_parallel or self.framework.split_messages else 1
        payload = self.config.micro_batch * self.config.rank_seq * model.hidden * self.held
        seconds = collective_seconds("send", payload / share, 2, axis_link(self.cluster, p, "pp"))
        if self.framework.split_messages and not p.sequence_parallel:
            seconds += collective_seconds(
                "all_gather", payload, p.tp, axis_link(self.cluster, p, "tp")
            )
        return seconds

    def _on_dp(self, op: str, payload: float, calls: int) -> float:
        """`calls` collectives that together carry `payload`."""
        if self.dp_free or not payload:
            return 0.0
        ranks = self.config.parallel.replicas
        return calls * collective_seconds(op, payload / calls, ranks, self.link)

    def gradients(self, backward: float, m: int) -> tuple[float, float]:
        """(exposed, hidden) seconds of the gradients' sums; `backward` is of one micro-batch."""
        p = self.config.parallel
        calls = (
            max(1, round(self.numel * self.gradient / p.bucket_bytes))
            if p.zero == 0
            else max(1, self.config.model.layers // p.pp)
        )
        if p.zero == 0 and p.gradient_sync == "naive":
            calls = max(1, _tensors(self.config.model) // p.pp)
        once = self._on_dp(
            "all_reduce" if p.zero == 0 else "reduce_scatter", self.numel * self.gradient, calls
        )
        times = reductions(p.zero, m)
        if (
            not (self.framework.overlap_gradients and self.cluster.overlaps)
            or p.zero == 0
            and p.gradient_sync == "naive"
        ):
            return times * once, 0.0
        exposed = max(once / calls, times * max(0.0, once - backward))
        return exposed, times * once - exposed

    def zero3(self, rank: PassTime, m: int) -> tuple[float, float]:
        """ZeRO-3: (waiting, hidden) seconds of gathers and sums, as zero_events plays out for equal
        parts. A part's weights travel while the part before computes, and so does the sum of the
        part before that; nothing computes under the first gather forward, the first backward (the
        last part's, once more) and the last sum, which the next micro-batch's gather waits for."""
        low = AUTOCAST_BYTES.get(self.config.precision, self.held)
        calls = max(1, self.config.model.layers // self.config.parallel.pp)
        gather = self._on_dp("all_gather", self.numel * low, calls)
        whole = m * (2 * gather + self._on_dp("reduce_scatter", self.numel * self.gradient, calls))
        if not self.cluster.overlaps:
            return whole, 0.0
        first, both, others = gather / calls, whole / m - gather, 1 - 1 / calls
        forward = rank.forward + rank.tp_forward
        backward = rank.backward + rank.weight + rank.tp_backward
        waiting = m * (
            first
            + others * max(0.0, gather - forward)
            + both / calls
            + others * max(0.0, both - backward)
        )
        return waiting, whole - waiting

    def optimizer(self) -> tuple[float, float]:
        """(seconds of the update, seconds in which updated weights are gathered and nothing else
        happens)."""
        p, cluster = self.config.parallel, self.cluster
        owned = self.numel / p.replicas if p.zero else self.numel
        nbytes = OPTIMIZER_STEP_BYTES[self.config.optimizer] + (
            2 * (self.held + 4) if self.config.precision == "bf16-pure" or p.offload else 0
        )
        if p.offload:
            rate = cluster.host_memory_bytes_per_second or inf
            update = owned * (
                nbytes / rate + 2 * self.held / (cluster.host_link_bytes_per_second or inf)
            )
        else:
            update = owned * nbytes / memory_rate(cluster, "optimizer")
        if self.config.optimizer == "muon":
            update += self._whole_matrices(owned)
        if cluster.cores is not None:  # eager code on a CPU touches every tensor by itself
            update += cluster.launch_seconds * _tensors(self.config.model) / p.pp
        gather_updated = 0.0
        if gathers_after_update(p.zero) and not self.framework.overlap_parameters:
            gather_updated = self._on_dp(
                "all_gather", self.numel * self.held, max(1, self.config.model.layers // p.pp)
            )
        return update, gather_updated

    def _whole_matrices(self, owned: float) -> float:
        """Muon's products, shared out evenly, and its exchanges: what a rank holds to the owners
        and what it owns back, along the data axis under ZeRO and along tp."""
        p, cluster = self.config.parallel, self.cluster
        seconds = update_flops(self.config) / p.world_size / (cluster.flops_per_second or inf)
        if p.zero:
            seconds += 2 * self._on_dp("all_to_all", FP32 * owned, 1)
        if p.tp > 1 and "tp" not in self.free:
            link = axis_link(cluster, p, "tp")
            seconds += 2 * collective_seconds("all_to_all", FP32 * owned, p.tp, link)
        return seconds


def parameters_of_rank(config: TrainConfig) -> float:
    """Parameters of the rank with most of them: its blocks, with the embeddings or the head; tp
    cuts all but the positions."""
    p, model = config.parallel, config.model
    block, words, positions, head = sizes_of_parts(model)
    layers = stage_layers(model.layers, p.pp * p.virtual_stages)
    first, last = (sum(map(len, layers[r :: p.pp])) * block / p.tp for r in (0, p.pp - 1))
    if p.pp == 1:
        return first + (words + (0 if model.tied else head)) / p.tp + positions
    return max(first + words / p.tp + positions, last + head / p.tp)


@lru_cache(maxsize=64)
def sizes_of_parts(model: ModelConfig) -> tuple[int, int, int, int]:
    """Parameters of one block, of the word and the position embeddings, and of final norm and head
    (a tied one counts to both)."""
    one, two = (parameter_count(replace(model, layers=layers)) for layers in (1, 2))
    words, positions = (
        model.vocab * model.hidden,
        model.seq * model.hidden if model.positions == "learned" else 0,
    )
    return (
        two - one,
        words,
        positions,
        2 * one - two - words - positions + (words if model.tied else 0),
    )


@lru_cache(maxsize=64)
def _tensors(model: ModelConfig) -> int:
    return len(parameter_shapes(model))
