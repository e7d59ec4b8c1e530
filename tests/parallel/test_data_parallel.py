"""Gradients across ranks: one communication a step, overlap that is real, and what goes wrong is
said."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from quiet import on_time

from lab_utils import TrainConfig, launch
from lab_utils.layout.parameters import parameter_count
from lab_utils.measure.overlap import overlap
from lab_utils.model import GPT
from lab_utils.parallel.comm import Axis
from lab_utils.parallel.data_parallel import BucketedSync, NaiveSync
from lab_utils.parallel.ledger import Ledger


def traces_on_rank(config: TrainConfig) -> list:
    """The trace of one warm step, its gradients seen by hooks of our own."""
    from lab_utils.data.loader import Loader
    from lab_utils.engines.ours import OurEngine
    from lab_utils.engines.step import forward_backward
    from lab_utils.parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    sync, batch = OurEngine(config, mesh).layout.sync, Loader(config, mesh["dp"].rank).batch(0)
    forward_backward(sync, batch)
    sync.finish()
    # after the engine's hooks: a mark says that the gradient surely exists
    for name, parameter in sync.parameters.items():
        parameter.register_post_accumulate_grad_hook(
            lambda _, name=name: mesh.ledger.mark("ours", name)
        )
    mesh.ledger.clear()
    forward_backward(sync, batch)
    sync.finish()
    return mesh.ledger.trace()


def moments(trace: list) -> tuple[float, float, float, int]:
    """(first issue, first wait, last gradient, issues before the last gradient)."""
    when = {kind: [at for at, k, _ in trace if k == kind] for kind in ("issue", "wait", "ours")}
    return (
        min(when["issue"]),
        min(when["wait"]),
        max(when["ours"]),
        sum(at < max(when["ours"]) for at in when["issue"]),
    )


def test_the_first_bucket_leaves_early_and_nothing_waits_until_the_last_gradient_exists():
    config = TrainConfig.of("tiny", dp=3, bucket_mib=0.1, layers=6)
    for trace in launch(traces_on_rank, 3, config, threads=1):
        first_issue, first_wait, last_gradient, early = moments(trace)
        assert first_issue < last_gradient < first_wait
        assert early > 5
        assert [name for _, kind, name in trace if kind == "issue"][0] == "bucket 0"
        assert overlap(trace).real
        assert (
            len({name for _, kind, name in trace if kind == "gradient"})
            == overlap(trace).gradients
            == 6 * 16 + 5
        )


def test_the_naive_way_sends_nothing_until_the_last_gradient_exists():
    config = TrainConfig.of("tiny", dp=3, gradient_sync="naive", layers=6)
    for trace in launch(traces_on_rank, 3, config, threads=1):
        first_issue, first_wait, last_gradient, early = moments(trace)
        assert last_gradient < first_issue < first_wait
        assert early == 0
        assert not overlap(trace).real
        kinds = [kind for _, kind, _ in trace if kind in ("issue", "done")]
        assert kinds == ["issue", "done"] * (len(kinds) // 2)  # each waited for before the next


def steps_on_rank(config: TrainConfig, micro_batches: list[int]) -> list[tuple[int, int]]:
    """(messages, payload bytes) of one step, per number of micro-batches."""
    from lab_utils.data.loader import Loader
    from lab_utils.engines.ours import OurEngine
    from lab_utils.engines.step import forward_backward
    from lab_utils.parallel.mesh import Mesh

    mesh, counts = Mesh(config.parallel), []
    sync = OurEngine(config, mesh).layout.sync
    for m in micro_batches:
        share = config.global_batch // config.parallel.dp
        mesh.ledger.clear()
        forward_backward(
            sync, Loader(config.replace(micro_batch=share // m), mesh["dp"].rank).batch(0)
        )
        sync.finish()
        counts.append((len(mesh.ledger.calls), sum(call.bytes for call in mesh.ledger.calls)))
    return counts


def test_accumulation_communicates_once():
    config = TrainConfig.of("tiny", dp=2, bucket_mib=0.25)
    for sync in ("bucketed", "naive"):
        for counts in launch(
            steps_on_rank, 2, config.replace(gradient_sync=sync), [1, 2, 3, 12], threads=1
        ):
            assert len(set(counts)) == 1
            assert counts[0][1] == 4 * parameter_count(config.model)


def misuse_on_rank(gradient_sync: str) -> dict:
    """A model with a branch that only rank 0 takes, and the ways to use BucketedSync wrongly."""
    import os

    import torch
    from torch import nn

    from lab_utils import ParallelConfig
    from lab_utils.parallel.data_parallel import data_parallel
    from lab_utils.parallel.mesh import Mesh

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.common, self.sometimes, self.never = (
                nn.Parameter(torch.ones(5)) for _ in range(3)
            )
            self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

        def forward(self, branch: bool) -> torch.Tensor:
            return (
                (self.common + self.sometimes * 3 if branch else self.common) * self.frozen
            ).sum()

    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    mesh, model, found = Mesh(ParallelConfig(dp=n)), Branches(), {}
    sync = data_parallel(model, mesh["dp"], gradient_sync=gradient_sync, bucket_bytes=20)
    for step in range(3):  # who skips the branch differs from step to step
        sync.zero_grad()
        sync.model(branch=rank == step % n).backward()
        sync.finish()
        found[step] = {
            name: None if p.grad is None else p.grad.tolist()
            for name, p in model.named_parameters()
        }
    if gradient_sync == "bucketed":
        found["said"] = []
        for second_inside_no_sync in (False, True):
            sync.zero_grad()
            sync.model(branch=True).backward()
            try:
                if second_inside_no_sync:
                    with sync.no_sync():
                        sync.model(branch=True).backward()
                else:
                    sync.model(branch=True).backward()
            except RuntimeError as error:
                found["said"].append(str(error))
            sync.finish()
        with sync.no_sync():
            sync.zero_grad()
            sync.model(branch=True).backward()
        found["local"] = model.common.grad.tolist()
        sync.model(branch=True).backward()
        sync.finish()
        found["accumulated"] = model.common.grad.tolist()
        found["enabled after an error"] = sync.enabled
    return found


def test_a_parameter_that_some_ranks_did_not_use_gets_the_sum_of_the_others():
    for gradient_sync in ("bucketed", "naive"):
        for found in launch(misuse_on_rank, 3, gradient_sync, threads=1, timeout=20):
            for step in range(3):
                assert found[step] == {
                    "common": [3.0] * 5,
                    "sometimes": [3.0] * 5,
                    "never": [0.0] * 5,
                    "frozen": None,
                }


def test_a_gradient_that_appears_twice_is_an_error_that_says_what_to_do():
    for found in launch(misuse_on_rank, 2, "bucketed", threads=1, timeout=20):
        assert len(found["said"]) == 2
        assert all(
            "appeared twice in one step" in said and "no_sync()" in said and "zero_grad()" in said
            for said in found["said"]
        )
        assert found["local"] == [1.0] * 5
        assert found["accumulated"] == [4.0] * 5
        assert found["enabled after an error"]


def slow_link_on_rank(config: TrainConfig, bytes_per_second: float) -> dict:
    import time

    import torch

    from lab_utils.parallel.mesh import Mesh
    from lab_utils.parallel.slow_link import SlowLink

    mesh = Mesh(config.parallel)
    link = SlowLink(mesh["dp"], bytes_per_second)
    tensors = [torch.full((25_000,), float(mesh.rank + 1)) for _ in range(2)]
    began = time.perf_counter()
    pending = [link.all_reduce(x, purpose="gradient") for x in tensors]
    issued = time.perf_counter() - began
    time.sleep(0.15)
    for p in pending:
        p.wait()
    return {
        "issued": issued,
        "seconds": time.perf_counter() - began,
        "sums": [x.unique().tolist() for x in tensors],
        "exposed": mesh.ledger.exposed_seconds(),
        "hidden": mesh.ledger.hidden_seconds(),
    }


def test_a_slow_link_carries_one_message_after_the_other():
    """2 × 100 kB at 2 ranks, 1 MB/s: 0.2 s, in which the rank is free to do something else."""
    for seen in launch(slow_link_on_rank, 2, TrainConfig.of("tiny", dp=2), 1e6, threads=1):
        assert seen["sums"] == [[3.0], [3.0]]
        assert seen["seconds"] >= 0.2
        on_time(seen["issued"] < 0.1, f"{seen['issued']:.2f} s to hand two messages over, of 0.1 s")
        on_time(seen["seconds"] < 0.8, f"{seen['seconds']:.2f} s for 0.2 s of messages, of 0.8 s")
        assert 0.15 <= seen["hidden"] + seen["exposed"] <= seen["seconds"] + 1e-3
        assert seen["hidden"] > 0.1  # the first message, and half of the second
        assert seen["exposed"] > 0.005


@pytest.mark.parametrize(
    "way",
    [
        lambda model, axis: NaiveSync(model, axis),
        lambda model, axis: BucketedSync(model, axis, 2**20),
    ],
)
def test_nobody_but_its_user_keeps_it_alive(way):
    """Hooks on parameters hold on to what they call: a model, its axis and the process group would
    live for ever."""
    model = GPT(TrainConfig.of("tiny", layers=1).model)
    sync = way(model, Axis("dp", [0], 0, None, Ledger()))
    gone = weakref.ref(sync)
    del sync
    gc.collect()
    assert gone() is None
    # its hooks have nobody to call
    model(torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int64))[0].backward()
