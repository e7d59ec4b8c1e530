"""Any nn.Module, not our GPT alone: several ranks train it as one process does."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from as_alone import STEPS, assert_as_alone, optimizer_of, share, weights
from models import LANGUAGE, MODELS, batches, loss_of, made
from pairs import EXHAUSTIVE
from torch import Tensor, nn

from lab_utils import ParallelConfig, launch
from lab_utils.course.build_words import shape
from lab_utils.measure.memory import storage_bytes
from lab_utils.parallel.data_parallel import data_parallel
from lab_utils.parallel.held import held_tensors
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.shard import shard

REPOSITORY = Path(__file__).resolve().parents[2]


def replicas(
    names: list[str], ranks: int, gradient_sync: str, micro_batches: int
) -> dict[str, dict[str, Tensor]]:
    """On a rank: each model trained, from weights of this rank's own before the broadcast."""
    axis = Mesh(ParallelConfig(dp=ranks))["dp"]
    trained = {}
    for name in names:
        model = made(name, seed=axis.rank)
        sync = data_parallel(
            model, axis, gradient_sync=gradient_sync, bucket_bytes=600, average=True
        )
        optimizer = optimizer_of(model)
        for x, y in batches(model, STEPS):
            x, y = share(x, axis.rank, ranks), share(y, axis.rank, ranks)
            sync.zero_grad()
            *early, last = zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True)
            with sync.no_sync():
                for micro in early:
                    (loss_of(model, *micro) / micro_batches).backward()
            (loss_of(model, *last) / micro_batches).backward()
            sync.finish()
            optimizer.step()
        trained[name] = weights(model)
    return trained


@pytest.mark.parametrize(
    ("ranks", "gradient_sync", "micro_batches"),
    [(2, "bucketed", 2), (2, "naive", 1), (4, "bucketed", 1)],
)
def test_replicas_of_any_model_train_as_one_process(ranks, gradient_sync, micro_batches):
    names = [*MODELS, *LANGUAGE] if EXHAUSTIVE else [*MODELS]
    for trained in launch(replicas, ranks, names, ranks, gradient_sync, micro_batches, threads=1):
        assert_as_alone(trained, names)


def cut(names: list[str], ranks: int, stage: int) -> dict[str, dict[str, Tensor]]:
    """On a rank: each model trained with its states cut, from weights of this rank's own."""
    axis = Mesh(ParallelConfig(dp=ranks))["dp"]
    trained = {}
    for name in names:
        model = made(name, seed=axis.rank)
        zero = shard(model, axis, stage, average=True)
        optimizer = torch.optim.SGD(zero.shards, lr=0.1, momentum=0.9)
        for x, y in batches(model, STEPS):
            zero.zero_grad()
            loss_of(model, share(x, axis.rank, ranks), share(y, axis.rank, ranks)).backward()
            zero.finish()
            optimizer.step()
            zero.gather_parameters()
        with zero.whole():
            trained[name] = weights(model)
    return trained


@pytest.mark.parametrize(("ranks", "stage"), [(2, 1), (2, 2), (2, 3), (4, 3)])
def test_any_model_with_its_states_cut_trains_as_one_process(ranks, stage):
    names = [*MODELS, *LANGUAGE] if EXHAUSTIVE or (ranks, stage) == (2, 3) else [*MODELS]
    for trained in launch(cut, ranks, names, ranks, stage, threads=1):
        assert_as_alone(trained, names)


def held_and_sent(ranks: int, stage: int) -> tuple[dict[str, int], dict[str, int], int]:
    """On a rank: bytes of the encoder's storages between two steps, payload of the second step,
    and the model's bytes, padded for N."""
    mesh = Mesh(ParallelConfig(dp=ranks))
    axis, model = mesh["dp"], made("encoder", 0)
    zero = shard(model, axis, stage)
    optimizer = torch.optim.SGD(zero.shards, lr=0.1, momentum=0.9)
    for x, y in batches(model, 2):
        mesh.ledger.clear()
        zero.zero_grad()
        loss_of(model, x, y).backward()
        zero.finish()
        optimizer.step()
        zero.gather_parameters()
    sent: dict[str, int] = {}
    for call in mesh.ledger.calls:
        sent[call.purpose] = sent.get(call.purpose, 0) + call.bytes
    states = [state["momentum_buffer"] for state in optimizer.state.values()]
    held = held_tensors(zero) | {"optimizer": states}
    padded = sum(4 * unit.unit.numel for unit in zero.all_units)
    return {term: storage_bytes(tensors) for term, tensors in held.items()}, sent, padded


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_rank_holds_its_share_and_the_wire_carries_what_the_stage_says(ranks):
    """Stage 1: two halves of an all-reduce; stage 3: weights twice, gradients once."""
    for stage, gathers, parts in ((1, 1, (1, 1)), (2, 1, (1, ranks)), (3, 2, (ranks, ranks))):
        for held, sent, padded in launch(held_and_sent, ranks, ranks, stage, threads=1):
            assert sent == {"parameter": gathers * padded, "gradient": padded}
            assert held["parameters"] == padded // parts[0]
            assert held["gradients"] == padded // parts[1]
            assert held["optimizer"] == padded // ranks


def refused(ranks: int) -> list[str]:
    """On a rank: what is said to questions that cannot be answered."""
    axis, model = Mesh(ParallelConfig(dp=ranks))["dp"], nn.Linear(2, 2)
    said = []
    for stage, units in ((4, None), (3, [nn.Linear(2, 2)])):
        try:
            shard(model, axis, stage, units=units)
        except ValueError as error:
            said.append(str(error))
    return said


def test_what_cannot_be_cut_is_said():
    assert launch(refused, 2, 2, threads=1)[0] == [
        "ZeRO has stages 1, 2 and 3, not 4.",
        "Linear: a unit must be a submodule of the model that is cut.",
    ]


def frozen_all(ranks: int) -> bool:
    """On a rank: whether a model of which nothing is trained has rank 0's weights."""
    axis = Mesh(ParallelConfig(dp=ranks))["dp"]
    model = nn.Linear(4, 4).requires_grad_(False)
    nn.init.constant_(model.weight, float(axis.rank))
    data_parallel(model, axis).finish()
    return bool((model.weight == 0).all())


def test_a_model_without_gradients_is_only_made_equal():
    assert all(launch(frozen_all, 2, 2, threads=1))


def scripts(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / page).read_text("utf-8"), re.S)


ENGLISH, CHINESE = scripts("own_model.md"), scripts("own_model.zh.md")
# bytes of the scripts' model: four layers
MODEL = 4 * sum(p.nbytes for p in nn.TransformerEncoderLayer(64, 4, 128).parameters())
# of these, norms and biases added after a sum
WHOLE = 4 * 4 * (4 * 64 + 2 * 64)
SAID = {
    # gathered twice and summed once, each (N-1)/N of the whole; the rank keeps 1/N of it
    "zero": [MODEL / 2, 3 * MODEL / 2],
    # two regions a layer, there and back, but the data needs no gradient
    "tensor": [(MODEL + WHOLE) / 2, 4 * 4 - 1],
    # layers, and every row of 16 × 64 once
    "pipeline": [2, 8 * 16 * 64 * 4],
}


# one start of torchrun for all of them: each gets names of its own in torchrun's store
EVERY = """
import os, runpy, sys
import torch.distributed as dist

def begin_next(backend):
    host, port, rank, ranks = (
        os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"))
    store = dist.PrefixStore(script, dist.TCPStore(host, int(port), is_master=False))
    begin(backend, store=store, rank=int(rank), world_size=int(ranks))

begin, dist.init_process_group = dist.init_process_group, begin_next
for script in sys.argv[1:]:
    runpy.run_path(script)
"""


def test_the_page_about_a_model_of_your_own_runs(tmp_path):
    """Its scripts as they stand there, by torchrun; both languages run the same code."""
    assert len(ENGLISH) == len(CHINESE) == len(SAID)
    for name, english, chinese in zip(SAID, ENGLISH, CHINESE, strict=True):
        assert shape(ast.parse(english)) == shape(ast.parse(chinese))
        (tmp_path / f"{name}.py").write_text(english, encoding="utf-8")
    (tmp_path / "every.py").write_text(EVERY, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", "every.py", *(f"{name}.py" for name in SAID)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for (name, right), line in zip(SAID.items(), done.stdout.splitlines(), strict=True):
        loss, *numbers = (float(n.replace(",", "")) for n in re.findall(r"[\d,.]*\d", line))
        assert 0 < loss < 10, name
        assert numbers == right, name
