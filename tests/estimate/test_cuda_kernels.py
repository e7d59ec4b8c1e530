"""The `cuda` convention against what torch's CUDA build does on tensors without memory
(tests/measured/cuda_saved_bytes.json): kernel by kernel, op by op, and whole steps to the byte."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab_utils import TrainConfig, estimate
from lab_utils.estimate.hardware import HARDWARE
from lab_utils.estimate.memory.exact.lifetimes import Step
from lab_utils.estimate.memory.optimizers import update_temporary_bytes
from lab_utils.estimate.memory.terms import memory_of_rank
from lab_utils.estimate.ops import ledger_parts
from lab_utils.estimate.program.attention import fused_attention, masked, products, repeat, softmax
from lab_utils.estimate.program.conventions import CUDA
from lab_utils.estimate.program.heads import Heads, rotate
from lab_utils.estimate.program.kernels import Torch
from lab_utils.estimate.program.live import Storage, Value
from lab_utils.estimate.program.norms import layer_norm, rms_norm
from lab_utils.estimate.program.tape import Leaf
from lab_utils.layout.parameters import parameter_count

MEASURED = Path(__file__).parents[1] / "measured"
sys.path.insert(0, str(MEASURED))
import cuda_kernels as recorder  # noqa: E402
from cuda_saved_bytes import whole  # noqa: E402

RECORD = json.loads((MEASURED / "cuda_saved_bytes.json").read_text())
TERMS = RECORD["terms"]
B, S, A, K, D, H = (getattr(recorder, name) for name in ["B", "S", "A", "K", "D", "H"])


class Recorded(NamedTuple):
    """A step of one rank of `config`. `saved`: bytes that the forward pass saves, by module."""

    config: TrainConfig
    tp_rank: int
    memory: dict[str, int]
    at_peak: dict[str, int]
    saved: dict[str, list[int]] | None


STEPS = [
    Recorded(
        TrainConfig.of(step["preset"], steps=2, **step["flags"]),
        step["tp_rank"],
        dict(zip(TERMS, step["memory"], strict=True)),
        step["at_peak"],
        step.get("by_module"),
    )
    for step in whole(RECORD["steps"])
]


# -- kernel by kernel ------------------------------------------------------------------------------


class _Bench:
    """One kernel of ours: what its inputs are, and what it saves."""

    def __init__(self, width: int) -> None:
        self.torch, self.width = Torch(CUDA), width

    def input(self, *shape: int, term: str = "temporary") -> Value:
        numel = 1
        for size in shape:
            numel *= size
        value = Value(Storage(self.torch, numel * self.width, term), numel, self.width)
        Leaf(value, shape)
        return value

    def weight(self, *shape: int) -> Value:
        return self.input(*shape, term="parameters")

    def indices(self) -> Value:
        return Value(Storage(self.torch, B * S * 8), B * S, 8)

    def heads(self, count: int = A) -> Value:
        return self.input(B, count, S, D)

    def mask(self) -> Value:
        return Value(Storage(self.torch, S * S), S * S, 1)

    def product(self) -> Value:
        """The gradient of k comes transposed, and is copied where it ends."""
        q, k = self.heads(), self.heads()
        k.node.relayout = lambda gradient: bool(gradient.layout)
        return products(self.torch, q, k, Heads(B, A, S, D))

    def attention(self, groups: int) -> Value:
        q, k = self.input(B, S, H), self.input(B, S, groups * D)
        v = k if groups != A else q
        heads, shared = Heads(B, A, S, D), Heads(B, groups, S, D)
        q.layout = k.layout = "bsad"
        return fused_attention(self.torch, q, q if groups == A else k, v, heads, shared)


F, V = recorder.FFN, recorder.V
OURS: dict[str, Callable[[_Bench], Value]] = {
    "linear": lambda b: b.torch.linear(b.input(B, S, H), b.weight(F, H), None, F, H),
    "linear with bias": lambda b: b.torch.linear(
        b.input(B, S, H), b.weight(F, H), b.weight(F), F, H
    ),
    "add": lambda b: b.torch.add(b.input(B, S, H), b.input(B, S, H)),
    "multiply": lambda b: b.torch.multiply(b.input(B, S, H), b.input(B, S, H)),
    "gelu": lambda b: b.torch.activation(b.input(B, S, H)),
    "silu": lambda b: b.torch.activation(b.input(B, S, H)),
    "layer_norm": lambda b: layer_norm(b.torch, b.input(B, S, H), b.weight(H), b.weight(H)),
    "rms_norm": lambda b: rms_norm(b.torch, b.input(B, S, H), b.weight(H)),
    "rotary positions": lambda b: rotate(b.torch, b.heads(), Heads(B, A, S, D)),
    "repeated heads": lambda b: repeat(b.torch, b.heads(K), Heads(B, K, S, D), A // K),
    "product of heads": lambda b: b.product(),
    "mask": lambda b: masked(b.torch, b.input(B, A, S, S), b.mask()),
    "softmax": lambda b: softmax(b.torch, b.input(B, A, S, S)),
    "embedding": lambda b: b.torch.embedding(b.weight(V, H), b.indices(), B * S, H),
    "cross_entropy": lambda b: b.torch.cross_entropy(b.input(B * S, V), b.indices()),
    "flash attention, shared keys": lambda b: b.attention(K),
    "memory-efficient attention": lambda b: b.attention(A),
}


@pytest.mark.parametrize(
    "row", RECORD["kernels"], ids=lambda row: f"{row['kernel']}, {8 * row['width']} bits"
)
def test_every_kernel_saves_and_needs_what_cudas_does(row):
    if row["kernel"] == "dropout":  # our model has none; Megatron's program has
        assert row["saved"] == [["bool", B, S, H]]
        return
    bench = _Bench(row["width"])
    torch, result = bench.torch, OURS[row["kernel"]](bench)
    assert result.node is not None
    assert torch.saved == row["bytes"], row["saved"]
    gradient = torch.new(result.numel, result.width)
    before = torch.live
    torch.begin_peaks()
    torch.go_back([(result.node, result.slot, gradient)])
    assert torch.peak - before == row["highest"], row["backward"]


def test_norms_are_one_kernel_each_on_cuda():
    nodes = {row["kernel"]: row["node"] for row in RECORD["kernels"]}
    assert nodes["rms_norm"] == "FusedRmsNormBackward0"
    assert nodes["layer_norm"] == "NativeLayerNormBackward0"


# -- op by op and whole steps ----------------------------------------------------------------------


def test_the_draw_covers_what_it_has_to():
    drawn = [step.config for step in STEPS]
    assert len({(step.config, step.tp_rank) for step in STEPS}) >= 300
    for name in ("attention", "norm", "activation", "positions", "tied", "bias"):
        assert min(Counter(getattr(c.model, name) for c in drawn).values()) >= 60, name
    for name, least in (("precision", 60), ("clip", 80), ("micro_batches", 60)):
        assert min(Counter(getattr(c, name) for c in drawn).values()) >= least, name
    assert min(Counter(c.parallel.tp for c in drawn).values()) >= 20
    assert sum(c.parallel.sequence_parallel for c in drawn) >= 40
    assert min(Counter(c.parallel.zero for c in drawn if c.parallel.dp > 1).values()) >= 4
    for tp in (False, True):
        some = [c for c in drawn if (c.parallel.tp > 1) == tp]
        assert {"none", "selective", "full", "0"} <= {c.recompute for c in some}
        shared = [
            c for c in some if c.model.kv_heads < c.model.heads and c.model.attention == "sdpa"
        ]
        assert {c.precision for c in shared} == {"fp32", "bf16", "bf16-pure"}


def test_every_byte_of_a_step_on_cuda():
    """States, saved bytes, copies, the peak, and of what it consists; gradients on their way back
    included."""
    other = []
    for step in STEPS:
        expected = memory_of_rank(step.config, 0, step.tp_rank, convention="cuda")
        assert step.memory == {t: expected[t] for t in TERMS}, step
        assert sum(expected["at_peak"].values()) == expected["peak"]
        other += [step] if step.at_peak != expected["at_peak"] else []
    assert len(other) <= 2, other  # two moments may be equally high


# which module runs an op that is none itself
IN_MODULE = {"rotate": 1, "activation": 1, "residual": 1}
# cut over tp, the layers that read the same run as one, outside their own modules
TOGETHER = {"query": 1, "key": 1, "value": 1, "gate": 1, "up": 1}


def _module(op: str, shared_out: bool) -> str:
    if op == "loss":
        return ""
    parts = op.split(".")
    levels = IN_MODULE | TOGETHER if shared_out else IN_MODULE
    return ".".join(parts[: -levels.get(parts[-1], 0) or None])


def test_op_by_op():
    """Without recomputation, whose forward pass saves nothing inside; of one micro-batch. The ends
    of a single row apart: its tokens and targets are one storage."""
    checked: Counter[bool] = Counter()
    for step in STEPS:
        if step.saved is None:
            continue
        found: dict[str, list[int]] = {}
        shared_out = step.config.parallel.tp > 1
        for part, ops in ledger_parts(step.config, 0, step.tp_rank, convention="cuda"):
            by_module: Counter[str] = Counter()
            for op in ops:
                by_module[_module(op.name, shared_out).replace(f"{part}.", "*.")] += op.saved_bytes
            for name, nbytes in by_module.items():
                found.setdefault(name, []).append(nbytes)
        alone = step.config.micro_batch == 1
        assert _named(found, alone) == _named(step.saved, alone), step
        checked[shared_out] += 1
    assert min(checked.values()) >= 20


def _named(found: dict[str, list[int]], blocks_only: bool) -> dict[str, set[int]]:
    return {
        name: set(nbytes)
        for name, nbytes in found.items()
        if any(nbytes) and (name.startswith("*") or not blocks_only)
    }


# -- optimizers and labels -------------------------------------------------------------------------


def test_what_an_update_needs_for_a_moment():
    """As fake CUDA tensors and real ones on this CPU say: one kernel needs nothing, foreach the
    parameters once more, a loop twice the largest."""
    here: dict[str, Any] = recorder.optimizers("cpu")
    shapes = [(shape, 1) for shape in recorder.SHAPES]
    for kind, ways in RECORD["optimizers"].items():
        expected = {way: update_temporary_bytes(kind, way, shapes) for way in ways}
        assert expected == pytest.approx(ways, abs=64), kind
        assert expected == pytest.approx(here[kind], abs=64), kind
    whole = 4 * sum(rows * columns for rows, columns in ((300, 70), (64, 1), (128, 128)))
    assert update_temporary_bytes("adamw", "foreach", shapes) == whole


def test_a_gpus_figures_are_by_cudas_kernels_and_say_so():
    config = TrainConfig.of("llama3-8b", global_batch=1, precision="bf16-pure")
    here, there = estimate(config), estimate(config, HARDWARE["H100-SXM"])
    assert there.ranks[0].memory["activations"] < 0.8 * here.ranks[0].memory["activations"]
    assert there.ranks[0].memory == memory_of_rank(config, convention="cuda")
    assert "not measured on a GPU" in there.basis
    assert "CPU" in here.basis
    assert all(cluster.kernels == "cuda" for cluster in HARDWARE.values())


def test_where_llama_3_8b_ends_on_80_gb():
    """Lesson 03's first lines: the first step of a run without moments or gradients yet; what asks
    for memory when 80 GB are full."""
    job = TrainConfig.of("llama3-8b", global_batch=1, precision="bf16-pure")
    masters = 4 * parameter_count(job.model)
    step = Step(job, 0, 0, masters, "cuda")
    grow, refused = step.torch.grow, []

    def watched(term: str, nbytes: int) -> None:
        grow(term, nbytes)
        if not refused and step.torch.live - step.torch.terms["gradients"] > 80e9:
            refused.append((step.torch.scope, step.torch.phase, nbytes))

    step.torch.grow = watched
    step.run()
    ((scope, phase, nbytes),) = refused
    assert (scope, phase, nbytes) == ("blocks.21.mlp.activation", "forward", 224 * 2**20)
