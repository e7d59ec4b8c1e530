"""Every memory term of one rank in closed form: the stage's changes (changes.py) along the rank's
list of actions.

Equal, byte for byte, to playing the whole step through (exact/); the tests hold it to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ....config import TrainConfig
from ....layout.pipeline_events import Await, Event, Receive, Release, Run, Send, events_of_rank
from ....layout.schedule import Action
from ....layout.zero_events import gathers_after_update
from ...program.conventions import CONVENTIONS, Convention
from ...program.kernels import INDEX
from ...program.share import alike_in_ring
from ...program.stage_parts import parts_of_stages
from ...same_bytes import same_bytes
from ..exact.lifetimes import StepMemory
from ..exact.rank import in_one_tensor
from .change import Change, Context
from .changes import Pattern, stage_changes
from .short import runs_of
from .standing import Standing, alike, alone_in_its_bucket, standing
from .walk import Walk


def rank_memory(
    config: TrainConfig,
    pp_rank: int = 0,
    tp_rank: int = 0,
    optimizer_bytes: int = 0,
    convention: str = "cpu",
    cp_rank: int = 0,
    update_bytes: int = 0,
) -> StepMemory:
    """Activations, weight copies, peak and what it is made of, on the rank at these coordinates.

    `optimizer_bytes`: of optimizer states on the device (memory.model_state_bytes); `update_bytes`:
    what the optimizer's step needs for a moment (update.update_cost).
    """
    short = same_bytes(
        _fewer_micro_batches(config), optimizer="sgd", init="gpt2", clip=float(config.clip > 0)
    )
    place = pp_rank, alike(config, tp_rank), alike_in_ring(config, cp_rank)
    return _walk(short, config.micro_batches, place, optimizer_bytes, update_bytes, convention)


def _fewer_micro_batches(config: TrainConfig) -> TrainConfig:
    """As many as show all that happens: once the pipeline is full, it repeats itself."""
    p = config.parallel
    if p.schedule == "gpipe":
        return config
    enough = 3 * p.pp if p.schedule == "interleaved" else 2 * p.pp + 2
    m = min(config.micro_batches, enough)
    return (
        config
        if m == config.micro_batches
        else replace(config, global_batch=p.dp * config.micro_batch * m)
    )


def _events(config: TrainConfig, rank: int) -> tuple[Event, ...]:
    p = config.parallel
    return events_of_rank(p.schedule, rank, p.pp, config.micro_batches, p.virtual_stages)


def passes_of(config: TrainConfig, pp_rank: int) -> list[int]:
    """The stages of a rank's backward passes in order, of as many micro-batches as differ."""
    short = _fewer_micro_batches(config)
    return [
        event.action.stage
        for event in _events(short, pp_rank)
        if isinstance(event, Run) and event.action.kind == "B"
    ]


@lru_cache(maxsize=8192)
def _walk(
    config: TrainConfig,
    micro_batches: int,
    place: tuple[int, int, int],
    optimizer_bytes: int,
    update_bytes: int,
    convention: str,
) -> StepMemory:
    (pp_rank, tp_rank, _), p = place, config.parallel
    width = 2 if config.precision == "bf16-pure" else 4
    boundary = (
        config.micro_batch
        * config.rank_seq
        // (p.tp if p.sequence_parallel else 1)
        * config.model.hidden
        * width
    )
    parts = parts_of_stages(config, pp_rank)
    here = standing(config, parts, tp_rank, convention)
    changes = _changes(
        config, parts, place[1:], p.schedule == "zero-bubble", convention, micro_batches
    )
    walk = Walk(here, optimizer_bytes, _data_bytes(config, micro_batches))
    walk.terms["gradients"] -= here.dying
    walk.live -= here.dying
    _along(walk, config, pp_rank, changes, boundary, CONVENTIONS[convention].drops_sent)
    walk.collect(0, {})
    passes_peak = walk.peak
    _update(walk, config, here, width, update_bytes, CONVENTIONS[convention])
    return StepMemory(walk.saved_peak, walk.copies_peak, passes_peak, walk.peak, walk.at_peak)


def _along(
    walk: Walk,
    config: TrainConfig,
    pp_rank: int,
    changes: dict[int, dict[Context, Change]],
    boundary: int,
    drops_sent: bool,
) -> None:
    """Forward and backward passes, and the messages between: parallel.pipeline.Pipeline's run, in
    bytes."""
    last_stage = config.parallel.pp * config.parallel.virtual_stages - 1
    rows_held, message = 0, False
    for event in _events(config, pp_rank):
        match event:
            case Receive():
                walk.add("temporary", boundary)
            case Await():
                message = True
            case Run(action):
                kind, stage = action.kind, action.stage
                shares = in_one_tensor(config) and stage in (0, last_stage)
                rows_held -= shares and kind == "B"
                change = changes[stage][_context(action, config, shares and rows_held > 0)]
                rows_held += shares and kind == "F"
                if kind == "F" and message:  # its input is saved
                    walk.hold(boundary)
                walk.apply(change)
                if kind == "B" and stage > 0:  # and goes
                    walk.hold(-boundary)
                    walk.add("temporary", -boundary)
                if kind == "B" and message and not change.keeps_message:
                    walk.add("temporary", -boundary)
                message = False
            case Send():
                walk.add("temporary", boundary)
                if drops_sent:
                    walk.add("temporary", -boundary)
            case Release():
                if not drops_sent:
                    walk.add("temporary", -boundary)


def _context(action: Action, config: TrainConfig, rows: bool) -> Context:
    kind, micro, _ = action
    if kind == "F":
        return Context("F", rows=rows)
    last = micro == config.micro_batches - 1 and config.parallel.zero == 1
    return Context(kind, micro == 0, last, rows and kind == "B")


def _update(
    walk: Walk,
    config: TrainConfig,
    here: Standing,
    width: int,
    update_bytes: int,
    rules: Convention,
) -> None:
    """What summing, judging and applying gradients needs for a moment, and gathering weights."""
    p, grown = config.parallel, rules.gradient_width(width)
    moments = [here.partial * grown, *(numel * grown for numel in here.shared)]
    if config.clip > 0 or config.precision == "fp16":
        moments.append(24)  # the norm, one term of it and its square, in fp64
    wide = config.precision == "bf16-pure" and not rules.main_gradients
    moments.append(4 * here.owned * wide + update_bytes)
    if gathers_after_update(p.zero) and p.replicas > 1 and not rules.main_gradients:
        moments.append(width * here.owned)
    for nbytes in moments:
        walk.add("temporary", nbytes)
        walk.add("temporary", -nbytes)


def _data_bytes(config: TrainConfig, micro_batches: int) -> int:
    share = micro_batches * config.micro_batch
    return (
        share * (config.model.seq + 1) * INDEX
        if in_one_tensor(config)
        else 2 * share * config.rank_seq * INDEX
    )


def _changes(
    config: TrainConfig,
    parts: Mapping[int, list[str]],
    place: tuple[int, int],
    split_backward: bool,
    convention: str,
    micro_batches: int,
) -> dict[int, dict[Context, Change]]:
    again = set(config.recomputed_layers())
    alone = alone_in_its_bucket(config, parts, place[0])
    found = {}
    for stage, names in parts.items():
        runs = tuple(
            (len(run), int(run[0].split(".")[1]) in again)
            for run in runs_of(names, again)
            if run[0].startswith("blocks.")
        )
        first = next((name for name in names if name.startswith("blocks.")), "")
        company = (
            alone.replace(f"{first}.", "blocks.0.")
            if alone
            and (alone.startswith(f"{first}.") or "embed" in names and "embedding" in alone)
            else None
        )
        rows = (
            _data_bytes(config, micro_batches)
            if in_one_tensor(config) and ("embed" in names or "head_loss" in names)
            else 0
        )
        pattern = Pattern("embed" in names, runs, "head_loss" in names, rows, company)
        found[stage] = stage_changes(config, pattern, place, split_backward, convention)
    return found
