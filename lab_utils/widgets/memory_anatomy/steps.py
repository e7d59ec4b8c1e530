"""What a step holds besides model states, as the memory-anatomy tool needs it: saved activations,
copies, temporary tensors.

Every number comes from the estimator's play of a step (estimate.memory.exact) of three stages of
one or two layers. A stage saves so much for each layer, and at its ends, of every micro-batch in
flight; what recomputation brings back is there once. That the parts add up so is held by tests
against the play of whole models.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ...estimate.memory.exact.lifetimes import Step
from .costs import config_of, stage_config

# sequences so short that a step's temporary tensors are those of weights and gradients alone
# (learned positions are weights)
FEW_TOKENS = 8


PLAIN: dict[str, Any] = {
    "convention": "cpu",
    "micro_batches": 1,
    "micro_batch": 1,
    "tp": 1,
    "sequence_parallel": False,
    "recompute": "none",
    "precision": "fp32",
    "zero": 0,
    "dp": 1,
    "seq": None,
}


class Played(NamedTuple):
    """Bytes of one stage's step: each at its own most. `update`: temporary ones after the backward
    passes."""

    activations: int
    weight_copies: int
    temporary: int
    update: int


def saved(part: str, model: str, micro_batch: int, **flags: Any) -> int:
    """Bytes of saved activations: of a "layer" and of a stage's ends ("only", "first", "middle",
    "last") of each micro-batch in flight, those there "once", and of each row of a batch that all
    micro-batches share ("row only", "row first", "row last")."""
    return _parts("activations", model, micro_batch=micro_batch, **flags)[part]


def weight_copies(part: str, model: str, precision: str, zero: int, **flags: Any) -> int:
    """Bytes of autocast's copies of weights, by the same parts; ZeRO-3 gathers weights that need
    none."""
    if precision != "bf16":
        return 0
    sharded = {"zero": 3, "dp": 2} if zero == 3 else {}
    return _parts("weight_copies", model, micro_batch=1, precision=precision, **sharded, **flags)[
        part
    ]


def temporary(kind: str, model: str, **flags: Any) -> int:
    """The most bytes of other tensors at once in the forward and backward passes of a stage."""
    return _play(model, kind, 1, **flags).temporary


def messages(model: str, **flags: Any) -> int:
    """What each micro-batch in flight adds to these: activations and gradients that come and go
    between stages."""
    return (
        _play(model, "middle", 1, micro_batches=3, recompute="none", **flags).temporary
        - _play(model, "middle", 1, recompute="none", **flags).temporary
    )


def in_transit(kind: str, model: str, zero: int, dp: int, tp: int, **kernels: Any) -> int:
    """What summing and gathering adds to these: shards on their way. `kind` "layer": each layer's
    part of it."""
    alone = {"zero": 0, "dp": 1, "micro_batches": 1}
    plain = (
        0 if kind == "layer" else _weights_only(kind, model, tp=tp, **alone, **kernels).temporary
    )
    return _weights_only(kind, model, zero=zero, dp=dp, tp=tp, **kernels).temporary - plain


def updating(kind: str, model: str, **flags: Any) -> int:
    """The most bytes of temporary tensors at once while the optimizer updates. `kind` "layer": each
    layer's part of it."""
    return _weights_only(kind, model, **flags).update


@cache
def _parts(term: str, model: str, **flags: Any) -> dict[str, int]:
    def most(kind: str, layers: int = 1, micro_batches: int = 1) -> int:
        return getattr(_play(model, kind, layers, micro_batches=micro_batches, **flags), term)

    layer = most("middle", 2) - most("middle")
    received = (
        most("middle") - layer
        if flags["recompute"] == "none"
        else most("middle", 1, 2) - most("middle") - layer
    )
    once = most("middle") - layer - received
    rows = dict.fromkeys(("only", "first", "last"), 0)
    # its tokens and targets are views of the whole step's batch
    if term == "activations" and flags["micro_batch"] == 1:
        rows = {kind: most(kind, 1, 2) - most(kind) for kind in ("only", "last")} | {
            "first": _row(model, flags["tp"])
        }
    ends = {
        kind: most(kind) - layer - rows[kind] - (once if kind == "first" else 0) for kind in rows
    }
    return {
        "layer": layer,
        "middle": received,
        "once": once,
        **ends,
        **{f"row {kind}": row for kind, row in rows.items()},
    }


@cache
def _row(model: str, tp: int) -> int:
    """Bytes of the whole step's batch that the first stage saves for each of its rows, in flight or
    not."""
    held = [
        _play(model, "first", 1, micro_batch=1, micro_batches=m, tp=tp).activations for m in (3, 4)
    ]
    return held[1] - held[0]


@cache
def batch(model: str, micro_batch: int) -> int:
    """Bytes of tokens and targets of one micro-batch, which are there for the whole step."""
    return _play(model, "middle", 1, micro_batch=micro_batch).update


@cache
def _weights_only(kind: str, model: str, micro_batches: int = 2, **flags: Any) -> Played:
    learned = config_of(model).model.positions == "learned"
    short = {"micro_batches": micro_batches, "seq": None if learned else FEW_TOKENS}
    if kind == "layer":
        one, two = (_play(model, "middle", layers, **short, **flags) for layers in (1, 2))
        return Played(0, 0, two.temporary - one.temporary, two.update - one.update)
    whole = _play(model, kind, 1, **short, **flags)
    layer = _weights_only("layer", model, micro_batches, **flags)
    return Played(0, 0, whole.temporary - layer.temporary, whole.update - layer.update)


def _play(model: str, kind: str, layers: int, **flags: Any) -> Played:
    """A stage of this kind with so many layers through one step; what makes no difference is left
    out of the question."""
    flags = PLAIN | flags
    if flags["tp"] == 1:
        flags["sequence_parallel"] = False
    if not flags["zero"]:
        flags["dp"] = 1
    return _played(model, kind, layers, **flags)


@cache
def _played(model: str, kind: str, layers: int, convention: str, **flags: Any) -> Played:
    config, rank = stage_config(model, kind, layers, **flags)
    if config is None:
        return Played(0, 0, 0, 0)
    step = Step(config, rank, 0, 0, convention)
    step.run()
    return Played(
        step.torch.saved_peak,
        step.torch.copies_peak,
        step.temporary_bytes["passes"],
        step.temporary_bytes["update"],
    )
