"""The ledger's wire bytes against what the operating system saw leave through the loopback
interface."""

from __future__ import annotations

import pytest

from lab_utils import ParallelConfig, TrainConfig, launch
from lab_utils.measure import wire
from lab_utils.measure.wire import loopback_bytes, sent_per_rank

pytestmark = pytest.mark.skipif(
    loopback_bytes() is None, reason="this system has no /proc/net/dev with a loopback interface"
)

ELEMENTS = 12 * 2**17  # 6 MiB of fp32
# other programs use the interface too, and can only add to it: the least of these is ours
REPEATS = 3
# how many times (N−1)/N of the tensor
OPS = {"all_reduce": 2, "ring_all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}


def sent_by(work, axis) -> tuple[int, int]:
    """(bytes that left through loopback, wire bytes that this rank's ledger says) while every rank
    does `work`."""
    import torch

    def meet() -> None:
        axis.all_reduce(torch.zeros(1), purpose="control").wait()

    meet()
    before, known = loopback_bytes(), len(axis.ledger.calls)
    meet()
    work()
    meet()
    meet()
    return loopback_bytes() - before, sum(_sent(call) for call in axis.ledger.calls[known:])


def _sent(call) -> int:
    """gloo's own reduce-scatter, which torch's FSDP2 uses, sends as much as an all-reduce: that is
    why ours is a ring."""
    gloos_own = call.op == "reduce_scatter" and not call.messages_counted
    return call.wire_bytes * (2 if gloos_own else 1)


def collectives_on_rank() -> dict[str, list[tuple[int, int]]]:
    import os

    import torch

    from lab_utils.parallel.mesh import Mesh

    axis = Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"]
    tensor, found = torch.zeros(ELEMENTS), {}
    for op in OPS:

        def work(op: str = op) -> None:
            pending = getattr(axis, op)(tensor, purpose="gradient")
            (pending[1] if op == "reduce_scatter" else pending).wait()

        work()
        found[op] = [sent_by(work, axis) for _ in range(REPEATS)]
    return found


@pytest.mark.parametrize("n", [2, 3, 4])
def test_collectives(n):
    by_rank = launch(collectives_on_rank, n, threads=1)
    for op, shares in OPS.items():
        claimed = sum(rank[op][0][1] for rank in by_rank)
        assert claimed == pytest.approx(n * shares * (n - 1) / n * 4 * ELEMENTS, rel=1e-4)
        seen = min(seen for seen, _ in by_rank[0][op])
        print(
            f"{n} ranks, {op}: loopback {seen:,} bytes, ledger {claimed:,},"
            f" {seen / claimed - 1:+.2%}"
        )
        assert abs(seen / claimed - 1) <= 0.05


# two sequences a rank and step; a model whose messages are large beside their packet headers
WAYS = {
    "bucketed": ("ours", dict(dp=2)),
    "naive": ("ours", dict(dp=2, gradient_sync="naive")),
    "torch DDP": ("torch", dict(dp=2)),
    "zero-1": ("ours", dict(dp=2, zero=1)),
    "torch ZeroRedundancyOptimizer": ("torch", dict(dp=2, zero=1)),
    "zero-2": ("ours", dict(dp=2, zero=2, micro_batch=1)),
    "zero-3": ("ours", dict(dp=2, zero=3, micro_batch=1)),
    "torch FSDP2": ("torch", dict(dp=2, zero=3, micro_batch=1)),
    "bucketed, 4 ranks": ("ours", dict(dp=4)),
    "zero-2, 4 ranks": ("ours", dict(dp=4, zero=2)),
    "tp": ("ours", dict(tp=2, seq=512)),
    "tp, sequence parallel": ("ours", dict(tp=2, sequence_parallel=True, seq=512)),
    "pp": ("ours", dict(pp=2, seq=512, global_batch=4, micro_batch=2)),
}


def training_on_rank(ways: dict[str, tuple[str, TrainConfig]]) -> dict[str, list[tuple[int, int]]]:
    """Two steps at a time, each way several times. A library is counted from outside."""
    from contextlib import ExitStack

    import torch.distributed as dist

    from lab_utils.data.loader import Loader
    from lab_utils.engines import make_engine
    from lab_utils.parallel.comm import Axis
    from lab_utils.parallel.mesh import Mesh

    found = {}
    for name, (engine_name, config) in ways.items():
        mesh = Mesh(config.parallel)
        everyone = Axis(
            "all", list(range(dist.get_world_size())), dist.get_rank(), None, mesh.ledger
        )
        engine, batch = (
            make_engine(config, engine_name, mesh),
            Loader(config, mesh["dp"].rank).batch(0),
        )

        def work(engine=engine, batch=batch) -> None:
            with ExitStack() as counters:
                for counter in engine.counters():
                    counters.enter_context(counter)
                for _ in range(2):
                    engine.forward_backward(batch)
                    engine.update()

        work()  # the first step builds states, and DDP rearranges its buckets after it
        found[name] = [sent_by(work, everyone) for _ in range(REPEATS)]
    return found


@pytest.mark.parametrize("world", [2, 4])
def test_training(world):
    model = TrainConfig.of("tiny", hidden=256, layers=2, seq=16, vocab=1024)
    configs = {
        name: (engine, model.replace(**{"global_batch": 2 * flags.get("dp", 1)} | flags))
        for name, (engine, flags) in WAYS.items()
    }
    ways = {name: way for name, way in configs.items() if way[1].parallel.world_size == world}
    by_rank = launch(training_on_rank, world, ways, threads=1, timeout=120)
    for name in ways:
        claimed = sum(rank[name][0][1] for rank in by_rank)
        seen = min(seen for seen, _ in by_rank[0][name])
        print(
            f"{name}: loopback {seen:,} bytes in 2 steps, ledger {claimed:,},"
            f" {seen / claimed - 1:+.2%}"
        )
        assert abs(seen / claimed - 1) <= 0.05


def one_round() -> tuple[int, float]:
    """An all-reduce's result and what a rank sent for it."""
    import torch

    from lab_utils.parallel.mesh import Mesh

    axis = Mesh(ParallelConfig(dp=4))["dp"]

    def work() -> torch.Tensor:
        tensor = torch.ones(ELEMENTS)
        axis.all_reduce(tensor, purpose="gradient").wait()
        return tensor

    total, sent = sent_per_rank(work, axis)
    return int(total[-1]), sent


def test_sent_per_rank():
    for total, sent in launch(one_round, 4, threads=1):
        assert total == 4
        assert sent == pytest.approx(1.5 * 4 * ELEMENTS, rel=0.05)


def test_where_the_system_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "_COUNTERS", tmp_path / "missing")
    assert loopback_bytes() is None
    (tmp_path / "missing").write_text(
        "Inter-|   Receive\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10\n"
    )
    assert loopback_bytes() is None
