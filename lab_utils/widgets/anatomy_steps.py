"""What a step holds besides model states, as the memory-anatomy tool needs it: saved activations, copies, temporary tensors.

Every number comes from the estimator's simulation of a step (estimate.memory.lifetimes) of three stages of one or two layers. A
stage saves so much for each layer, and at its ends, of every micro-batch in flight; what recomputation brings back is there
once. That the parts add up so is held by tests against the simulation of whole models.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ..estimate.memory.lifetimes import Step
from .anatomy_costs import config_of, stage_config

FEW_TOKENS = 8      # sequences so short that a step's temporary tensors are those of weights and gradients alone (learned positions are weights)


class Played(NamedTuple):
    """Bytes of one stage's step: each at its own most. `update`: temporary ones after the backward passes."""

    activations: int
    weight_copies: int
    temporary: int
    update: int


def saved(part: str, model: str, micro_batch: int, **flags: Any) -> int:
    """Bytes of saved activations: of a "layer" and of a stage's ends ("only", "first", "middle", "last") of each micro-batch in
    flight, those there "once", and of each row of a batch that all micro-batches share ("row only", "row first", "row last")."""
    return _parts("activations", model, micro_batch=micro_batch, **flags)[part]


def weight_copies(part: str, model: str, precision: str, zero: int, **flags: Any) -> int:
    """Bytes of autocast's copies of weights, by the same parts; ZeRO-3 gathers weights that need none."""
    if precision != "bf16":
        return 0
    sharded = {"zero": 3, "dp": 2} if zero == 3 else {}
    return _parts("weight_copies", model, micro_batch=1, precision=precision, **sharded, **flags)[part]


def temporary(kind: str, model: str, **flags: Any) -> int:
    """The most bytes of other tensors at once in the forward and backward passes of a stage."""
    return _play(model, kind, 1, **flags).temporary


def messages(model: str, **flags: Any) -> int:
    """What each micro-batch in flight adds to these: activations and gradients that come and go between stages."""
    return _play(model, "middle", 1, micro_batches=3, recompute="none", **flags).temporary - _play(model, "middle", 1, recompute="none", **flags).temporary


def in_transit(kind: str, model: str, precision: str, zero: int, dp: int, tp: int) -> int:
    """What summing and gathering adds to these: shards on their way. `kind` "layer": each layer's part of it."""
    plain = 0 if kind == "layer" else _weights_only(kind, model, precision, 0, 1, tp, 1).temporary
    return _weights_only(kind, model, precision, zero, dp, tp).temporary - plain


def updating(kind: str, model: str, precision: str, zero: int, dp: int, tp: int) -> int:
    """The most bytes of temporary tensors at once while the optimizer updates. `kind` "layer": each layer's part of it."""
    return _weights_only(kind, model, precision, zero, dp, tp).update


@cache
def _parts(term: str, model: str, **flags: Any) -> dict[str, int]:
    def most(kind: str, layers: int = 1, micro_batches: int = 1) -> int:
        return getattr(_play(model, kind, layers, micro_batches=micro_batches, **flags), term)

    layer = most("middle", 2) - most("middle")
    received = most("middle") - layer if flags["recompute"] == "none" else most("middle", 1, 2) - most("middle") - layer
    once = most("middle") - layer - received
    rows = dict.fromkeys(("only", "first", "last"), 0)
    if term == "activations" and flags["micro_batch"] == 1:      # its tokens and targets are views of the whole step's batch
        rows = {kind: most(kind, 1, 2) - most(kind) for kind in ("only", "last")} | {"first": _row(model, flags["tp"])}
    ends = {kind: most(kind) - layer - rows[kind] - (once if kind == "first" else 0) for kind in rows}
    return {"layer": layer, "middle": received, "once": once, **ends, **{f"row {kind}": row for kind, row in rows.items()}}


@cache
def _row(model: str, tp: int) -> int:
    """Bytes of the whole step's batch that the first stage saves for each of its rows, in flight or not."""
    held = [_play(model, "first", 1, micro_batch=1, micro_batches=m, tp=tp).activations for m in (3, 4)]
    return held[1] - held[0]


@cache
def batch(model: str, micro_batch: int) -> int:
    """Bytes of tokens and targets of one micro-batch, which are there for the whole step."""
    return _play(model, "middle", 1, micro_batch=micro_batch).update


@cache
def _weights_only(kind: str, model: str, precision: str, zero: int, dp: int, tp: int, micro_batches: int = 2) -> Played:
    flags = {"precision": precision, "zero": zero, "dp": dp, "tp": tp, "micro_batches": micro_batches,
             "seq": None if config_of(model).model.positions == "learned" else FEW_TOKENS}  # fmt: skip
    if kind != "layer":
        whole, layer = _play(model, kind, 1, **flags), _weights_only("layer", model, precision, zero, dp, tp, micro_batches)
        return Played(0, 0, whole.temporary - layer.temporary, whole.update - layer.update)
    one, two = (_play(model, "middle", layers, **flags) for layers in (1, 2))
    return Played(0, 0, two.temporary - one.temporary, two.update - one.update)


def _play(model: str, kind: str, layers: int, *, micro_batches: int = 1, micro_batch: int = 1, tp: int = 1, sequence_parallel: bool = False,
          recompute: str = "none", precision: str = "fp32", zero: int = 0, dp: int = 1, seq: int | None = None) -> Played:  # fmt: skip
    """A stage of this kind with so many layers through one step; what makes no difference is left out of the question."""
    return _played(model, kind, layers, micro_batches=micro_batches, micro_batch=micro_batch, tp=tp, sequence_parallel=sequence_parallel and tp > 1,
                   recompute=recompute, precision=precision, zero=zero, dp=dp if zero else 1, seq=seq)  # fmt: skip


@cache
def _played(model: str, kind: str, layers: int, **flags: Any) -> Played:
    config, rank = stage_config(model, kind, layers, **flags)
    if config is None:
        return Played(0, 0, 0, 0)
    step = Step(config, rank, 0, 0)
    step.run()
    return Played(step.torch.saved_peak, step.torch.copies_peak, step.temporary_bytes["passes"], step.temporary_bytes["update"])
