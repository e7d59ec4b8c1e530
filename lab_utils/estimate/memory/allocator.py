"""What a GPU uses beyond live tensors: labelled additions, never part of an estimate's `peak`. None
was measured here.

`peak` counts what tensors ask for; PyTorch's CUDA caching allocator rounds that up, keeps freed
segments, and CUDA and NCCL take memory of their own. The rounding follows
c10/cuda/CUDACachingAllocator.cpp (blocks of 512 bytes; requests up to 1 MiB come from segments of 2
MiB, up to 10 MiB from segments of 20 MiB, larger ones in multiples of 2 MiB).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...config import TrainConfig

BLOCK = 512
SMALL_SEGMENT, LARGE_SEGMENT, ROUND_LARGE = 2 * 2**20, 20 * 2**20, 2 * 2**20
SMALL_REQUEST, LARGE_REQUEST = 2**20, 10 * 2**20
# assumption: kernels and runtime of one process on a data-centre GPU take 0.3 to 0.7 GiB
CONTEXT = 500 * 2**20
# a matrix product's room: 8,320 KiB a handle and stream (CublasHandlePool.cpp; seen by others in
# memory_snapshot(), discuss.pytorch.org 178671), and cuBLASLt's own, on Hopper (pytorch pull
# request 120925)
CUBLAS, CUBLAS_LT = 8_519_680, 32 * 2**20
# specification: NCCL_BUFFSIZE's default, for each channel and peer
NCCL_CHANNEL_BUFFER = 4 * 2**20
NCCL_CHANNELS = 2 * 8  # assumption: 8 channels, to two neighbours on a ring


@dataclass(frozen=True)
class Addition:
    """Bytes that come on top of live tensors. `kind`: "specification" or "assumption"."""

    nbytes: int
    kind: str
    source: str


def block_bytes(request: int) -> int:
    """What one tensor of `request` bytes occupies in its segment."""
    return -(-max(request, 1) // BLOCK) * BLOCK


def segment_bytes(request: int) -> int:
    """What the allocator asks the driver for when nothing cached fits a request."""
    size = block_bytes(request)
    if size <= SMALL_REQUEST:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE_REQUEST else -(-size // ROUND_LARGE) * ROUND_LARGE


def additions(config: TrainConfig) -> dict[str, Addition]:
    """By name, for one rank of `config`: the CUDA context, rooms for matrix products,
    a buffer for each process group, and a segment that is part-empty."""
    p = config.parallel
    groups = sum(degree > 1 for degree in (p.dp, p.pp, p.cp, p.tp)) + (p.world_size > 1)
    return {
        "cuda_context": Addition(
            CONTEXT, "assumption", "nvidia-smi of an idle PyTorch process: 0.3 to 0.7 GiB"
        ),
        "cublas_workspaces": Addition(
            CUBLAS + CUBLAS_LT,
            "specification",
            "CublasHandlePool.cpp 8,320 KiB; CUDABlas.cpp 32 MiB for cuBLASLt on Hopper",
        ),
        "nccl_buffers": Addition(
            groups * NCCL_CHANNELS * NCCL_CHANNEL_BUFFER,
            "assumption",
            "NCCL_BUFFSIZE 4 MiB × channels (assumption) × groups",
        ),
        "part_empty_segments": Addition(
            SMALL_SEGMENT + LARGE_SEGMENT,
            "specification",
            "CUDACachingAllocator: one segment of each size may be part-empty",
        ),
    }
