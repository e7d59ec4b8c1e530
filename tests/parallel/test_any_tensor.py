"""Tensor parallelism of any nn.Module: a plan, and what is trained is what one process trains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from as_alone import STEPS, assert_as_alone, optimizer_of, share
from models import MODELS, PLANS, ROWS, batches, loss_of, made
from pairs import EXHAUSTIVE
from torch import Tensor, nn

from lab_utils import ParallelConfig, launch
from lab_utils.measure.memory import storage_bytes
from lab_utils.parallel import tensor_plans
from lab_utils.parallel.data_parallel import data_parallel
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.shard import shard
from lab_utils.parallel.styled_layers import Row
from lab_utils.parallel.tensor_parallel import tensor_parallel
from lab_utils.parallel.tensor_plan import TensorPlan

# what 4 ranks can share out
OF_FOUR = ["encoder", "tied"]


def trained(
    names: list[str], dp: int, tp: int, zero: int = 0, spoil: Callable[[], None] | None = None
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Counter]]:
    """On a rank: each model trained, from weights of this rank's own before the broadcast; and what
    its last step sent over tp."""
    if spoil is not None:
        spoil()
    mesh, found, sent = Mesh(ParallelConfig(dp=dp, tp=tp)), {}, {}
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
            mesh.ledger.clear()
            sync.zero_grad()
            place = mesh["dp"].rank, dp
            loss_of(model, share(x, *place), share(y, *place)).backward()
            sync.finish()
            optimizer.step()
            sync.gather_parameters()
        calls = [call for call in mesh.ledger.calls if call.axis == "tp"]
        sent[name] = Counter((call.op, call.bytes) for call in calls)
        if zero:
            with sync.whole():
                found[name] = shared.whole()
        else:
            found[name] = shared.whole()
    return found, sent


def sums(rows: int, ranks: int) -> dict[str, Counter]:
    """What the strategy says a step sends: a sum where a region is left, and one backward where it
    was entered, unless what enters is the data or comes from nothing that is trained; logits are
    gathered, padded for N."""

    def of(count: int, numbers: int, itemsize: int = 4) -> Counter:
        return Counter({("all_reduce", rows * numbers * itemsize): count})

    def gathered(tokens: int, words: int) -> Counter:
        return Counter({("all_gather", rows * tokens * -(-words // ranks) * ranks * 4): 1})

    # the embedding, two layers of two regions there and back, the way back from the head
    language = of(1 + 2 * 4 + 1, 8 * 16) + gathered(8, 13)
    return {
        "encoder": of(2 * 4 - 1, 6 * 16),
        "convolutional": of(1, 4 * 6 * 6),
        "tied": of(3, 4 * 12) + of(1, 12) + gathered(1, 11),
        "mixed": of(3, 10, itemsize=8) + of(2, 10),
        "gpt2": language,
        "llama": language,
    }


@pytest.mark.parametrize(("dp", "tp", "zero"), [(1, 2, 0), (1, 4, 0), (2, 2, 0), (2, 2, 3)])
def test_any_model_shared_out_by_a_plan_trains_as_one_process(dp, tp, zero):
    names = OF_FOUR if tp == 4 else [*MODELS]
    if EXHAUSTIVE or dp == 1:
        names = [*names, "gpt2"] + ["llama"] * (tp == 2)
    right = sums(ROWS // dp, tp)
    for found, sent in launch(trained, dp * tp, names, dp, tp, zero, threads=1):
        assert_as_alone(found, names)
        assert sent == {name: right[name] for name in names}


def bias_with_every_summand() -> None:
    def often(self: Row, x: Tensor) -> Tensor:
        return forward(self, x) + self.bias * (self.region.axis.size - 1)

    forward, Row.forward = Row.forward, often


def inputs_not_summed() -> None:
    from lab_utils.parallel.styled_layers import Enter

    Enter.backward = staticmethod(lambda ctx, gradient: (gradient, None))


@pytest.mark.parametrize("spoil", [bias_with_every_summand, inputs_not_summed])
def test_what_is_planted_shows(spoil):
    (found, _), _ = launch(trained, 2, ["tied"], 1, 2, 0, spoil, threads=1)
    with pytest.raises(AssertionError):
        assert_as_alone(found, ["tied"])


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


NORMED: TensorPlan = {"": "enter", "query": "column", "key": "column", "output": "row"}


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


def held(ranks: int) -> tuple[int, int, int]:
    """On a rank: bytes of the encoder's weights, gradients and optimizer states."""
    axis, model = Mesh(ParallelConfig(tp=ranks))["tp"], made("encoder", 0)
    tensor_parallel(model, axis, tensor_plans.ENCODER)
    optimizer = optimizer_of(model)
    (x, y), *_ = batches(model, 1)
    loss_of(model, x, y).backward()
    optimizer.step()
    states = [state["momentum_buffer"] for state in optimizer.state.values()]
    parameters = list(model.parameters())
    terms = parameters, [p.grad for p in parameters], states
    return tuple(storage_bytes(tensors) for tensors in terms)


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_rank_holds_its_part(ranks):
    model, h, f = made("encoder", 0), 16, 32
    every = sum(p.nbytes for p in model.parameters())
    cut = 2 * 4 * (3 * h * h + 3 * h + h * h + h * f + f + f * h)
    for terms in launch(held, ranks, ranks, threads=1):
        assert terms == (every - cut + cut // ranks,) * 3
