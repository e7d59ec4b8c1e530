"""Writes cuda_saved_bytes.json: what torch's CUDA kernels save and need, kernel by kernel, and for
whole steps of random configurations; no GPU needed, nothing is computed. `make cuda-rules` runs it
in an environment of its own (4.7 GB) and holds the estimator to what it wrote; minutes.

Steps are of one GPU; of one rank of 2, 4 or 8 that share every matrix product, with and without
sequence parallelism; and of one of 2 to 4 that share the batch, with and without ZeRO. There layers
and shards are parallel/'s own, run whole on the rank's shapes; the other ranks are not there, and a
collective allocates what ours does on NCCL (fake_cuda.Alone).

What stays unproven, because it asks a driver: how the caching allocator rounds and keeps segments
(c10/cuda/CUDACachingAllocator.cpp: blocks of 512 bytes in segments of 2 and 20 MiB or multiples of
2 MiB); cuBLAS's workspaces (8,320 KiB a handle and stream: CublasHandlePool.cpp; cuBLASLt's 32 MiB
more on Hopper: CUDABlas.cpp, pytorch pull request 120925); NCCL's buffers (NCCL_BUFFSIZE, 4 MiB a
channel and peer by default); the CUDA context with its kernels (not documented: hundreds of MiB);
and what a kernel takes inside itself (split products, the sums of a norm's backward pass).
estimate/memory/allocator.py has them as labelled additions.

tests/estimate/test_cuda_kernels.py holds the estimator against the file.
"""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from lab_utils import TrainConfig

HERE = Path(__file__).parent
FILE = HERE / "cuda_saved_bytes.json"
TERMS = ("parameters", "gradients", "optimizer", "activations", "weight_copies", "peak")


def steps() -> list[dict[str, Any]]:
    """The memory terms of a step of every wanted configuration."""
    sys.path.insert(0, str(HERE))
    from cuda_draws import wanted
    from fake_cuda import cuda_step

    found = []
    for preset, flags, rank in wanted():
        config = TrainConfig.of(preset, steps=2, **flags)
        memory = cuda_step(config, rank)
        row = {"preset": preset, "flags": flags, "tp_rank": rank}
        row |= {"memory": [memory[term] for term in TERMS], "at_peak": memory["at_peak"]}
        if config.recompute == "none" and config.micro_batches == 1:
            row["by_module"] = _short(memory["by_module"])
        found.append(row)
    return found


def _short(by_module: dict[str, int]) -> dict[str, list[int]]:
    """Modules of the blocks by their name in the block ("*.mlp"), with the bytes of each block."""
    found: dict[str, list[int]] = {}
    for name, nbytes in by_module.items():
        parts = name.split(".")
        key = ".".join(["*", *parts[2:]]) if parts[0] == "blocks" else name
        found.setdefault(key, []).append(nbytes)
    return {key: sizes[:1] if len(set(sizes)) == 1 else sizes for key, sizes in found.items()}


def compact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what a row has in common with the one before it."""
    flags: dict[str, Any] = {}
    found = []
    for row in rows:
        changed = {name: value for name, value in row["flags"].items() if flags.get(name) != value}
        gone = {name: None for name in flags if name not in row["flags"]}
        flags = row["flags"]
        found.append(row | {"flags": changed | gone})
    return found


def whole(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What `compact` left out put back."""
    flags: dict[str, Any] = {}
    found = []
    for row in rows:
        flags = {name: v for name, v in (flags | row["flags"]).items() if v is not None}
        found.append(row | {"flags": flags})
    return found


def main() -> int:
    """Write the file."""
    sys.path.insert(0, str(HERE))
    from cuda_kernels import kernels, optimizers

    with FakeTensorMode():
        record = {
            "torch": torch.__version__,
            "date": date.today().isoformat(),
            "made_by": "make cuda-rules: tests/measured/cuda_saved_bytes.py, on CUDA tensors"
            " without memory",
            "terms": TERMS,
            "kernels": kernels(),
            "optimizers": optimizers("cuda"),
        }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items()]
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in compact(steps()))
    lines.append(f'"steps": [\n{rows}]')
    FILE.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
