"""ZeRO-3's closed form of its waiting, held to its events: played one by one, with one wire that
carries what is asked of it in order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from lab_utils.config import ModelConfig, ParallelConfig, TrainConfig
from lab_utils.config.presets import PRESETS
from lab_utils.estimate.hardware import cluster
from lab_utils.estimate.program.stage_parts import parts_of_stages
from lab_utils.estimate.time.frameworks import OURS
from lab_utils.estimate.time.pass_time import PassTime
from lab_utils.estimate.time.wires import Wires
from lab_utils.layout.placement import placements
from lab_utils.layout.units import Slice, Unit, zero_units
from lab_utils.layout.zero_events import Do, Event, Needs, needs_of_parts, zero_events

H100 = cluster("H100-SXM")
LAYERS = 32


def played(
    events: tuple[Event, ...], computing: dict[tuple[Do, str], float], wire: dict[str, float]
) -> float:
    """Seconds of a step: `computing` of each part, forward and backward, `wire` of one gather, or
    one sum, of each unit."""
    now, wire_free, here = 0.0, 0.0, {}
    for do, name in events:
        if do in (Do.UNSHARD, Do.REDUCE):
            wire_free = max(wire_free, now) + wire[name]
            here[do, name] = wire_free
        elif do is Do.WAIT_FOR_UNSHARD:
            now = max(now, here[Do.UNSHARD, name])
        elif do is Do.COLLECT:
            now = max(now, here[Do.REDUCE, name])
        elif do in (Do.FORWARD, Do.BACKWARD):
            now += computing[do, name]
    return now


def in_closed_form(config: TrainConfig, m: int, ratio: float) -> tuple[float, float]:
    """(seconds waiting of a step whose forward computes as long as `ratio` gathers take, seconds
    of one gather of all): gradients as wide as weights, backward twice the forward."""
    slow = Wires(config, replace(H100, overlaps=False), OURS, frozenset())
    gather = slow.zero3(PassTime(), 1)[0] / 3
    forward = ratio * gather
    wires = Wires(config, H100, OURS, frozenset())
    return wires.zero3(PassTime(forward=forward, backward=2 * forward), m)[0], gather


def llama(layers: int, vocab: int) -> TrainConfig:
    shape = PRESETS["llama3-8b"] | dict(layers=layers, vocab=vocab)
    return TrainConfig(
        model=ModelConfig(**shape),
        parallel=ParallelConfig(dp=8, zero=3),
        global_batch=8,
        precision="bf16-pure",
    )


@pytest.mark.parametrize(
    ("ratio", "m"), list(product((0.25, 0.5, 0.75, 0.95, 1.05, 1.5, 2, 4), (1, 2, 4)))
)
def test_equal_parts(ratio, m):
    names = [f"blocks.{i}" for i in range(LAYERS)]
    units = tuple(Unit(name, (Slice(f"{name}.w", 0, 8),), 8) for name in names)
    needs = [Needs(name, (name,), (f"{name}.w",)) for name in names]
    waiting, gather = in_closed_form(llama(LAYERS, 256), m, ratio)
    forward = ratio * gather
    computing = {
        (do, name): times * forward / LAYERS
        for (do, times), name in product(((Do.FORWARD, 1), (Do.BACKWARD, 2)), names)
    }
    step = played(zero_events(needs, units, 3, m), computing, dict.fromkeys(names, gather / LAYERS))
    # to the time of one part of 32, in each micro-batch
    one_part = 1.1 * max(2 * forward, gather) / LAYERS
    assert waiting == pytest.approx(step - 3 * m * forward, abs=m * one_part)


@pytest.mark.parametrize(("ratio", "m"), list(product((0.5, 1.05, 2, 4), (1, 4))))
def test_a_real_model_whose_ends_are_larger_than_its_blocks(ratio, m):
    config = llama(LAYERS, PRESETS["llama3-8b"]["vocab"])
    units = zero_units(config, 0, 0)
    (parts,) = parts_of_stages(config, 0).values()
    held = placements(config.model, config.parallel, 0, 0)
    needs = needs_of_parts(parts, units, list(held), config.model.tied)
    waiting, gather = in_closed_form(config, m, ratio)
    total = sum(unit.numel for unit in units)
    wire = {unit.name: gather * unit.numel / total for unit in units}
    weights = {
        one.part: sum(wire[name] for name in one.units)
        for one in needs
        if "embedding" not in one.part
    }
    forward = ratio * gather
    share = {part: seconds * forward / sum(weights.values()) for part, seconds in weights.items()}
    computing = {
        (do, one.part): times * share.get(one.part, 0.0)
        for (do, times), one in product(((Do.FORWARD, 1), (Do.BACKWARD, 2)), needs)
    }
    step = played(zero_events(needs, units, 3, m), computing, wire)
    # 6 % where computing takes as long as the wire, and every part waits for a larger one's
    assert 3 * m * forward + waiting == pytest.approx(step, rel=0.065)
