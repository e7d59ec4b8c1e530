"""Tensor parallelism of any nn.Module: a plan, and what is trained is what one process trains."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from as_alone import STEPS, assert_as_alone, optimizer_of, share
from models import LANGUAGE, MODELS, ROWS, batches, loss_of, made
from pairs import EXHAUSTIVE
from torch import Tensor, nn

from lab_utils import ParallelConfig, launch
from lab_utils.parallel import plans
from lab_utils.parallel.data_parallel import data_parallel
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.plan import Attributes, Plan
from lab_utils.parallel.shard import shard
from lab_utils.parallel.styled_layers import Row
from lab_utils.parallel.tensor_parallel import tensor_parallel

PLANS: dict[str, Callable[[nn.Module], Plan]] = {
    "encoder": lambda model: plans.ENCODER,
    "convolutional": lambda model: {
        "layers.0": "column",
        "layers.1": ["channels", Attributes("num_groups")],
        "layers.3": "row",
    },
    "tied": lambda model: {
        "embedding": "vocabulary",
        "frozen": "column",
        "trained": "row",
        "head": "head",
    },
    "mixed": lambda model: {"layers.[024]": "column", "layers.[135]": "row"},
    "gpt2": lambda model: plans.gpt2(model.inner.config),
    "llama": lambda model: plans.llama(model.inner.config),
}
# what 4 ranks can share out
OF_FOUR = ["encoder", "tied"]


def trained(
    names: list[str], dp: int, tp: int, zero: int = 0, spoil: Callable[[], None] | None = None
) -> dict[str, dict[str, Tensor]]:
    """On a rank: each model trained, from weights of this rank's own before the broadcast."""
    if spoil is not None:
        spoil()
    mesh, found = Mesh(ParallelConfig(dp=dp, tp=tp)), {}
    for name in names:
        model = made(name, seed=mesh.rank)
        shared = tensor_parallel(model, mesh["tp"], PLANS[name](model))
        if zero:
            sync = shard(model, mesh["dp"], zero, average=True)
            optimizer = torch.optim.SGD(sync.shards, lr=0.1, momentum=0.9)
        else:
            sync = data_parallel(model, mesh["dp"], average=True)
            optimizer = optimizer_of(model)
        for x, y in batches(model, STEPS):
            sync.zero_grad()
            place = mesh["dp"].rank, dp
            loss_of(model, share(x, *place), share(y, *place)).backward()
            sync.finish()
            optimizer.step()
            sync.publish()
        if zero:
            with sync.whole():
                found[name] = shared.whole()
        else:
            found[name] = shared.whole()
    return found


@pytest.mark.parametrize(("dp", "tp", "zero"), [(1, 2, 0), (1, 4, 0), (2, 2, 0), (2, 2, 3)])
def test_any_model_shared_out_by_a_plan_trains_as_one_process(dp, tp, zero):
    names = OF_FOUR if tp == 4 else [*MODELS]
    if EXHAUSTIVE or (dp, tp) == (1, 2):
        names = [*names, "gpt2"] + ["llama"] * (tp == 2)
    for found in launch(trained, dp * tp, names, dp, tp, zero, threads=1):
        assert_as_alone(found, names)


def bias_with_every_summand() -> None:
    def often(self: Row, x: Tensor) -> Tensor:
        return forward(self, x) + self.bias * (self.region.axis.size - 1)

    forward, Row.forward = Row.forward, often


def inputs_not_summed() -> None:
    from lab_utils.parallel.styled_layers import Enter

    Enter.backward = staticmethod(lambda ctx, gradient: (gradient, None))


@pytest.mark.parametrize("spoil", [bias_with_every_summand, inputs_not_summed])
def test_what_is_planted_shows(spoil):
    found = launch(trained, 2, ["tied"], 1, 2, 0, spoil, threads=1)
    with pytest.raises(AssertionError):
        assert_as_alone(found[0], ["tied"])


class NormedHeads(nn.Module):
    """Query and key pass a norm that all heads share, as in Qwen 3; several layers read the input
    at once."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm, self.output = nn.LayerNorm(2), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k = (self.norm(y.unflatten(-1, (-1, 2))) for y in (self.query(x), self.key(x)))
        return self.output((q * k.sigmoid()).flatten(-2))


NORMED: Plan = {"": "enter", "query": "column", "key": "column", "output": "row"}


def normed_gradients(ranks: int) -> tuple[list[Tensor], list[Tensor], list[tuple[str, int]]]:
    """On a rank: gradients of norm and input, those of the uncut model, and what was sent."""
    mesh, both = Mesh(ParallelConfig(tp=ranks)), []
    for plan in (NORMED | {"norm": "summed"}, None):
        torch.manual_seed(0)
        model, x = NormedHeads(), torch.randn(4, 8, requires_grad=True)
        if plan is not None:
            tensor_parallel(model, mesh["tp"], plan)
            mesh.ledger.clear()
        model(x).square().sum().backward()
        both.append([x.grad, model.norm.weight.grad, model.norm.bias.grad, model.output.bias.grad])
    return *both, [(call.op, call.bytes) for call in mesh.ledger.calls]


def test_a_norm_that_all_heads_share_gets_the_sum_of_their_gradients():
    for came, right, sent in launch(normed_gradients, 2, 2, threads=1):
        torch.testing.assert_close(came, right)
        # the input once, not once for each of its two readers; the norm was used twice
        large, small = ("all_reduce", 4 * 8 * 4), ("all_reduce", 2 * 4)
        assert sorted(sent) == [*[small] * 4, large, large]


def held_and_sent(ranks: int) -> tuple[int, int, dict[str, list[int]]]:
    """On a rank: bytes of the encoder's weights and of the optimizer's states, payload of the
    second step by operation."""
    mesh, model = Mesh(ParallelConfig(tp=ranks)), made("encoder", 0)
    tensor_parallel(model, mesh["tp"], plans.ENCODER)
    optimizer = optimizer_of(model)
    for x, y in batches(model, 2):
        mesh.ledger.clear()
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    states = sum(state["momentum_buffer"].nbytes for state in optimizer.state.values())
    sent: dict[str, list[int]] = {}
    for call in mesh.ledger.calls:
        sent.setdefault(call.op, []).append(call.bytes)
    return sum(p.nbytes for p in model.parameters()), states, sent


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_rank_holds_its_part_and_the_wire_carries_two_sums_a_layer_each_way(ranks):
    model, h, f = made("encoder", 0), 16, 32
    every = sum(p.nbytes for p in model.parameters())
    cut = 2 * 4 * (3 * h * h + 3 * h + h * h + h * f + f + f * h)
    for weights, states, sent in launch(held_and_sent, ranks, ranks, threads=1):
        assert weights == states == every - cut + cut // ranks
        # two layers, two regions each, forward and backward; the data itself needs no gradient
        assert sent == {"all_reduce": [ROWS * 6 * h * 4] * (2 * 2 * 2 - 1)}


def language_traffic(kind: str) -> list[tuple[str, int]]:
    """On a rank: what a step of a language model sends."""
    mesh, model = Mesh(ParallelConfig(tp=2)), made(kind, 0)
    tensor_parallel(model, mesh["tp"], PLANS[kind](model))
    mesh.ledger.clear()
    (x, y), *_ = batches(model, 1)
    loss_of(model, x, y).backward()
    return [(call.op, call.bytes) for call in mesh.ledger.calls]


@pytest.mark.skipif(not EXHAUSTIVE, reason="imports transformers once more")
@pytest.mark.parametrize("kind", [*LANGUAGE])
def test_a_language_model_enters_and_leaves_each_region_once(kind):
    stream, logits = ROWS * 8 * 16 * 4, ROWS * 8 * 14 * 4
    for sent in launch(language_traffic, 2, kind, threads=1):
        # the embedding's sum, 2 layers of 4, the head's input; 13 words are padded to 14
        assert sorted(sent) == [("all_gather", logits), *[("all_reduce", stream)] * 10]
