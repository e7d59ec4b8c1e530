"""What torch's CUDA kernels save and need, one at a time, and what its optimizers need for a
moment; on tensors without memory (see cuda_saved_bytes.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from lab_utils.measure.live import LiveStorages
from lab_utils.measure.memory import SavedActivations
from lab_utils.model import rotate

# sequences, tokens (32 or more times it), heads, key/value heads, head size, MLP, words
B, S, A, K, D, FFN, V = 2, 32, 4, 2, 8, 80, 100
H = A * D


def kernels() -> list[dict[str, Any]]:
    """For every kernel and width: the node that autograd makes; the tensors that it saves (weights
    apart); the operators that its backward pass calls, and the most bytes that are alive meanwhile
    beyond those before."""
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


def _masked(x: Tensor) -> Tensor:
    future = torch.ones(S, S, dtype=torch.bool, device="cuda").triu(1)
    return x.masked_fill(future, float("-inf"))


KERNELS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "linear": (lambda x, w: F.linear(x, w), ((B, S, H), (FFN, H))),
    "linear with bias": (lambda x, w, b: F.linear(x, w, b), ((B, S, H), (FFN, H), (FFN,))),
    "add": (lambda x, y: x + y, ((B, S, H), (B, S, H))),
    "multiply": (lambda x, y: x * y, ((B, S, H), (B, S, H))),
    "gelu": (lambda x: F.gelu(x), ((B, S, H),)),
    "silu": (lambda x: F.silu(x), ((B, S, H),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (H,), w, b), ((B, S, H), (H,), (H,))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (H,), w, 1e-5), ((B, S, H), (H,))),
    "rotary positions": (rotate, ((B, A, S, D),)),
    "repeated heads": (lambda x: x.repeat_interleave(A // K, dim=1), ((B, K, S, D),)),
    "product of heads": (lambda q, k: q @ k.transpose(-2, -1), ((B, A, S, D), (B, A, S, D))),
    "mask": (_masked, ((B, A, S, S),)),
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
# these ask, or look at the same memory in another way
_NO_WORK = (
    *("device", "view", "_unsafe_view", "t", "transpose", "detach", "expand"),
    *("slice", "squeeze", "empty_like"),
)


class _Operators(TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = function.name().split("::")[-1].split(".")[0]
        if name not in _NO_WORK:
            self.names.append(name)
        return function(*args, **(kwargs or {}))


def _kernel(name: str, made: tuple[Callable[..., Any], Any], dtype: torch.dtype) -> Any:
    from fake_autograd import Box

    run, shapes = made
    inputs = [
        torch.empty(shape, dtype=dtype, device="cuda", requires_grad=True) for shape in shapes
    ]
    weights = {id(x) for x in inputs if x.dim() < 3 and name != "cross_entropy"}
    seen: dict[int, Tensor] = {}

    def pack(x: Tensor) -> Box:
        if not any(_same(x, y) for y in inputs if id(y) in weights):
            seen.setdefault(x.untyped_storage()._cdata, x)
        return Box(x)

    with torch.autograd.graph.saved_tensors_hooks(pack, Box.open):
        y = run(*inputs)
    if y is None:
        return None
    saved = {
        "kernel": name,
        "width": dtype.itemsize,
        "node": y.grad_fn.name(),
        "saved": [[str(x.dtype).removeprefix("torch."), *x.shape] for x in seen.values()],
        "bytes": sum(x.untyped_storage().nbytes() for x in seen.values()),
    }
    return saved | _backward(y, inputs, list(seen.values()), seen.clear)


def _backward(
    y: Tensor, inputs: list[Tensor], saved: list[Tensor], forget: Callable[[], None]
) -> dict[str, Any]:
    """Call the backward operators: autograd's nodes do, one after the other."""
    from fake_autograd import backward

    gradient = torch.empty_like(y)
    live = LiveStorages(dict, SavedActivations(nn.Module()), [*inputs, y, gradient, *saved])
    saved.clear()
    forget()
    before, operators = live.now, _Operators()
    with live, operators:
        backward(y, gradient)
    return {"backward": operators.names, "highest": live.peak - before}


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
