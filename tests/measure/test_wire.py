"""The ledger's wire bytes against what the operating system saw leave through the loopback interface."""

from __future__ import annotations

import pytest

from lab_utils import ParallelConfig, TrainConfig, launch
from lab_utils.measure import wire
from lab_utils.measure.wire import loopback_bytes

pytestmark = pytest.mark.skipif(loopback_bytes() is None, reason="this system has no /proc/net/dev with a loopback interface")

ELEMENTS = 12 * 2**17      # 6 MiB of fp32
REPEATS = 3                # other programs use the interface too, and can only add to it: the least of these is ours
OPS = {"all_reduce": 2, "ring_all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}     # how many times (N−1)/N of the tensor


def sent_by(work, axis) -> tuple[int, int]:
    """(bytes that left through loopback, wire bytes that this rank's ledger says) while every rank does `work`."""
    import torch

    def meet() -> None:
        axis.all_reduce(torch.zeros(1), purpose="control").wait()

    meet()
    before, known = loopback_bytes(), len(axis.ledger.calls)
    meet()
    work()
    meet()
    meet()
    return loopback_bytes() - before, sum(call.wire_bytes for call in axis.ledger.calls[known:])


def collectives_on_rank() -> dict[str, list[tuple[int, int]]]:
    import os

    import torch

    from lab_utils.parallel.mesh import Mesh

    axis = Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"]
    tensor, found = torch.zeros(ELEMENTS), {}
    for op in OPS:
        def work(op: str = op) -> None:
            pending = getattr(axis, op)(tensor, purpose="gradient")
            if op in ("all_reduce", "all_gather"):
                pending.wait()

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
        print(f"{n} ranks, {op}: loopback {seen:,} bytes, ledger {claimed:,}, {seen / claimed - 1:+.2%}")
        assert abs(seen / claimed - 1) <= 0.05


def training_on_rank(config: TrainConfig) -> dict[str, list[tuple[int, int]]]:
    """Two steps at a time: our two ways, and torch's DDP counted from outside."""
    from lab_utils.data.loader import Loader
    from lab_utils.measure.traffic import OutsideCounter
    from lab_utils.parallel.mesh import Mesh
    from lab_utils.train.loop import build
    from lab_utils.train.step import forward_backward

    mesh, found = Mesh(config.parallel), {}
    batch = Loader(config, mesh["dp"].rank).batch(0)
    for engine, gradient_sync in (("ours", "bucketed"), ("ours", "naive"), ("torch", "bucketed")):
        sync = build(config.replace(gradient_sync=gradient_sync), engine, mesh)

        def work(sync=sync, engine=engine) -> None:
            counter = OutsideCounter(mesh.ledger, mesh["dp"])
            for _ in range(2):
                if engine == "torch":
                    with counter:
                        forward_backward(sync, batch)
                else:
                    forward_backward(sync, batch)
                sync.finish()

        work()      # DDP rearranges its buckets after the first step
        found[f"{engine} {gradient_sync}"] = [sent_by(work, mesh["dp"]) for _ in range(REPEATS)]
    return found


@pytest.mark.parametrize("dp", [2, 4])
def test_training(dp):
    config = TrainConfig.of("tiny", hidden=256, layers=2, seq=16, vocab=1024, dp=dp, global_batch=2 * dp, micro_batch=1)
    by_rank = launch(training_on_rank, dp, config, threads=1)
    for name in by_rank[0]:
        claimed = sum(rank[name][0][1] for rank in by_rank)
        seen = min(seen for seen, _ in by_rank[0][name])
        print(f"dp {dp}, {name}: loopback {seen:,} bytes in 2 steps, ledger {claimed:,}, {seen / claimed - 1:+.2%}")
        assert abs(seen / claimed - 1) <= 0.05


def test_where_the_system_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "_COUNTERS", tmp_path / "missing")
    assert loopback_bytes() is None
    (tmp_path / "missing").write_text("Inter-|   Receive\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10\n")
    assert loopback_bytes() is None
