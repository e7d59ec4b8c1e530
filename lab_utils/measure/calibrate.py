"""What this machine does per second, measured in small pieces: products, attention, element-wise
kernels, messages. No GPT step.

With N ranks at once, as they will run: ranks share memory and cores, so each number is taken for
every N. The result is what `estimate.hardware.calibration` makes a Cluster of.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import ParallelConfig
from ..estimate.hardware.calibration import save_calibration
from ..launch import launch
from ..machine import cores as machine_cores
from ..parallel.comm import Axis
from ..parallel.mesh import Mesh

PRODUCTS = (
    (64, 64, 64),
    (256, 64, 64),
    (1024, 64, 64),
    (1024, 64, 256),
    (1024, 256, 64),
    (1024, 256, 256),
    (1024, 256, 1024),
    (2048, 512, 512),
    (512, 1024, 1024),
)
MESSAGES = (64, 4096, 65536, 524288, 4194304)  # bytes
FRESH = (1, 4, 16, 40, 80)  # MiB of a result that is allocated anew
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def calibrate(
    ranks: tuple[int, ...] = (1, 2, 4), cores: int = 2, rounds: int = 2, timeout: float = 120.0
) -> dict[str, Any]:
    """{"1": {"products": …, "kernels": …, "collectives": …}, "2": …}: per number of ranks, each
    with cores ÷ ranks threads (at least 1).

    Each number is the median of many calls, and the mean over `rounds`: what a step takes as a
    rule, not at its best.
    """
    found: dict[str, list[Any]] = {}
    for _ in range(rounds):
        for n in ranks:
            table = launch(_on_rank, n, timeout=timeout, threads=max(1, cores // n))[0]
            found.setdefault(str(n), []).append(table)
    return {n: _mean(tables) for n, tables in found.items()}


def _mean(tables: list[Any]) -> Any:
    """Several calibrations of the same things, number by number."""
    first = tables[0]
    if isinstance(first, dict):
        return {name: _mean([table[name] for table in tables]) for name in first}
    if isinstance(first, list):
        return [_mean(list(entries)) for entries in zip(*tables, strict=True)]
    return first if isinstance(first, int) else sum(tables) / len(tables)


def _on_rank() -> dict[str, Any]:
    mesh = Mesh(ParallelConfig(dp=torch.distributed.get_world_size()))
    clock = _Clock(mesh["dp"])
    products = {
        name: [[*shape, clock.seconds(_products(dtype, *shape)) / 3] for shape in PRODUCTS]
        for name, dtype in _DTYPES.items()
    }
    return {
        "ranks": mesh["dp"].size,
        "threads": torch.get_num_threads(),
        "products": products,
        "kernels": _kernels(clock),
        "collectives": {} if mesh["dp"].size == 1 else _collectives(mesh["dp"], mesh, clock),
    }


class _Clock:
    """Seconds of a call when every rank makes it at once: the median of several, the slowest
    rank's."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def seconds(self, call: Callable[[], Any], least: float = 0.03, most: int = 200) -> float:
        """`call` is made until `least` seconds are over (at most `most` times), after two to warm
        up."""
        for _ in range(2):
            call()
        began = time.perf_counter()
        call()
        times = self._agreed(min(most, max(8, int(least / max(1e-7, time.perf_counter() - began)))))
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
        return self._slowest(median(taken))

    def _agreed(self, times: int) -> int:
        """The same number of calls on every rank, or those that call collectives would wait for
        ever; also a barrier."""
        return int(self._slowest(float(times)))

    def _slowest(self, value: float) -> float:
        most = torch.tensor([value], dtype=torch.float64)
        self.axis.all_reduce(most, purpose="control", reduction="max").wait()
        self.axis.ledger.clear()
        return most.item()


def _products(dtype: torch.dtype, m: int, k: int, n: int) -> Callable[[], None]:
    """A linear layer's three products: (m, k) by the transpose of (n, k), and the gradients of
    both."""
    x, weight = (torch.randn(*shape).to(dtype).requires_grad_() for shape in ((m, k), (n, k)))
    gradient = torch.randn(m, n).to(dtype)

    def call() -> None:
        x.grad = weight.grad = None
        F.linear(x, weight).backward(gradient)

    return call


def _kernels(clock: _Clock) -> dict[str, Any]:
    """Bytes per second of element-wise kernels, forward and backward together, and what every call
    costs beside its work (seconds)."""
    x = torch.randn(1024, 256, requires_grad=True)  # 1 MiB
    gain, shift = torch.ones(256, requires_grad=True), torch.zeros(256, requires_grad=True)
    targets, table, tokens = (
        torch.randint(256, (1024,)),
        torch.randn(256, 256, requires_grad=True),
        torch.randint(256, (1024,)),
    )
    large = torch.randn(8 * 2**20 // 4)
    size = x.nbytes
    # kernel: forward, bytes read and written forward and backward
    calls: dict[str, tuple[Callable[[], Tensor], int]] = {
        "norm": (lambda: F.layer_norm(x, (256,), gain, shift), 5 * size),
        "activation": (lambda: F.gelu(x), 5 * size),
        "add": (lambda: x + x.detach(), 3 * size),
        "softmax": (lambda: torch.softmax(x, -1), 5 * size),
        "loss": (lambda: F.cross_entropy(x, targets, reduction="sum"), 5 * size),
        "embedding": (lambda: F.embedding(tokens, table), 4 * size),
        "cast": (lambda: x.to(torch.bfloat16), 3 * size),
    }
    gradient = torch.randn_like(x)

    def there_and_back(forward: Callable[[], Tensor]) -> Callable[[], None]:
        def call() -> None:
            for leaf in (x, gain, shift, table):
                leaf.grad = None
            y = forward()
            y.backward(gradient.to(y.dtype) if y.dim() else None)

        return call

    overhead = _call_seconds(clock)
    rates = {}
    for name, (forward, nbytes) in calls.items():
        seconds = clock.seconds(there_and_back(forward))
        rates[name] = nbytes / max(0.5 * seconds, seconds - 2 * overhead)
    rates["copy"] = 2 * large.nbytes / clock.seconds(large.clone)
    rates["optimizer"] = _optimizer(clock)
    return {
        "bytes_per_second": rates,
        "by_size": _by_size(clock),
        "call_seconds": overhead,
        "attention": {name: _attention(clock, dtype) for name, dtype in _DTYPES.items()},
    }


def _by_size(clock: _Clock) -> list[list[float]]:
    """[bytes of the result, bytes per second read and written] of one kernel. Beyond the caches
    memory is slower, and what is larger than the allocator keeps (32 MiB with glibc) is given back
    and asked for anew each time, page by page."""
    found = []
    for mib in FRESH:
        x = torch.randn(mib * 2**20 // 4)
        found.append([x.nbytes, 2 * x.nbytes / clock.seconds(lambda x=x: x * 2.0)])
    return found


def _call_seconds(clock: _Clock) -> float:
    """What one kernel costs beside its work, modules, views and autograd included: a chain of
    layers on almost no numbers."""
    layers = [
        nn.ModuleDict(
            {
                "norm": nn.LayerNorm(8),
                "query": nn.Linear(8, 8),
                "key": nn.Linear(8, 8),
                "value": nn.Linear(8, 8),
                "output": nn.Linear(8, 8),
                "up": nn.Linear(8, 8),
                "down": nn.Linear(8, 8),
                "second": nn.LayerNorm(8),
            }
        )
        for _ in range(4)
    ]
    x = torch.randn(1, 4, 8)

    def chain() -> None:
        y = x
        for layer in layers:
            for parameter in layer.parameters():
                parameter.grad = None
            z = layer["norm"](y)
            q, k, v = (
                layer[name](z).unflatten(-1, (2, 4)).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            y = y + layer["output"](
                F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            )
            y = y + layer["down"](F.gelu(layer["up"](layer["second"](y))))
        y.sum().backward()

    # a product is three kernels, so is attention; norms, activation and sums are two each
    return clock.seconds(chain) / (4 * 31)


def _optimizer(clock: _Clock) -> float:
    """Bytes per second of fused AdamW over tensors of a small model's sizes, 28 bytes a
    parameter."""
    weights = [torch.randn(256, 256, requires_grad=True) for _ in range(16)]
    optimizer = torch.optim.AdamW(weights, fused=True)
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    return 28 * sum(w.numel() for w in weights) / clock.seconds(optimizer.step)


def _attention(clock: _Clock, dtype: torch.dtype) -> list[list[float]]:
    """[sequence, head size, FLOPs forward and backward (the fused kernel's own recomputation
    counted), seconds]."""
    found = []
    for b, a, s, d in ((24, 4, 64, 16), (8, 8, 128, 32)):
        q, k, v = (torch.randn(b, a, s, d).to(dtype).requires_grad_() for _ in range(3))
        gradient = torch.randn(b, a, s, d).to(dtype)

        def call(q: Tensor = q, k: Tensor = k, v: Tensor = v, gradient: Tensor = gradient) -> None:
            q.grad = k.grad = v.grad = None
            F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(gradient)

        found.append([s, d, 2 * 7 * b * a * s * s * d, clock.seconds(call)])
    return found


def _collectives(axis: Axis, mesh: Mesh, clock: _Clock) -> dict[str, list[list[float]]]:
    """{op: [[bytes, seconds], …]} of `comm`'s collectives over all ranks, and of a message there
    and back, halved."""
    found: dict[str, list[list[float]]] = {
        op: [] for op in ("all_reduce", "reduce_scatter", "all_gather", "send")
    }
    for nbytes in MESSAGES:
        whole, other = torch.zeros(nbytes // 4), torch.zeros(nbytes // 4)
        right, left = (axis.rank + 1) % axis.size, (axis.rank - 1) % axis.size
        calls = {
            "all_reduce": lambda w=whole: axis.all_reduce(w, purpose="control").wait(),
            "reduce_scatter": lambda w=whole: axis.reduce_scatter(w, purpose="control")[1].wait(),
            "all_gather": lambda w=whole: axis.all_gather(w, purpose="control").wait(),
            "send": lambda w=whole, x=other, to=right, source=left: axis.exchange(
                w, to, x, source, purpose="control"
            ),
        }
        for op, call in calls.items():
            found[op].append([nbytes, clock.seconds(call)])
            mesh.ledger.clear()
    return found


def main(paths: list[str], ranks: tuple[int, ...] = (1, 2, 4), rounds: int = 2) -> None:
    """Calibrate with each number of `ranks` and keep the result in each of `paths`."""
    cores = machine_cores()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    machine = {
        "name": f"cpu, {cores} cores",
        "cores": cores,
        "memory_bytes": psutil.virtual_memory().total,
        "processor": platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "load_before": load,
    }
    found = calibrate(ranks, cores, rounds)
    for path in paths:
        save_calibration(found, machine, Path(path))
