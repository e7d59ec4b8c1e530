"""Writes cuda_saved_bytes.json: what torch's CUDA kernels save and need, kernel by kernel, and for
whole steps of random configurations; no GPU needed, nothing is computed. About 2 minutes.

The project's own environment has torch for the CPU, so this runs in one of its own, which may be
deleted afterwards (4.7 GB):

    python -m venv V && V/bin/pip install 'torch===2.13.0' numpy cloudpickle psutil
    PYTHONPATH=. V/bin/python tests/measured/cuda_saved_bytes.py

tests/estimate/test_cuda_kernels.py holds the estimator against the file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from lab_utils import TrainConfig
from lab_utils.config import divisors

HERE = Path(__file__).parent
FILE = HERE / "cuda_saved_bytes.json"
# of the kernels: sequences, tokens (32 or more times it), heads, key/value heads, head size, MLP,
# words
B, S, A, K, D, FFN, V = 2, 32, 4, 2, 8, 80, 100
H = A * D
MODELS = ("gpt2", "llama3-8b")  # whole, one sequence of full length


def draws(count: int) -> list[dict[str, Any]]:
    """Flags of random steps of one GPU: every norm, activation, position, precision, recomputation
    …"""
    rng = random.Random(2013)
    return [_draw(rng) for _ in range(count)]


def _draw(rng: random.Random) -> dict[str, Any]:
    heads, layers = rng.choice([1, 2, 4, 6]), rng.choice([1, 2, 3, 5])
    return dict(
        layers=layers,
        heads=heads,
        hidden=heads * rng.choice([8, 16]),
        head_dim=rng.choice([8, 16]),
        kv_heads=rng.choice(divisors(heads)),
        ffn=rng.choice([20, 80]),
        vocab=rng.choice([256, 300]),
        seq=rng.choice([32, 64]),
        norm=rng.choice(["layernorm", "rmsnorm"]),
        activation=rng.choice(["gelu", "swiglu"]),
        positions=rng.choice(["learned", "rope"]),
        attention=rng.choice(["sdpa", "sdpa", "explicit"]),
        bias=rng.random() < 0.5,
        tied=rng.random() < 0.5,
        global_batch=4,
        micro_batch=rng.choice([1, 2, 4]),
        precision=rng.choice(["fp32", "bf16", "bf16", "bf16-pure"]),
        recompute=rng.choice(["none", "none", "selective", "full", "0", str(layers - 1)]),
        clip=rng.choice([0.0, 1.0]),
    )


# -- one kernel at a time --------------------------------------------------------------------------


def kernels() -> list[dict[str, Any]]:
    """For every kernel and width: the node that autograd makes, the tensors that it saves (weights
    apart), and the bytes of the gradients that its backward returns."""
    return [
        row
        for dtype in (torch.float32, torch.bfloat16)
        for name, made in KERNELS.items()
        if (row := _kernel(name, made, dtype)) is not None
    ]


def _heads(x: Tensor, count: int) -> Tensor:
    return x.view(B, S, count, -1).transpose(1, 2)


def _flash(q: Tensor, k: Tensor) -> Any:
    if q.dtype == torch.float32:
        return None
    q, k = _heads(q, A), _heads(k, K)
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, k, 0.0, True)[0]


def _efficient(q: Tensor) -> Any:
    if q.dtype != torch.float32:
        return None
    q = _heads(q, A)
    return torch.ops.aten._scaled_dot_product_efficient_attention(q, q, q, None, True, 0.0, True)[0]


def _targets() -> Tensor:
    return torch.empty(B * S, dtype=torch.int64, device="cuda")


KERNELS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "linear": (lambda x, w: F.linear(x, w), ((B, S, H), (FFN, H))),
    "linear with bias": (lambda x, w, b: F.linear(x, w, b), ((B, S, H), (FFN, H), (FFN,))),
    "add": (lambda x, y: x + y, ((B, S, H), (B, S, H))),
    "multiply": (lambda x, y: x * y, ((B, S, H), (B, S, H))),
    "gelu": (lambda x: F.gelu(x), ((B, S, H),)),
    "silu": (lambda x: F.silu(x), ((B, S, H),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (H,), w, b), ((B, S, H), (H,), (H,))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (H,), w, 1e-5), ((B, S, H), (H,))),
    "softmax": (lambda x: x.softmax(-1), ((B, A, S, S),)),
    "dropout": (lambda x: F.dropout(x, 0.1), ((B, S, H),)),
    "embedding": (lambda w: F.embedding(_targets(), w), ((V, H),)),
    "cross_entropy": (
        lambda x: F.cross_entropy(x.float(), _targets(), reduction="sum"),
        ((B * S, V),),
    ),
    "flash attention, shared keys": (_flash, ((B, S, H), (B, S, K * D))),
    "memory-efficient attention": (_efficient, ((B, S, H),)),
}


def _kernel(name: str, made: tuple[Callable[..., Any], Any], dtype: torch.dtype) -> Any:
    run, shapes = made
    inputs = [
        torch.empty(shape, dtype=dtype, device="cuda", requires_grad=True) for shape in shapes
    ]
    weights = {id(x) for x in inputs if x.dim() < 3 and name != "cross_entropy"}
    seen: dict[int, Tensor] = {}

    def pack(x: Tensor) -> Tensor:
        if not any(_same(x, y) for y in inputs if id(y) in weights):
            seen.setdefault(x.untyped_storage()._cdata, x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y = run(*inputs)
    if y is None:
        return None
    return {
        "kernel": name,
        "width": dtype.itemsize,
        "node": y.grad_fn.name(),
        "saved": [[str(x.dtype).removeprefix("torch."), *x.shape] for x in seen.values()],
        "bytes": sum(x.untyped_storage().nbytes() for x in seen.values()),
    }


def _same(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage()._cdata == y.untyped_storage()._cdata


# -- optimizers ------------------------------------------------------------------------------------

SHAPES = ((300, 70), (64,), (128, 128))
MAKERS = {
    "sgd": lambda p, **way: torch.optim.SGD(p, lr=0.1, momentum=0.9, **way),
    "adamw": lambda p, **way: torch.optim.AdamW(p, lr=0.1, **way),
}
WAYS = {"fused": {"fused": True}, "foreach": {"foreach": True}, "for-loop": {"foreach": False}}


def optimizers(device: str) -> dict[str, dict[str, int]]:
    """The most bytes alive in a second step beyond what was alive before, by optimizer and way."""
    return {
        kind: {
            way: _rise(make, flags, device)
            for way, flags in WAYS.items()
            if (kind, way) != ("sgd", "fused")  # torch cannot run it without memory
        }
        for kind, make in MAKERS.items()
    }


def _rise(make: Callable[..., torch.optim.Optimizer], way: dict[str, bool], device: str) -> int:
    from lab_utils.measure.live import LiveStorages
    from lab_utils.measure.memory import SavedActivations

    weights = [nn.Parameter(torch.empty(shape, device=device)) for shape in SHAPES]
    for weight in weights:
        weight.grad = torch.empty_like(weight)
    optimizer = make(weights, **way)
    optimizer.step()
    states = [x for state in optimizer.state.values() for x in state.values()]
    there = [*weights, *(weight.grad for weight in weights), *states]
    there = [x for x in there if isinstance(x, Tensor)]
    live = LiveStorages(dict, SavedActivations(nn.Module()), there)
    before = live.now
    with live:
        optimizer.step()
    return live.peak - before


def steps() -> list[dict[str, Any]]:
    """Whole steps: random ones of tiny models, and two models of full size."""
    sys.path.insert(0, str(HERE))
    from fake_cuda import cuda_step

    wanted = [("tiny", flags) for flags in draws(64)]
    wanted += [
        (preset, {"global_batch": 1, "precision": precision})
        for preset in MODELS
        for precision in ("bf16-pure", "bf16")
    ]
    found = []
    for preset, flags in wanted:
        memory = cuda_step(TrainConfig.of(preset, steps=2, **flags))
        found.append({"preset": preset, "flags": flags, "memory": memory})
    return found


def main() -> int:
    """Write the file."""
    with FakeTensorMode():
        record = {
            "torch": torch.__version__,
            "date": date.today().isoformat(),
            "made_by": "tests/measured/cuda_saved_bytes.py, on CUDA tensors without memory",
            "kernels": kernels(),
            "optimizers": optimizers("cuda"),
        }
    FILE.write_text(json.dumps(record | {"steps": steps()}) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
