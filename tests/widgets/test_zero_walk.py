"""The walk through a ZeRO step, held against the engine: the same collectives in the same order,
the same holdings at every moment."""

from __future__ import annotations

import re
from itertools import pairwise, product

import pytest

from lab_utils import TrainConfig, launch
from lab_utils.estimate.memory.terms import model_state_bytes, unit_bytes
from lab_utils.layout.parameters import parameter_count
from lab_utils.layout.units import zero_units
from lab_utils.widgets.zero import walk_scene as zero_walk_scene
from lab_utils.widgets.zero.costs import FLAGS
from lab_utils.widgets.zero.walk import (
    LAST,
    STAGES,
    UNITS,
    Moment,
    gradients,
    loans,
    moments,
    optimizer,
    parameters,
    wire,
)
from lab_utils.widgets.zero.walk_cells import LOOKS, Place, grid

TERMS = {"parameters": parameters, "gradients": gradients, "optimizer": optimizer}
MINE, OTHERS = True, False


def tiny(stage: str, ranks: int) -> TrainConfig:
    return TrainConfig.of("tiny", dp=ranks, global_batch=ranks, micro_batch=1, **FLAGS[stage])


def watched_step(config: TrainConfig) -> dict:
    """On a rank: the second step of a real run, with a look at every unit whenever one computes,
    after the sums and after the update."""
    from lab_utils.data.loader import Loader
    from lab_utils.engines.ours import OurEngine
    from lab_utils.parallel.flat_unit import ShardedState
    from lab_utils.parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    engine = OurEngine(config, mesh)
    sync, seen = engine.layout.sync, {}
    by_name = {name: number_of(name) for name in sync.parameters}

    def look(phase: str, unit: int = -1) -> None:
        seen[phase, unit] = [
            sharded(number) if config.parallel.zero else replicated(number)
            for number in range(LAST + 1)
        ]

    def sharded(number: int) -> dict:
        unit = sync.units[number]
        name = unit.unit.name
        missing = sync.order.missing[name]
        return {
            "whole": unit.whole.untyped_storage().nbytes() > 0,
            "arriving": unit.state is ShardedState.UNSHARDING,
            "gradient": unit.gradient is not None or unit._leaving is not None,
            "summing": sync.order.under_way == name,
            "begun": 0 < len(missing) < len(unit.parameters),
            "sum": unit.shard_gradient is not None,
        }

    def replicated(number: int) -> dict:
        mine = [p for name, p in sync.parameters.items() if by_name[name] == number]
        buffers = (
            {id(b.untyped_storage()._cdata) for b in sync.buffers.values()}
            if hasattr(sync, "buffers")
            else set()
        )
        return {
            "whole": True,
            "gradient": bool(buffers),
            "begun": any(p.grad is not None for p in mine),
            "sum": bool(sync.pending),
        }

    def on_gradient(name: str) -> None:
        number = by_name[name]
        computing = (
            sync.order.missing[UNITS[number]] != set(sync.units[number].parameters)
            if config.parallel.zero
            else not sync.pending
        )
        if computing:  # or this was the last gradient, and its sum is already under way
            look("backward", number)

    steps = iter(Loader(config, mesh["dp"].rank, device=mesh.device))
    engine.forward_backward(next(steps))
    engine.update()
    model = engine.model
    for number, module in enumerate([model.token_embedding, *model.blocks, model.final_norm]):
        module.register_forward_pre_hook(lambda *_, number=number: look("forward", number))
    for name, parameter in sync.parameters.items():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: on_gradient(name))
    mesh.ledger.clear()
    engine.forward_backward(next(steps))
    look("sum")
    before = [weights_by_shard(sync, number, config) for number in range(LAST + 1)]
    engine.updates.apply()
    look("update")
    between = [weights_by_shard(sync, number, config) for number in range(LAST + 1)]
    sync.gather_parameters()
    look("gather")
    after = [weights_by_shard(sync, number, config) for number in range(LAST + 1)]
    steps.close()
    changed = {"update": shards_changed(before, between), "gather": shards_changed(before, after)}
    numels = [
        sum(x.numel() for x in states if x.dim())
        for states in (engine.updates.states(), engine.updates.offloaded())
    ]
    return {
        "rank": mesh["dp"].rank,
        "seen": seen,
        "calls": [(c.op, c.label) for c in mesh.ledger.calls],
        "changed": changed,
        "states": numels,
    }


def watched_steps(configs: list[TrainConfig]) -> list[dict]:
    return [watched_step(config) for config in configs]


def number_of(parameter: str) -> int:
    if parameter.startswith("blocks."):
        return 1 + int(parameter.split(".")[1])
    return 0 if "embedding" in parameter else LAST


def weights_by_shard(sync, number: int, config: TrainConfig) -> list:
    """Copies of every shard of a unit's weights that this rank has, None for the others."""
    ranks = config.parallel.dp
    if config.parallel.zero == 0:
        import torch

        flat = torch.cat(
            [
                p.detach().reshape(-1)
                for name, p in sync.parameters.items()
                if number_of(name) == number
            ]
        )
        return [part.clone() for part in flat.tensor_split(ranks)]
    unit = sync.units[number]
    if config.parallel.zero == 3:
        return [unit.shard.clone() if r == unit.axis.rank else None for r in range(ranks)]
    return [part.clone() for part in unit.whole.chunk(ranks)]


def shards_changed(before: list, after: list) -> list[list[bool | None]]:
    return [
        [None if a is None else not bool((a == b).all()) for b, a in zip(olds, news, strict=True)]
        for olds, news in zip(before, after, strict=True)
    ]


@pytest.fixture(scope="module")
def real() -> dict[tuple[str, int], list[dict]]:
    """(stage, ranks) → what every rank saw."""
    found = {}
    for ranks in (2, 3):
        by_rank = launch(watched_steps, ranks, [tiny(stage, ranks) for stage in STAGES])
        found.update(
            {(stage, ranks): [seen[i] for seen in by_rank] for i, stage in enumerate(STAGES)}
        )
    return found


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("stage", STAGES)
def test_the_walk_begins_the_engines_collectives_in_the_engines_order(real, stage, ranks):
    walked = [call for moment in moments(stage) for call in wire(stage, moment)]
    assert walked, "every stage communicates"
    for rank in real[stage, ranks]:
        assert rank["calls"] == walked


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("stage", STAGES)
def test_at_every_moment_the_engine_holds_what_the_walk_shows(real, stage, ranks):
    looked_at = [m for m in moments(stage) if m.phase != "start"]
    for rank in real[stage, ranks]:
        for moment in looked_at:
            for unit, found in enumerate(rank["seen"][tuple(moment)]):
                where = (stage, rank["rank"], moment, UNITS[unit])
                own, other = (
                    parameters(stage, moment, unit, MINE),
                    parameters(stage, moment, unit, OTHERS),
                )
                assert own.status != "absent", where
                assert (other.status != "absent") == found["whole"], where
                if stage in ("3", "offload"):
                    assert other.moving == found["arriving"], where
                own, other = (
                    gradients(stage, moment, unit, MINE),
                    gradients(stage, moment, unit, OTHERS),
                )
                computing = own.status in ("local", "filling")
                if stage == "0":
                    assert (own.status, found["gradient"]) == (other.status, True), where
                    assert (own.status != "empty") == found["begun"], where
                    assert (own.status == "sum") == found["sum"], where
                    continue
                assert own.moving == found["summing"] or moment.phase == "sum", where
                assert computing == (found["begun"] or found["summing"]), where
                assert computing == (other.status in ("local", "filling")), where
                assert (own.status == "sum") == (found["sum"] and not computing), where
                kept = (
                    other.status != "absent"
                    if stage != "1"
                    else own.status != "absent" and other.status != "absent"
                )
                assert kept == found["gradient"], where


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("stage", STAGES)
def test_what_the_walk_calls_updated_has_really_changed(real, stage, ranks):
    for rank in real[stage, ranks]:
        for phase in {m.phase for m in moments(stage)} & {"update", "gather"}:
            for unit, shards in enumerate(rank["changed"][phase]):
                for shard, changed in enumerate(shards):
                    cell = parameters(stage, Moment(phase), unit, shard == rank["rank"])
                    assert {"absent": None, "old": False, "new": True}[cell.status] is changed, (
                        stage,
                        phase,
                        unit,
                        shard,
                    )


@pytest.mark.parametrize("stage", STAGES)
def test_optimizer_states_are_as_many_and_where_the_walk_says(real, stage):
    for ranks in (2, 3):
        shards = [unit.numel // ranks for unit in zero_units(tiny("1", ranks), 0, 0)]
        everyone = {
            optimizer(stage, Moment("start"), unit, OTHERS).status != "absent"
            for unit in range(LAST + 1)
        } == {True}
        # replicas carry no padding
        owned = parameter_count(tiny(stage, ranks).model) if everyone else sum(shards)
        hosted = {
            optimizer(stage, Moment("start"), unit, MINE).status for unit in range(LAST + 1)
        } == {"host"}
        # two moments; where the states live elsewhere than the model, fp32 weights too
        for rank in real[stage, ranks]:
            assert rank["states"] == ([0, 3 * owned] if hosted else [2 * owned, 0])


def holders(stage: str, moment: Moment, term: str, unit: int, shard: int, ranks: int) -> list[int]:
    """The ranks that hold something of use."""
    return [
        r
        for r in range(ranks)
        if TERMS[term](stage, moment, unit, r == shard).status not in ("absent", "empty")
    ]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_every_shard_is_held_by_exactly_the_right_ranks(ranks):
    everyone = list(range(ranks))
    for unit, shard in product(range(LAST + 1), range(ranks)):
        for stage in STAGES:
            cut = {"0": (), "1": ("optimizer",), "2": ("optimizer", "gradients")}.get(
                stage, tuple(TERMS)
            )
            done = moments(stage)[-1]
            for term in ("optimizer", "parameters"):
                assert holders(stage, Moment("start"), term, unit, shard, ranks) == (
                    [shard] if term in cut else everyone
                )
            assert holders(stage, Moment("start"), "gradients", unit, shard, ranks) == []
            assert holders(stage, Moment("sum"), "gradients", unit, shard, ranks) == (
                [shard] if stage != "0" else everyone
            )
            assert all(
                parameters(stage, done, unit, r == shard).status == "new"
                for r in holders(stage, done, "parameters", unit, shard, ranks)
            )


@pytest.mark.parametrize("stage", ["3", "offload"])
def test_stage_3_has_only_the_unit_that_computes_and_the_next_one_gathered(stage):
    for at in range(LAST + 1):
        for phase, ahead in (("forward", at + 1), ("backward", at - 1)):
            here = {
                unit
                for unit in range(LAST + 1)
                if parameters(stage, Moment(phase, at), unit, OTHERS).status == "gathered"
            }
            assert here == {at, ahead} & set(range(LAST + 1))


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("stage", ["2", "3", "offload"])
def test_the_most_that_is_here_for_a_moment_is_what_the_estimator_counts(stage, ranks):
    config = tiny(stage, ranks)
    units = zero_units(config, 0, 0)

    def most(term: str, status: str) -> int:
        return max(
            sum(
                unit_bytes(unit, config)
                for i, unit in enumerate(units)
                if TERMS[term](stage, moment, i, OTHERS).status == status
            )
            for moment in moments(stage)
        )

    estimated = model_state_bytes(config)
    assert most("parameters", "gathered") == estimated["gathered"]
    assert most("gradients", "filling") == estimated["buckets"]


CELL = r"(parameters|gradients|optimizer)(\d+)-(\d+)-(\d+)([a-z]?)"


def cells(ranks: int, stage: str, moment: Moment) -> dict[tuple, list[dict]]:
    """By place (term, rank, unit, shard) the cells that are drawn there, wherever they belong."""
    drawn = grid(ranks)
    corners = {
        tuple(round(x, 1) for x in drawn.corner(place)): tuple(place)
        for place in (
            Place(term, rank, unit, shard)
            for term in TERMS
            for rank in drawn.columns
            for unit in range(len(UNITS))
            for shard in drawn.rows
        )
    }
    found: dict[tuple, list[dict]] = {place: [] for place in corners.values()}
    state = {"ranks": ranks, "stage": stage, "moment": moment}
    for item in zero_walk_scene.scene(state, "en")["items"]:
        if re.fullmatch(CELL, item["key"]):
            found[corners[item["x"], item["y"]]].append(item)
    return found


@pytest.mark.parametrize("ranks", [2, 4, 8, 1024])
@pytest.mark.parametrize("stage", STAGES)
def test_the_picture_draws_every_cell_as_the_walk_has_it(stage, ranks):
    """What is seen at a place is the last that is drawn there, unless it has faded."""
    for moment in moments(stage):
        for (term, rank, unit, shard), items in cells(ranks, stage, moment).items():
            cell = TERMS[term](stage, moment, unit, rank == shard)
            seen = [item for item in items if item.get("opacity") != 0]
            assert bool(seen) == (cell.status != "absent"), (moment, term, rank, unit, shard)
            if seen:
                assert seen[-1]["fill"] == LOOKS[cell.status][0]
                assert (seen[-1].get("stroke") == "fire") == cell.moving


@pytest.mark.parametrize("stage", ["1", "2", "3", "offload"])
def test_shards_fly_from_their_owners_and_gradients_to_theirs(stage):
    """The same item one moment later: what a rank gathers comes from the rank that owns it, what is
    summed goes to the rank that keeps the sum."""
    walked, flown = moments(stage), set()
    at = [
        {item["key"]: place for place, items in cells(4, stage, moment).items() for item in items}
        for moment in walked
    ]
    for before, after in pairwise(at):
        for key in before.keys() & after.keys():
            if before[key] != after[key]:
                (term, start, unit, shard), (_, end, *rest) = before[key], after[key]
                assert [unit, shard] == rest
                flown.add((term, start, end, unit, shard))
    others = [
        (rank, unit, shard)
        for rank, unit, shard in product(range(4), range(len(UNITS)), range(4))
        if rank != shard
    ]
    assert flown == {("parameters", shard, rank, unit, shard) for rank, unit, shard in others} | {
        ("gradients", rank, shard, unit, shard) for rank, unit, shard in others
    }


@pytest.mark.parametrize("stage", ["3", "offload"])
def test_what_was_gathered_fades_where_it_was_used(stage):
    walked = moments(stage)
    for now, moment in enumerate(walked):
        for (term, rank, unit, shard), items in cells(4, stage, moment).items():
            faded = [item for item in items if item.get("opacity") == 0]
            used = term == "parameters" and rank != shard
            ends = {last for _, last in loans(stage, unit)} if used else set()
            assert bool(faded) == (now - 1 in ends), (moment, term, rank, unit, shard)
