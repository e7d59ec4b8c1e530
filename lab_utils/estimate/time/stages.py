"""Seconds of each pipeline stage for one micro-batch, from the ledger: compute, and the
tensor-parallel messages between.

All blocks of a model are alike, so the ledger is asked for a model of one block; a stage is a
number of those, the first one with the embedding and the last one with the head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ...config import Cluster, ModelConfig, TrainConfig
from ...layout.stages import stage_layers
from ..ops import Op, block_ledger
from ..program.share import Share
from .frameworks import OURS, Framework
from .links import Link, axis_link, collective_seconds
from .pass_time import PassTime
from .roofline import op_time

# products that read the same input, side by side
_ENTRANCES = (("query", "key", "value"), ("gate", "up"), ("head",))


class StageClock:
    """The stages' seconds on `cluster`, as `framework` runs them; remembers parts that layouts have
    in common.

    `free`: axes, of "tp" and "cp", whose messages take no time.
    """

    def __init__(
        self, cluster: Cluster, framework: Framework = OURS, free: frozenset[str] = frozenset()
    ) -> None:
        self.cluster, self.framework, self.free = cluster, framework, free
        self._parts: dict[tuple, dict[str, PassTime]] = {}

    def stages(self, config: TrainConfig) -> tuple[PassTime, ...]:
        """One micro-batch's seconds on every virtual stage, in forward order."""
        p, part = config.parallel, self._parts_of(config)
        again, layers = (
            set(config.recomputed_layers()),
            stage_layers(config.model.layers, p.pp * p.virtual_stages),
        )
        blocks: dict[tuple[int, int], PassTime] = {}
        stages = []
        for own in layers:
            recomputed = (
                len(own)
                if config.recompute == "full"
                else len(again.intersection(own))
                if again
                else 0
            )
            key = len(own) - recomputed, recomputed
            if key not in blocks:
                blocks[key] = part["block"] * key[0] + part["block again"] * key[1]
            stages.append(blocks[key])
        stages[0] += part["embed"]
        stages[-1] += part["head_loss"]
        return tuple(stages)

    def _parts_of(self, config: TrainConfig) -> dict[str, PassTime]:
        policy = config.recompute if config.recompute in ("none", "selective", "full") else "some"
        key = (
            config.model,
            config.micro_batch,
            config.precision,
            Share.of(config, cp_rank=1),
            policy,
        )
        if key not in self._parts:
            self._parts[key] = self._timed(config, policy)
        return self._parts[key]

    def _timed(self, config: TrainConfig, policy: str) -> dict[str, PassTime]:
        """PassTime of "embed", one "block" as the policy leaves it, one "block again" recomputed in
        full, and "head_loss"."""
        first = self._one(config, policy if policy in ("none", "selective") else "none")
        again = self._one(config, "full")["block"] if policy in ("full", "some") else PassTime()
        return first | {"block again": again}

    def _one(self, config: TrainConfig, policy: str) -> dict[str, PassTime]:
        p = config.parallel
        links = {axis: axis_link(self.cluster, p, axis) for axis in ("tp", "cp")}
        sums: dict[str, PassTime] = {}
        ledger = block_ledger(
            config.model,
            config.micro_batch,
            config.precision,
            Share.of(config, cp_rank=1),
            policy,
            self.cluster.kernels,
        )
        for part, ops in ledger.items():
            name = "block" if part == "blocks.0" else part
            times = [self._pass_time(op, config, links) for op in ops]
            hidden = self._under_products(list(zip(ops, times, strict=True)), config, links["tp"])
            waiting = PassTime(tp_backward=-hidden, tp_hidden=hidden)
            sums[name] = sum(times, waiting)
        return sums

    def _under_products(
        self, ops: list[tuple[Op, PassTime]], config: TrainConfig, link: Link
    ) -> float:
        """Backward, where a region was entered: the saved input is gathered again under the product
        that gives the input's gradient, and that is summed under the products of the weights'."""
        if (
            not self.framework.overlap_products
            or self.framework.overlap_tensor
            or "tp" in self.free
        ):
            return 0.0
        hidden = 0.0
        for entrance in _ENTRANCES:
            group = [(op, time) for op, time in ops if op.name.rsplit(".", 1)[-1] in entrance]
            cover = sum(time.weight for _, time in group)
            for op, _ in group:
                hidden += sum(
                    min(cover, collective_seconds(m.op, m.bytes, config.parallel.tp, link))
                    for m in op.traffic
                    if m.phase == "backward" and m.axis == "tp"
                )
        return hidden

    def _pass_time(self, op: Op, config: TrainConfig, links: Mapping[str, Link]) -> PassTime:
        if (
            op.kind == "attention"
            and self.framework.score_passes
            and config.model.attention == "explicit"
        ):
            op = self._fused(op, config)
        time = op_time(op, config, self.cluster)
        phases = {"forward": time.forward, "backward": time.backward, "recompute": time.recomputed}
        waits, hidden, along_cp = dict.fromkeys(phases, 0.0), 0.0, 0.0
        for phase, computing in phases.items():
            tp, cp = (self._wire_seconds(op, phase, axis, config, links) for axis in ("tp", "cp"))
            shown = tp / config.parallel.tp if self.framework.overlap_tensor else tp
            # keys travel while the last that came are attended to; heads are waited for
            under = computing * (1 - 1 / config.parallel.cp) if self._travels(config) else 0.0
            late = max(0.0, cp - under)
            waits[phase], hidden = shown + late, hidden + tp - shown + cp - late
            along_cp += late
        return PassTime(
            time.forward,
            time.backward + time.recomputed,
            time.weight,
            waits["forward"],
            waits["backward"] + waits["recompute"],
            hidden,
            along_cp,
        )

    def _travels(self, config: TrainConfig) -> bool:
        return config.parallel.cp_kind == "ring" and self.cluster.overlaps

    def _wire_seconds(
        self, op: Op, phase: str, axis: str, config: TrainConfig, links: Mapping[str, Link]
    ) -> float:
        if axis in self.free:
            return 0.0
        ranks = getattr(config.parallel, axis)
        return sum(
            collective_seconds(message.op, message.bytes, ranks, links[axis])
            for message in op.traffic
            if message.axis == axis and message.phase == phase
        )

    def _fused(self, op: Op, config: TrainConfig) -> Op:
        """Attention whose scores pass through memory as often as the framework's kernels let them,
        with query, key, value and output."""
        model, width = config.model, 4 if config.precision == "fp32" else 2
        scores = width * config.micro_batch * model.heads * model.seq**2 // config.parallel.tp
        heads = (
            width
            * config.micro_batch
            * model.seq
            * model.head_dim
            * 2
            * (model.heads + model.kv_heads)
            // config.parallel.tp
        )
        forward, backward = (
            int(passes * scores) + heads * times
            for passes, times in zip(self.framework.score_passes, (1, 2), strict=True)
        )
        return replace(
            op,
            forward_hbm_bytes=forward,
            backward_hbm_bytes=backward,
            recomputed_hbm_bytes=forward if op.recomputed_hbm_bytes else 0,
        )


def model_flops(config: TrainConfig) -> int:
    """What `ops.step_flops` calls "model", of the whole job and one step, from the ledger of one
    block."""
    block, ends = _flops_of_parts(config.model, config.micro_batch, config.precision)
    return (config.model.layers * block + ends) * config.micro_batches * config.parallel.dp


@lru_cache(maxsize=512)
def _flops_of_parts(model: ModelConfig, micro_batch: int, precision: str) -> tuple[int, int]:
    found = {
        part: sum(op.forward_flops + op.backward_flops for op in ops)
        for part, ops in block_ledger(model, micro_batch, precision).items()
    }
    return found["blocks.0"], found["embed"] + found["head_loss"]
