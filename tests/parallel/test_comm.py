"""Collectives by value, and what they leave in the ledger, on 1 to 4 real ranks."""

from __future__ import annotations

import pytest

from lab_utils import ParallelConfig, launch
from lab_utils.layout.wire import wire_bytes

ELEMENTS = 24  # divisible by 2, 3 and 4


def values_on_rank() -> dict:
    """Every collective once; returns whether each gave what it should, and the ledger."""
    import os

    import torch

    from lab_utils.parallel.mesh import Mesh

    n, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    mesh = Mesh(ParallelConfig(dp=n))
    axis = mesh["dp"]

    def own(r: int) -> torch.Tensor:  # float64 integers: sums are exact in any order
        return torch.randint(
            -1000, 1000, (ELEMENTS,), generator=torch.Generator().manual_seed(r)
        ).double()

    everyone, right = torch.stack([own(r) for r in range(n)]), {}

    summed = own(rank)
    axis.all_reduce(summed, purpose="gradient", label="sum").wait()
    right["sum"] = torch.equal(summed, everyone.sum(0))
    largest = own(rank)
    axis.all_reduce(largest, purpose="control", reduction="max").wait()
    right["max"] = torch.equal(largest, everyone.amax(0))
    for source in {0, n - 1}:
        sent = own(rank)
        axis.broadcast(sent, source, purpose="parameter").wait()
        right[f"broadcast from {source}"] = torch.equal(sent, everyone[source])
    whole = torch.full((ELEMENTS,), torch.nan, dtype=torch.float64)
    part = slice(rank * ELEMENTS // n, (rank + 1) * ELEMENTS // n)
    whole[part] = own(rank)[part]
    axis.all_gather(whole, purpose="parameter").wait()
    right["all_gather"] = torch.equal(whole, torch.cat([everyone[r].chunk(n)[r] for r in range(n)]))
    scattered = own(rank).view(4, 6)  # any shape that lies in one piece
    mine, arriving = axis.reduce_scatter(scattered, purpose="gradient")
    arriving.wait()
    right["reduce_scatter"] = (
        torch.equal(mine.flatten(), everyone.sum(0)[part])
        and mine.untyped_storage().data_ptr() == scattered.untyped_storage().data_ptr()
    )
    ringed = own(rank)
    axis.ring_all_reduce(ringed, purpose="gradient").wait()
    right["ring_all_reduce"] = torch.equal(ringed, everyone.sum(0))
    received = torch.empty(ELEMENTS, dtype=torch.float64)
    axis.exchange(own(rank), (rank + 1) % n, received, (rank - 1) % n, purpose="activation")
    right["exchange"] = torch.equal(received, everyone[rank - 1])
    twice = axis.all_reduce(torch.ones(1), purpose="control")
    twice.wait()
    twice.wait()
    refusals = []
    for op in ("all_gather", "reduce_scatter", "ring_all_reduce"):
        try:
            getattr(axis, op)(torch.zeros(12 * n + 1), purpose="gradient")
            refusals.append("nothing")
        except ValueError as error:
            refusals.append(str(error))
    calls = [(c.op, c.axis, c.purpose, c.bytes, c.wire_bytes, c.label) for c in mesh.ledger.calls]
    ordered = all(
        c.issued <= c.wait_began <= c.wait_ended and c.issued <= c.finished <= c.wait_ended + 1e-3
        for c in mesh.ledger.calls
    )
    return {
        "right": right,
        "calls": calls,
        "ordered": ordered,
        "refusals": refusals,
        "coords": mesh.coords,
    }


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_collectives(n):
    payload = 8 * ELEMENTS
    for rank, result in enumerate(launch(values_on_rank, n, threads=1)):
        assert all(result["right"].values()), result["right"]
        assert result["coords"] == {"dp": rank, "pp": 0, "cp": 0, "tp": 0}
        if n == 1:  # the identity, and nothing in the ledger
            assert result["calls"] == []
            assert result["refusals"] == ["nothing"] * 3
            continue
        expected = [
            ("all_reduce", "gradient", payload),
            ("all_reduce", "control", payload),
            ("broadcast", "parameter", payload),
            ("broadcast", "parameter", payload),
            ("all_gather", "parameter", payload),
            ("reduce_scatter", "gradient", payload),
            ("all_reduce", "gradient", payload),
            ("send", "activation", payload),
            ("all_reduce", "control", 4),
        ]
        assert [(op, axis, purpose, size) for op, axis, purpose, size, _, _ in result["calls"]] == [
            (op, "dp", p, b) for op, p, b in expected
        ]
        assert [wire for *_, wire, _ in result["calls"]] == [
            wire_bytes(op, size, n) for op, _, size in expected
        ]
        assert result["calls"][0][-1] == "sum"
        assert result["ordered"]
        assert (
            result["refusals"]
            == [f"{12 * n + 1} elements cannot be cut into {n} equal parts: pad to {13 * n}."] * 3
        )


def uneven_on_rank() -> list[str]:
    """A size that N does not divide is refused before anything is sent, in the reader's
    language."""
    import torch

    from lab_utils.parallel.mesh import Mesh

    mesh, said = Mesh(ParallelConfig(dp=3)), []
    try:
        mesh["dp"].reduce_scatter(torch.zeros(10), purpose="gradient")
    except ValueError as error:
        said.append(str(error))
    return [*said, str(len(mesh.ledger.calls))]


def test_refusals_speak_chinese(monkeypatch):
    monkeypatch.setattr("lab_utils.i18n._chosen", "zh")
    assert (
        launch(uneven_on_rank, 3, threads=1)
        == [["10 个元素无法等分成 3 份：请补齐到 12 个。", "0"]] * 3
    )


def mesh_on_rank() -> dict:
    from lab_utils.parallel.mesh import Mesh

    mesh = Mesh(ParallelConfig(dp=2, tp=2))
    return {"coords": mesh.coords, "ranks": {name: mesh[name].ranks for name in ("dp", "pp", "tp")}}


def test_tp_is_the_innermost_axis():
    results = launch(mesh_on_rank, 4, threads=1)
    assert [(r["coords"]["dp"], r["coords"]["tp"]) for r in results] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert results[1]["ranks"] == {"dp": [1, 3], "pp": [1], "tp": [0, 1]}
