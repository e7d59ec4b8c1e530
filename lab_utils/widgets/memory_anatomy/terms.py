"""What fills a GPU, as sums that the page can add up: the estimator's bytes of a layer, of a
stage's ends and of a micro-batch in flight (costs, steps), times how many of each there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..frame.controls import State
from ..frame.sums import Amount, Product, Sum, Term
from . import costs, steps
from .options import convention

# what saved activations of a micro-batch depend on
SETUP = ("model", "gpu", "precision", "micro_batch", "tp", "sequence_parallel", "recompute")


def degree(axis: str) -> Amount:
    """How many ranks an axis has."""
    return Amount(controls=(axis,), count=lambda s: (s[axis],))


def terms() -> tuple[Term, ...]:
    """Every kind of bytes, in the order in which it comes to lie on a GPU."""
    states = {term: _model_states(term) for term in costs.STATES}
    return (
        Term(
            name="parameters",
            label=("parameters", "参数"),
            fill="blue5",
            bytes=states["parameters"],
        ),
        Term(
            name="gradients", label=("gradients", "梯度"), fill="blue3", bytes=states["gradients"]
        ),
        Term(
            name="optimizer",
            label=("optimizer states", "优化器状态"),
            short=("optimizer", "优化器"),
            fill="blue2",
            bytes=states["optimizer"],
        ),
        Term(
            name="gathered",
            label=("gathered parameters", "收集的参数"),
            short=("gathered", "收集"),
            fill="sand",
            moment=0,
            bytes=_running(costs.gathered),
        ),
        Term(
            name="buckets",
            label=("gradient buffers", "梯度缓冲区"),
            short=("buffers", "缓冲"),
            fill="stone",
            moment=0,
            bytes=_running(costs.buckets, "micro_batches"),
        ),
        Term(
            name="activations",
            label=("saved activations", "保存的激活值"),
            short=("activations", "激活值"),
            fill="leaf",
            moment=0,
            bytes=_saved(),
        ),
        Term(
            name="weight_copies",
            label=("copies of weights", "权重副本"),
            short=("copies", "副本"),
            fill="moss",
            moment=0,
            bytes=_weight_copies(),
        ),
        Term(
            name="temporary",
            label=("temporary tensors", "临时张量"),
            short=("temporary", "临时"),
            fill="blue1",
            moment=0,
            bytes=_temporary(),
        ),
        Term(
            name="update",
            label=("temporary in the update", "更新时的临时张量"),
            short=("temporary", "临时"),
            fill="plum",
            moment=1,
            bytes=_updating(),
        ),
    )


def _stages(of: Callable[[costs.Stage], int], *controls: str) -> Amount:
    """A number of each stage that is shown, 0 where there is none; of the pipeline's shape
    alone."""

    def count(state: State) -> tuple[int, ...]:
        return tuple(stage and of(stage) or 0 for stage in _shown(state))

    return Amount(controls=controls, count=count)


def _shown(state: State) -> tuple[costs.Stage | None, ...]:
    return costs.shown_stages(
        costs.layers(state.get("model", "gpt3-175b")), state["pp"], state.get("micro_batches", 1)
    )


def _model_states(term: str) -> Sum:
    """A layer's bytes times the stage's layers, and those of its ends."""

    def bytes_of(kind: str, state: State) -> tuple[int]:
        return (costs.model_states(kind, **_what_matters(term, state))[term],)

    controls = (
        "model",
        "precision",
        *(["optimizer"] if term == "optimizer" else []),
        "zero",
        "dp",
        "tp",
    )
    ends = [
        (Amount(controls=controls, count=partial(bytes_of, kind)), _is(kind))
        for kind in costs.KINDS
        if kind != "middle"
    ]
    return (Amount(controls=controls, count=partial(bytes_of, "layer")), _LAYERS), *ends


def _what_matters(term: str, state: State) -> dict[str, Any]:
    """The same state with what the term does not depend on at its plainest, so that fewer have to
    be estimated."""
    cut_from = {"parameters": 3, "gradients": 2, "optimizer": 1}[term]
    zero = (
        min(state["zero"], 3 if state["precision"] == "bf16" else cut_from)
        if state["zero"] >= cut_from
        else 0
    )
    if zero == 0 < state["zero"] and costs.is_padded(
        state["model"], "fp32", 1, state["dp"], state["tp"]
    ):
        zero = 1
    precision = "fp32" if state["precision"] == "bf16" and zero < 3 else state["precision"]
    return (
        {"optimizer": "sgd"}
        | state
        | {"zero": zero, "dp": state["dp"] if zero else 1, "precision": precision}
    )


def _running(of: Callable[..., int], *more: str) -> Sum:
    """What ZeRO holds while it runs, at most: no sum over layers, so a table of its own."""
    controls = ("model", "precision", "zero", "dp", "tp", *more)

    def count(state: State) -> tuple[int, ...]:
        return tuple(
            stage and of(stage, **{name: state[name] for name in controls}) or 0
            for stage in _shown(state)
        )

    return ((Amount(controls=(*controls, "pp"), count=count),),)


def _amount(of: Callable[..., int], *controls: str) -> Amount:
    return Amount(controls=controls, count=lambda state: (of(**_by_kernels(state)),))


def _by_kernels(state: State) -> dict[str, Any]:
    """A device matters only through its kernels."""
    kernels = {"convention": convention(state["gpu"])} if "gpu" in state else {}
    return {name: value for name, value in state.items() if name != "gpu"} | kernels


def _saved() -> Sum:
    return tuple(
        (_amount(partial(steps.saved, part), *SETUP), weight) for part, weight in _IN_FLIGHT.items()
    )


def _weight_copies() -> Sum:
    controls = (*(name for name in SETUP if name != "micro_batch"), "zero")
    return tuple(
        (_amount(partial(steps.weight_copies, part), *controls), weight)
        for part, weight in _IN_FLIGHT.items()
        if not part.startswith("row")
    )


def _temporary() -> Sum:
    """Of the passes, which depend on the micro-batch, and of what ZeRO has on its way, which
    depends on the shards."""
    passes = tuple(
        (_amount(partial(steps.temporary, kind), *SETUP), _is(kind)) for kind in costs.KINDS
    )
    between = (
        _amount(steps.messages, *(name for name in SETUP if name != "recompute")),
        _in_flight("first", "middle", "last"),
    )
    return *passes, between, *_by_weights(steps.in_transit, max), _batch()


def _updating() -> Sum:
    return *_by_weights(steps.updating, sum), _batch(), *_optimizer_temporary()


def _optimizer_temporary() -> Sum:
    """Of the rules that are more than one kernel."""
    controls = ("model", "precision", "optimizer", "zero", "dp", "tp")

    def of(kind: str) -> Amount:
        def count(state: State) -> tuple[int]:
            return (costs.optimizer_temporary(kind, **{name: state[name] for name in controls}),)

        return Amount(controls=controls, count=count)

    return (of("layer"), _LAYERS), *((of(kind), _is(kind)) for kind in costs.KINDS)


def _batch() -> Product:
    return _amount(steps.batch, "model", "micro_batch"), Amount(
        controls=("micro_batches",), count=lambda s: (s["micro_batches"],)
    )


def _by_weights(of: Callable[..., int], both_ends: Callable[[list[int]], int]) -> Sum:
    """A layer's part times the stage's layers, and its ends'; where one stage has both ends,
    `both_ends` of what they have."""

    def count(kinds: tuple[str, ...], state: State) -> tuple[int]:
        plain = _by_kernels({**state, "dp": state["dp"] if state["zero"] else 1})
        return (both_ends([of(kind, **plain) for kind in kinds]),)

    controls = ("model", "gpu", "precision", "zero", "dp", "tp")
    ends = {
        "first": ("first",),
        "middle": ("middle",),
        "last": ("last",),
        "only": ("first", "last"),
    }
    return (Amount(controls=controls, count=partial(count, ("layer",))), _LAYERS), *(
        (Amount(controls=controls, count=partial(count, kinds)), _is(stage))
        for stage, kinds in ends.items()
    )


def _is(*kinds: str) -> Amount:
    return _stages(lambda stage: int(stage.kind in kinds), "pp")


def _in_flight(*kinds: str) -> Amount:
    return _stages(lambda stage: stage.in_flight * (stage.kind in kinds), "pp", "micro_batches")


def _rows(*kinds: str) -> Amount:
    """m on stages of these kinds, in flight or not."""
    return Amount(
        controls=("pp", "micro_batches"),
        count=lambda s: tuple(
            s["micro_batches"] * int(bool(stage) and stage.kind in kinds) for stage in _shown(s)
        ),
    )


_LAYERS = _stages(lambda stage: stage.layers, "model", "pp")
_IN_FLIGHT = {
    "layer": _stages(lambda stage: stage.layers * stage.in_flight, "model", "pp", "micro_batches"),
    **{kind: _in_flight(kind) for kind in costs.KINDS},
    # at the last stage the head holds more, or it is counted with it
    "once": _is("first", "middle"),
    **{f"row {kind}": _rows(kind) for kind in ("only", "first", "last")},
}
