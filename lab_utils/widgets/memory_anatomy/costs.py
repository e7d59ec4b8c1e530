"""Bytes of one GPU by term, as the memory-anatomy tool needs them: by layer and by stage, so that
the page can add them up.

Every number is the estimator's, for models cut down to a few layers: what a stage holds is what its
ends hold and so many times what a layer holds, for each micro-batch in flight. That it is so is
held by tests against estimate() of whole models.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from ... import i18n
from ...config import ConfigError, ModelConfig, ParallelConfig, TrainConfig
from ...config.presets import PRESETS
from ...estimate.memory import model_state_bytes
from ...estimate.update import update_cost
from ...layout.refusals_layout import refuse_layout
from ...layout.schedule import make_schedule
from ...layout.schedule_check import in_flight
from ...layout.stages import stage_layers
from ...layout.units import zero_units

STATES = ("parameters", "gradients", "optimizer")
# a stage's place in the pipeline: it decides which ends of the model it holds
KINDS = ("only", "first", "middle", "last")


NOTHING = dict.fromkeys((*STATES, "gathered", "buckets"), 0)


class Stage(NamedTuple):
    """One pipeline rank: its place, its layers, and how many micro-batches' activations it holds at
    once."""

    kind: str
    layers: int
    in_flight: int


@cache
def shown_stages(
    layers: int, pp: int, micro_batches: int
) -> tuple[Stage | None, Stage | None, Stage | None]:
    """The first, the middle and the last stage of a 1F1B pipeline; None for one that there is not.
    A single stage stands first."""
    held = in_flight(make_schedule("1f1b", pp, micro_batches))
    counts = [len(stage) for stage in stage_layers(layers, pp)]
    if pp == 1:
        return Stage("only", counts[0], held[0]), None, None
    middle = Stage("middle", counts[pp // 2], held[pp // 2]) if pp > 2 else None
    return Stage("first", counts[0], held[0]), middle, Stage("last", counts[-1], held[-1])


def config_of(
    model: str,
    *,
    micro_batch: int = 1,
    micro_batches: int = 1,
    layers: int | None = None,
    seq: int | None = None,
    dp: int = 1,
    tp: int = 1,
    pp: int = 1,
    zero: int = 0,
    sequence_parallel: bool = False,
    **flags: Any,
) -> TrainConfig:
    """The run that a state describes; `micro_batches` of `micro_batch` sequences on each of dp
    ranks."""
    return TrainConfig(
        model=_shape(model, layers, seq),
        parallel=_parallel(dp, tp, pp, zero, sequence_parallel),
        global_batch=dp * micro_batch * micro_batches,
        micro_batch=micro_batch,
        **flags,
    )


@cache
def _shape(model: str, layers: int | None, seq: int | None) -> ModelConfig:
    return ModelConfig(
        **PRESETS[model] | ({"layers": layers} if layers else {}) | ({"seq": seq} if seq else {})
    )


@cache
def _parallel(dp: int, tp: int, pp: int, zero: int, sequence_parallel: bool) -> ParallelConfig:
    return ParallelConfig(dp=dp, tp=tp, pp=pp, zero=zero, sequence_parallel=sequence_parallel)


def refusal(lang: str, model: str, **flags: Any) -> str | None:
    """Why a layout cannot be, and what works instead; None for one that can be."""
    with _speaking(lang):
        try:
            refuse_layout(config_of(model, **flags))
        except ConfigError as error:
            return str(error)
    return None


@contextmanager
def _speaking(lang: str) -> Iterator[None]:
    before = i18n._chosen
    i18n.set_language(lang)
    try:
        yield
    finally:
        i18n._chosen = before


def layers(model: str) -> int:
    """Blocks of a named model."""
    return PRESETS[model]["layers"]


def stage_config(
    model: str, kind: str, layers: int, **flags: Any
) -> tuple[TrainConfig | None, int]:
    """A run with a stage of this kind and so many layers, and the stage's pipeline rank. None for a
    layout that cannot be: the tool says why, and shows no number."""
    pp, rank = (1, 0) if kind == "only" else (3, KINDS.index(kind) - 1)
    try:
        config = config_of(model, layers=layers * pp, pp=pp, **flags)
        refuse_layout(config)
    except ConfigError:
        return None, rank
    return config, rank


@cache
def surrogate(model: str, kind: str, layers: int, **flags: Any) -> dict[str, int]:
    """Terms of a stage of this kind with so many layers, from a model of no more layers than that
    takes."""
    config, rank = stage_config(model, kind, layers, **flags)
    return model_state_bytes(config, rank, 0) if config else NOTHING


@cache
def model_states(
    kind: str, model: str, precision: str, optimizer: str, zero: int, dp: int, tp: int
) -> dict[str, int]:
    """Parameters, gradients and optimizer states of a stage's ends of this kind, or of one layer
    (kind "layer")."""

    def of(kind: str, layers: int) -> dict[str, int]:
        return surrogate(
            model, kind, layers, precision=precision, optimizer=optimizer, zero=zero, dp=dp, tp=tp
        )

    one = of(kind if kind in KINDS else "only", 1)
    layer = (
        one if kind == "layer" else model_states("layer", model, precision, optimizer, zero, dp, tp)
    )
    less = of("only", 2) if kind == "layer" else one
    return {term: less[term] - layer[term] for term in STATES}


@cache
def optimizer_temporary(
    kind: str, model: str, precision: str, optimizer: str, zero: int, dp: int, tp: int
) -> int:
    """What the optimizer's step needs for a moment on a stage of this kind, without what its layers
    add, or (kind "layer") that."""

    def of(kind: str, layers: int) -> int:
        flags = dict(precision=precision, optimizer=optimizer, zero=zero, dp=dp, tp=tp)
        config, rank = stage_config(model, kind, layers, **flags)
        return update_cost(config, rank).temporary if config else 0

    if optimizer in ("sgd", "adamw"):  # one kernel
        return 0
    if kind == "layer":
        return of("only", 3) - of("only", 2)
    return of(kind, 2) - 2 * optimizer_temporary("layer", model, precision, optimizer, zero, dp, tp)


def gathered(stage: Stage, model: str, precision: str, zero: int, dp: int, tp: int) -> int:
    """What ZeRO-3 gathers on a stage, at most. It is a most over neighbouring layers: two of them
    show it all."""
    return _running(stage, model, precision, 3, dp, tp, 1)["gathered"] if zero == 3 else 0


def buckets(
    stage: Stage, model: str, precision: str, zero: int, dp: int, tp: int, micro_batches: int
) -> int:
    """Whole gradients that ZeRO-2 and -3 hold on a stage, at most. Only autocast tells the two
    apart, and one micro-batch from more."""
    if zero < 2:
        return 0
    plain = "fp32" if precision == "bf16" and zero == 2 else precision
    return _running(
        stage, model, plain, 3 if plain == "bf16" else 2, dp, tp, min(micro_batches, 2)
    )["buckets"]


def _running(
    stage: Stage, model: str, precision: str, zero: int, dp: int, tp: int, micro_batches: int
) -> dict[str, int]:
    flags = {
        "precision": precision,
        "optimizer": "sgd",
        "zero": zero,
        "tp": tp,
        "micro_batches": micro_batches,
    }
    # the degree only matters for what is padded to it
    return surrogate(
        model,
        stage.kind,
        min(stage.layers, 2),
        dp=dp if is_padded(model, precision, zero, dp, tp) else 1,
        **flags,
    )


@cache
def is_padded(model: str, precision: str, zero: int, dp: int, tp: int) -> bool:
    """Whether a unit of ZeRO's is padded, to be cut into equal shards."""
    try:
        config = config_of(model, layers=1, precision=precision, zero=zero, tp=tp)
        return any(unit.numel % dp for unit in zero_units(config, 0, 0))
    except ValueError:  # no such layout
        return False
