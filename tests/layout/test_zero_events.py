"""ZeRO's events keep the stages' promises, are those that the engine carries out, and a planted
mistake in them is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import pytest

from lab_utils import TrainConfig, launch
from lab_utils.estimate.program.stage_parts import parts_of_stages
from lab_utils.estimate.traffic import step_traffic
from lab_utils.layout.placement import placements
from lab_utils.layout.units import Unit, zero_units
from lab_utils.layout.zero_events import (
    Do,
    Event,
    Needs,
    ReduceOrder,
    gathers_after_update,
    needs_of_parts,
    reductions,
    without_repeats,
    zero_events,
)


def config_of(zero: int, tied: bool, precision: str, m: int, layers: int = 3) -> TrainConfig:
    return TrainConfig.of(
        layers=layers, hidden=16, heads=2, seq=8, dp=2, zero=zero, tied=tied, precision=precision,
        micro_batch=1, global_batch=2 * m, loss_scale=1.0, clip=0.0,
    )  # fmt: skip


SETTINGS = list(product((1, 2, 3), (False, True), ("fp32", "bf16"), (1, 2, 3)))


class Drawn(NamedTuple):
    """A step's events, and from what they were drawn up."""

    events: tuple[Event, ...]
    units: tuple[Unit, ...]
    needs: tuple[Needs, ...]
    stage: int
    micro_batches: int


def drawn(config: TrainConfig) -> Drawn:
    (parts,), p = parts_of_stages(config, 0).values(), config.parallel
    units, names = zero_units(config, 0, 0), list(placements(config.model, p, 0, 0))
    needs = needs_of_parts(parts, units, names, config.model.tied)
    events = zero_events(needs, units, p.zero, config.micro_batches)
    return Drawn(events, units, needs, p.zero, config.micro_batches)


def of(events: Sequence[Event], *kinds: Do) -> list[Event]:
    return [event for event in events if event.do in kinds]


# -- the promises ----------------------------------------------------------------------------------


def check_weights(d: Drawn) -> None:
    """Stage 3: a part computes with all of its units, the next one's are here or on their way, and
    nothing else is, but for what a later part of the pass uses again."""
    here, whole, backward = set[str](), set[str](), False
    places, order = {one.part: i for i, one in enumerate(d.needs)}, []
    for do, name in d.events:
        if do is Do.UNSHARD:
            assert name not in here
            here.add(name)
        elif do is Do.WAIT_FOR_UNSHARD:
            assert name in here
            whole.add(name)
        elif do is Do.RESHARD:
            assert name in whole, "dropped before it came"
            here.remove(name)
            whole.remove(name)
        elif do in (Do.FORWARD, Do.BACKWARD):
            at, backward = places[name], do is Do.BACKWARD
            order.append((do, at))
            ahead = at - 1 if backward else at + 1
            needed = set(d.needs[at].units)
            coming = set(d.needs[ahead].units) if 0 <= ahead < len(d.needs) else set()
            if d.stage == 3:
                assert needed <= whole
                again = {u for one in d.needs[:at] for u in one.units} & {
                    u for one in d.needs[at:] for u in one.units
                }
                assert needed | coming <= here <= needed | coming | (again if backward else set())
    assert not here
    n = len(d.needs)
    once = [(Do.FORWARD, i) for i in range(n)] + [(Do.BACKWARD, i) for i in reversed(range(n))]
    assert order == once * d.micro_batches


def check_gradients(d: Drawn) -> None:
    """A unit leaves when all of its gradients exist, as often as the stage says; one sum is under
    way at a time, and none when the step ends."""
    exist, under_way, sums = Counter(), None, Counter()
    names = {unit.name: {one.name for one in unit.slices} for unit in d.units}
    for do, name in d.events:
        if do is Do.GRADIENT:
            exist[name] += 1
        elif do is Do.REDUCE:
            assert under_way is None
            assert all(exist[own] == sums[name] + 1 for own in names[name])
            under_way = name
        elif do is Do.COLLECT:
            assert under_way == name
            under_way = None
            sums[name] += 1
        elif do is Do.GATHER:
            assert under_way is None
    assert under_way is None
    assert sums == {unit: reductions(d.stage, d.micro_batches) for unit in names}


def check_update(d: Drawn) -> None:
    """Updated weights are brought to all at the end, where ranks keep all."""
    first = next((i for i, e in enumerate(d.events) if e.do is Do.GATHER), len(d.events))
    assert of(d.events[:first], Do.WAIT_FOR_GATHER) == []
    assert {e.do for e in d.events[first:]} <= {Do.GATHER, Do.WAIT_FOR_GATHER}
    names = [unit.name for unit in d.units] if gathers_after_update(d.stage) else []
    for do in (Do.GATHER, Do.WAIT_FOR_GATHER):
        assert [e.name for e in of(d.events, do)] == names


CHECKS = (check_weights, check_gradients, check_update)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_stage_keeps_its_promises(setting):
    step = drawn(config_of(*setting))
    for check in CHECKS:
        check(step)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_as_many_collectives_as_the_closed_form_of_the_traffic_counts(setting):
    config = config_of(*setting)
    events = drawn(config).events
    counted = Counter({x.op: x.calls for x in step_traffic(config) if x.axis == "dp"})
    assert counted["reduce_scatter"] == len(of(events, Do.REDUCE))
    assert counted["all_gather"] == len(of(events, Do.UNSHARD, Do.GATHER))


def test_a_gradient_that_never_appears_is_taken_for_zero():
    step = drawn(config_of(2, False, "fp32", 1))
    order, names = ReduceOrder(step.units, 2), [one.name for one in step.units[1].slices]
    done = []
    for unit in (step.units[0], step.units[2]):  # the others never run
        for one in unit.slices:
            done += order.gradient(one.name, last_micro_batch=True)
    done += order.gradient(names[0], last_micro_batch=True)
    closing = order.finish()
    assert {e.name for e in of(closing, Do.NO_GRADIENT)} & set(names) == set(names[1:])
    assert Counter(e.name for e in of(done + closing, Do.REDUCE)) == Counter(
        unit.name for unit in step.units
    )
    assert closing[-1].do is Do.COLLECT
    assert order.finish() == []  # nothing is left to do


# -- what the engine does --------------------------------------------------------------------------


def carried_out(configs: list[TrainConfig]) -> list[dict]:
    """On a rank: the events of a real step, the collectives and the gradients in its ledger."""
    from lab_utils.engines.ours import engine_here
    from lab_utils.parallel.zero import ShardedSync

    events: list[Event] = []
    carry_out = ShardedSync._carry_out

    def noted(self, more) -> None:
        more = list(more)
        events.extend(more)
        carry_out(self, more)

    ShardedSync._carry_out, found = noted, []
    for config in configs:
        engine, loader = engine_here(config)
        steps, ledger = iter(loader), engine.mesh.ledger
        for _ in range(2):
            ledger.clear()
            events.clear()
            engine.forward_backward(next(steps))
            engine.update()
        steps.close()
        found.append(
            {
                "events": list(without_repeats(events)),
                "calls": [(c.op, c.label) for c in ledger.calls if c.axis == "dp"],
                "gradients": [name for _, kind, name in ledger.marks if kind == "gradient"],
            }
        )
    return found


def test_the_engine_carries_out_these_events():
    """Autograd decides when a gradient exists. Here it decides as the events assume: part by part,
    the units of a part in the same order."""
    configs = [
        config_of(*setting) for setting in product((1, 2, 3), (False, True), ("fp32", "bf16"), (2,))
    ]
    ops = {Do.UNSHARD: "all_gather", Do.GATHER: "all_gather", Do.REDUCE: "reduce_scatter"}
    not_noted = (Do.FORWARD, Do.BACKWARD, Do.GRADIENT)
    for of_rank in launch(carried_out, 2, configs, threads=1):
        for config, real in zip(configs, of_rank, strict=True):
            step = drawn(config)
            assert [e for e in real["events"] if e.do not in not_noted] == [
                e for e in step.events if e.do not in not_noted
            ]
            assert real["calls"] == [(ops[do], name) for do, name in step.events if do in ops]
            assumed = [e.name for e in of(step.events, Do.GRADIENT)]
            part = {name: one.part for one in step.needs for name in one.gradients}
            assert sorted(real["gradients"]) == sorted(assumed)
            assert [part[name] for name in real["gradients"]] == [part[name] for name in assumed]


# -- planted mistakes ------------------------------------------------------------------------------


def without(events: list[Event], do: Do, number: int = 0) -> list[Event]:
    gone = [i for i, e in enumerate(events) if e.do is do][number]
    return events[:gone] + events[gone + 1 :]


def moved(events: list[Event], do: Do, by: int, number: int = 0) -> list[Event]:
    at = [i for i, e in enumerate(events) if e.do is do][number]
    rest = events[:at] + events[at + 1 :]
    return rest[: at + by] + [events[at]] + rest[at + by :]


def reduced_before_the_last_gradient(events: list[Event]) -> list[Event]:
    at = next(i for i, e in enumerate(events) if e.do is Do.REDUCE)
    last = max(i for i, e in enumerate(events[:at]) if e.do is Do.GRADIENT)
    return moved(events, Do.REDUCE, last - at)


PLANTED: list[tuple[Callable, int, Callable]] = [
    (check_weights, 3, lambda events: without(events, Do.UNSHARD)),
    (check_weights, 3, lambda events: without(events, Do.UNSHARD, 1)),
    (check_weights, 3, lambda events: without(events, Do.WAIT_FOR_UNSHARD, 2)),
    (check_weights, 3, lambda events: without(events, Do.RESHARD)),
    (check_weights, 3, lambda events: without(events, Do.RESHARD, -1)),
    (check_weights, 3, lambda events: moved(events, Do.RESHARD, -1)),
    (check_weights, 3, lambda events: moved(events, Do.UNSHARD, 2, 1)),
    (check_weights, 3, lambda events: without(events, Do.FORWARD)),
    (check_gradients, 2, reduced_before_the_last_gradient),
    (check_gradients, 2, lambda events: without(events, Do.COLLECT)),
    (check_gradients, 2, lambda events: without(events, Do.COLLECT, -1)),
    (check_gradients, 2, lambda events: without(events, Do.REDUCE, -1)),
    (check_gradients, 1, lambda events: [*events, *of(events, Do.REDUCE, Do.COLLECT)]),
    (check_update, 1, lambda events: without(events, Do.GATHER, 1)),
    (check_update, 1, lambda events: without(events, Do.WAIT_FOR_GATHER)),
    (check_update, 2, lambda events: moved(events, Do.GATHER, -9)),
    (check_update, 3, lambda events: [*events, Event(Do.GATHER, "head")]),
]


@pytest.mark.parametrize(("check", "stage", "mistake"), PLANTED)
def test_a_planted_mistake_is_caught(check, stage, mistake):
    step = drawn(config_of(stage, False, "fp32", 2))
    check(step)
    wrong = step._replace(events=tuple(mistake(list(step.events))))
    with pytest.raises(AssertionError):
        check(wrong)
