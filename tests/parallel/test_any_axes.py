"""Parameters that lie over other axes than the rest: a mixture of experts, each on one rank of ep,
on four ranks of dp = edp × ep. Equal to one process that holds all experts, bytes as counted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab_utils import launch
from lab_utils.parallel.data_parallel import data_parallel
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.shard import shard

EXPERTS, WIDTH, ROWS, STEPS = 4, 16, 32, 3


class Swap(torch.autograd.Function):
    """The r-th part of the rows to rank r; the gradients of theirs come back the same way."""

    @staticmethod
    def forward(ctx, x, axis):
        ctx.axis, x = axis, x.contiguous()
        y = torch.empty_like(x)
        axis.all_to_all(x, y, purpose="activation").wait()
        return y

    @staticmethod
    def backward(ctx, gradient):
        return Swap.apply(gradient, ctx.axis), None


class Experts(nn.Module):
    """As many rows for each: row i goes to expert i modulo their number. `axis`: its ranks share
    the experts out, and send each other the rows."""

    def __init__(self, axis=None) -> None:
        super().__init__()
        self.axis = axis
        every = [nn.Sequential(nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)) for _ in range(EXPERTS)]
        here = EXPERTS // (axis.size if axis else 1)
        first = here * axis.rank if axis else 0
        self.experts = nn.ModuleDict({str(i): every[i] for i in range(first, first + here)})

    def forward(self, x: Tensor) -> Tensor:  # (rows, WIDTH)
        by_expert = x.view(-1, EXPERTS, WIDTH).transpose(0, 1)
        if self.axis:
            by_expert = Swap.apply(by_expert, self.axis)
            n = len(self.experts)
            by_expert = by_expert.reshape(-1, n, by_expert.shape[1], WIDTH).transpose(0, 1)
        y = torch.stack([e(rows) for e, rows in zip(self.experts.values(), by_expert, strict=True)])
        if self.axis:
            y = Swap.apply(y.transpose(0, 1).reshape(EXPERTS, -1, WIDTH), self.axis)
        return y.transpose(0, 1).reshape(x.shape)


class Mixture(nn.Module):
    """A linear layer, experts, a linear layer."""

    def __init__(self, axis=None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.moe, self.after = (
            nn.Linear(WIDTH, WIDTH),
            Experts(axis),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.after(F.gelu(self.moe(F.gelu(self.before(x)))))


def rows() -> list[Tensor]:
    draw = torch.Generator().manual_seed(7)
    return [torch.randn(ROWS, WIDTH, generator=draw) for _ in range(STEPS)]


def alone() -> dict[str, Tensor]:
    model = Mixture()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x in rows():
        optimizer.zero_grad()
        (model(x) - x.flip(1)).square().mean().backward()
        optimizer.step()
    return {name: x.detach() for name, x in model.named_parameters()}


def trained(way: str, forgotten: bool = False):
    """(weights, (axis, bytes) of the gradients' sums, bytes of the optimizer's tensors)."""
    mesh = Mesh(sizes={"edp": 2, "ep": 2}, joined={"dp": ("edp", "ep")})
    model = Mixture(mesh["ep"])
    others = {} if forgotten else {"moe.experts.*": mesh["edp"]}
    dp = mesh["dp"]
    if way in ("naive", "bucketed"):
        sync = data_parallel(
            model, dp, gradient_sync=way, average=True, others=others, broadcast=not forgotten
        )
        owned = list(model.parameters())
    else:
        sync = shard(model, dp, int(way[-1]), units=[model.moe], average=True, others=others)
        owned = sync.shards
    optimizer = torch.optim.SGD(owned, lr=0.1, momentum=0.9)
    for x in rows():
        mesh.ledger.clear()
        x = x.chunk(4)[dp.rank]
        sync.zero_grad()
        (model(x) - x.flip(1)).square().mean().backward()
        sync.finish()
        optimizer.step()
        sync.gather_parameters()
    sent = {}
    for call in mesh.ledger.calls:
        if call.purpose == "gradient":
            sent[call.axis] = sent.get(call.axis, 0) + call.bytes
    kept = sum(x.numel() * 4 for x in owned)
    if way not in ("naive", "bucketed"):
        with sync.whole():
            weights = {name: x.detach().clone() for name, x in model.named_parameters()}
    else:
        weights = {name: x.detach().clone() for name, x in model.named_parameters()}
    return mesh.coords, weights, sent, kept


def parameters(prefix: str) -> int:
    return sum(p.numel() for name, p in Mixture().named_parameters() if prefix in name)


@pytest.mark.parametrize("way", ["naive", "bucketed", "zero 1", "zero 2", "zero 3"])
def test_experts_on_their_own_axis_are_as_on_one_process(way):
    expected = alone()
    experts = 4 * parameters("experts") // 2  # bytes of those on one rank
    rest = 4 * (parameters("") - parameters("experts"))
    for coords, weights, sent, kept in launch(trained, 4, way, threads=1):
        assert coords.keys() == {"edp", "ep"}
        assert {int(name.split(".")[2]) for name in weights if "experts" in name} == (
            {0, 1} if coords["ep"] == 0 else {2, 3}
        )
        for name, x in weights.items():
            assert (x - expected[name]).norm() <= 2e-6 * expected[name].norm(), (way, name)
        assert sent == {"edp": experts, "dp": rest}
        # ZeRO cuts the experts in two, the rest in four
        assert kept == (experts + rest if "zero" not in way else experts // 2 + rest // 4)


def test_experts_summed_over_all_ranks_are_wrong():
    expected = alone()
    _, weights, sent, _ = launch(trained, 4, "bucketed", True, threads=1)[0]
    assert set(sent) == {"dp"}
    name = "moe.experts.0.0.weight"
    assert (weights[name] - expected[name]).norm() > 1e-3 * expected[name].norm()
