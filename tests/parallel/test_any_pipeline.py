"""Pipeline parallelism of any list of layers: what is trained is what one process trains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from as_alone import STEPS, alone, assert_as_alone, optimizer_of, share
from models import MODELS, PLANS, ROWS, batches, loss_of, made, pieces_of
from pairs import EXHAUSTIVE
from torch import Tensor, nn

from lab_utils import ParallelConfig, launch
from lab_utils.parallel.data_parallel import data_parallel
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.pipeline_parallel import pipeline
from lab_utils.parallel.shard import shard
from lab_utils.parallel.tensor_parallel import tensor_parallel


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.float(), target)


def trained(
    names: list[str],
    dp: int,
    pp: int,
    options: dict[str, object],
    zero: int = 0,
    spoil: Callable[[], None] | None = None,
) -> dict[str, tuple[dict[str, Tensor], list[float]]]:
    """On a rank: the layers of each model that are its own, trained, and the losses; weights are
    this rank's own before the broadcast."""
    if spoil is not None:
        spoil()
    mesh, found = Mesh(ParallelConfig(dp=dp, pp=pp)), {}
    for name in names:
        model = made(name, seed=mesh.rank)
        pipe = pipeline(pieces_of(name, model), mesh["pp"], loss=loss, **options)
        losses = []
        if zero:
            sync = shard(pipe.module, mesh["dp"], zero, units=pipe.module.values(), average=True)
            optimizer = torch.optim.SGD(sync.shards, lr=0.1, momentum=0.9)
        else:
            sync = data_parallel(pipe.module, mesh["dp"], average=True)
            # on four ranks, one of the convolutional net's has nothing to train
            idle = not any(True for _ in pipe.module.parameters())
            optimizer = None if idle else optimizer_of(pipe.module)
        for x, y in batches(model, STEPS):
            sync.zero_grad()
            place = mesh["dp"].rank, dp
            losses.append(pipe(share(x, *place), share(y, *place), sync))
            if optimizer is not None:
                optimizer.step()
            sync.gather_parameters()
        own = {id(x) for x in (*pipe.module.parameters(), *pipe.module.buffers())}
        with sync.whole() if zero else nullcontext():
            state = model.state_dict(keep_vars=True)
            mine = {key: x.detach().clone() for key, x in state.items() if id(x) in own}
        found[name] = mine, losses
    return found


def assert_together_as_alone(ranks: list[dict], names: list[str]) -> None:
    """Every rank's layers, and those of all ranks together."""
    whole = {name: {k: x for rank in ranks for k, x in rank[name][0].items()} for name in names}
    for name in names:
        without = {k for k in alone(name) if k.startswith("unused")}
        assert whole[name].keys() | without == alone(name).keys()
    for rank in ranks:
        # what took no part, or is another rank's, stands there as it should be
        filled = {name: alone(name) | rank[name][0] for name in names}
        assert_as_alone(filled, names)


CASES = [
    (1, 2, "gpipe", 1, 4),
    (1, 2, "1f1b", 1, 4),
    (1, 2, "interleaved", 2, 4),
    (1, 4, "1f1b", 1, 8),
    (2, 2, "1f1b", 1, 2),
    (1, 1, "1f1b", 1, 2),
]


@pytest.mark.parametrize(("dp", "pp", "schedule", "virtual_stages", "micro_batches"), CASES)
def test_any_list_of_layers_trains_as_one_process(dp, pp, schedule, virtual_stages, micro_batches):
    stages = pp * virtual_stages
    names = [n for n in MODELS if len(pieces_of(n, made(n, 0))) >= stages]
    assert len(names) >= 3
    if EXHAUSTIVE or (schedule, pp) == ("interleaved", 2):
        names = [*names, "gpt2", "llama"]
    options = {"virtual_stages": virtual_stages, "micro_batches": micro_batches}
    options |= {"schedule": schedule}
    found = launch(trained, dp * pp, names, dp, pp, options, threads=1)
    assert_together_as_alone(found, names)
    # all pipeline ranks return the loss; the mean over dp is the first step's of one process
    for name in names:
        model = made(name, 0)
        (x, y), *_ = batches(model, STEPS)
        first = sum(rank[name][1][0] for rank in found) / (dp * pp)
        assert first == pytest.approx(loss_of(model, x, y).item(), rel=2e-6)


@pytest.mark.parametrize("stage", [1, 3])
def test_a_rank_s_layers_may_be_cut_by_zero(stage):
    names = ["encoder", "convolutional", "mixed"]
    found = launch(trained, 4, names, 2, 2, {"micro_batches": 2}, stage, threads=1)
    assert_together_as_alone(found, names)


def on_two_axes(names: list[str]) -> dict[str, tuple[dict[str, Tensor], None]]:
    """On a rank: each model's layers shared out first, then its list of layers."""
    mesh, found = Mesh(ParallelConfig(pp=2, tp=2)), {}
    for name in names:
        model = made(name, seed=mesh.rank)
        shared = tensor_parallel(model, mesh["tp"], PLANS[name](model))
        pipe = pipeline(pieces_of(name, model), mesh["pp"], loss=loss, micro_batches=4)
        optimizer = optimizer_of(pipe.module)
        for x, y in batches(model, STEPS):
            optimizer.zero_grad()
            pipe(x, y)
            optimizer.step()
        own = {id(x) for x in (*pipe.module.parameters(), *pipe.module.buffers())}
        keys = [key for key, x in model.state_dict(keep_vars=True).items() if id(x) in own]
        whole = shared.whole()
        found[name] = {key: whole[key] for key in keys}, None
    return found


def test_layers_that_are_shared_out_may_stand_in_a_pipeline():
    names = ["encoder", "convolutional", "tied", "mixed"]
    assert_together_as_alone(launch(on_two_axes, 4, names, threads=1), names)


def shared_weight_not_summed() -> None:
    from lab_utils.parallel.pipeline_parallel import Pipelined

    Pipelined._sum_shared = lambda self: None


def test_a_tied_weight_that_two_ranks_each_train_alone_shows():
    found = launch(
        trained, 2, ["tied"], 1, 2, {"micro_batches": 2}, 0, shared_weight_not_summed, threads=1
    )
    with pytest.raises(AssertionError):
        assert_together_as_alone(found, ["tied"])


def step(schedule: str, micro_batches: int) -> tuple[Counter, int, int]:
    """On a rank: what the encoder's second step sends, by operation, purpose and bytes; bytes of
    the weights; the most messages that were held at once."""
    mesh = Mesh(ParallelConfig(pp=2))
    model, held = made("encoder", 0), [0, 0]
    layers = pieces_of("encoder", model)
    pipe = pipeline(
        layers, mesh["pp"], loss=loss, schedule=schedule, micro_batches=micro_batches, sizes=[1, 2]
    )

    def observe(what: str, tensor: Tensor, is_held: bool) -> None:
        held[0] += 1 if is_held else -1
        held[1] = max(held)

    (x, y), *_ = batches(model, 1)
    pipe(x, y)
    mesh.ledger.clear()
    mesh.ledger.observer = observe
    pipe(x, y)
    sent = Counter((call.op, call.purpose, call.bytes) for call in mesh.ledger.calls)
    return sent, sum(p.nbytes for p in pipe.module.parameters()), held[1]


@pytest.mark.parametrize(("schedule", "most"), [("gpipe", 4), ("1f1b", 1)])
def test_each_rank_holds_its_layers_and_sends_one_message_each_way(schedule, most):
    first, last = launch(step, 2, schedule, 4, threads=1)
    layer, head = (sum(p.nbytes for p in m.parameters()) for m in made("encoder", 0).children())
    assert (first[1], last[1]) == (layer // 2, layer // 2 + head)
    message, note = ROWS // 4 * 6 * 16 * 4, ("broadcast", "control", 8)
    assert first[0] == last[0] == {("send", "activation", message): 4, note: 1}
    assert (first[2], last[2]) == (0, most)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def said() -> list[str]:
    """On a rank: what is said of what cannot be done."""
    axis, found = Mesh(ParallelConfig(dp=1, pp=2))["pp"], []
    for layers, rows, options in (
        ([nn.Linear(2, 2)], 4, {}),
        ([nn.Linear(2, 2)] * 3, 4, {"sizes": [3, 1]}),
        ([nn.Linear(2, 2)] * 2, 4, {"schedule": "zero-bubble"}),
        ([nn.Linear(2, 2)] * 2, 6, {"micro_batches": 4}),
        ([Pair(), nn.Linear(2, 2)], 4, {}),
    ):
        options = {"loss": loss, "micro_batches": 2} | options
        try:
            pipe = pipeline(layers, axis, **options)
            if axis.rank == 0:
                pipe(torch.zeros(rows, 2), None)
            found.append("")
        except ValueError as error:
            found.append(str(error))
    tied = nn.Linear(2, 2)
    try:
        pipe = pipeline([tied, tied], axis, loss=loss, micro_batches=2)
        pipe(torch.zeros(4, 2), None, shard(pipe.module, Mesh(ParallelConfig(dp=2))["dp"], 1))
    except ValueError as error:
        found.append(str(error))
    return found


def test_what_cannot_be_done_is_said():
    assert launch(said, 2, threads=1)[0] == [
        "2 stages need at least 2 layers, and the list has 1: use fewer ranks or virtual stages.",
        "sizes [3, 1]: 2 stages need 2 numbers from 1 up that add up to 3 layers.",
        "a pipeline of any model runs gpipe, 1f1b or interleaved, not 'zero-bubble'.",
        "6 rows cannot be cut into 4 equal micro-batches; nearest that works: 3 or 6"
        " micro-batches.",
        "stage 0 gives tuple: between stages travels one floating-point tensor, so wrap the layer"
        " in a module that returns one.",
        "a weight that two pipeline ranks share cannot be cut by ZeRO: use data_parallel.",
    ]
