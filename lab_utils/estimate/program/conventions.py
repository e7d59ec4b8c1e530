"""Whose kernels a ledger describes: those of torch's CPU build, which real runs here are held
against, or those of its CUDA build, held against that build on tensors without memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ...i18n import t


class Attention(Enum):
    """What `F.scaled_dot_product_attention` runs. The value: bytes of the small states that it
    saves besides q, k, v, its output and one fp32 number a row."""

    CPU = ()
    FLASH = (16, 8)  # the random generator's state, two uint64, and one that is not used
    EFFICIENT = (8, 8)  # the generator's seed and its offset
    WRITTEN_OUT = None  # no kernel of its own: scores and weights are tensors like any other


class Collectives(Enum):
    """What a collective takes for a moment besides what it is given (parallel/comm.py)."""

    RING = "gloo: room for the part that comes in; a gather's copy of its part, to the end"
    NCCL = "copies of what goes in, let go when the collective is waited for"
    IN_PLACE = "room for the part that comes in"


def _cuda_attention(width: int, grouped: bool) -> Attention:
    """As torch 2.13 chooses (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp): flash knows 16
    bits only, the memory-efficient kernel no query heads that share keys. cuDNN's, which is asked
    before flash on H100 and B200, saves 8 bytes less than flash."""
    if width == 2:
        return Attention.FLASH
    return Attention.WRITTEN_OUT if grouped else Attention.EFFICIENT


@dataclass(frozen=True)
class Convention:
    """`norm_statistics_width(width of the input)`, bytes; `fused_rms_norm`: one kernel that saves
    its input and one fp32 number a row; `softmax_in_fp32`: attention weights under autocast;
    `attention(width, whether query heads share keys)`: what a fused attention runs; `collectives`:
    of tensor parallelism."""

    name: str
    norm_statistics_width: Callable[[int], int]
    fused_rms_norm: bool = False
    softmax_in_fp32: bool = False
    attention: Callable[[int, bool], Attention] = lambda width, grouped: Attention.CPU
    collectives: Collectives = Collectives.RING

    @property
    def basis(self) -> str:
        """Where figures by this convention come from, in a reader's words."""
        return {
            "cpu": t(
                "estimated, CPU kernels of torch 2.13; equal to real runs to the byte",
                "估算，按 torch 2.13 的 CPU 算子内核；与真实运行逐字节一致",
            ),
            "cuda": t(
                "estimated, CUDA kernels by torch 2.13's derivative formulas; not measured on a"
                " GPU",
                "估算，CUDA 算子内核按 torch 2.13 的求导公式；未在 GPU 上实测",
            ),
        }.get(self.name, self.name)


# torch 2.13, CPU: measured to the byte in tests/estimate
CPU = Convention("cpu", lambda width: width)
# torch 2.13, CUDA: what its kernels save, held against its CUDA build on tensors without memory
# (tests/measured/cuda_saved_bytes.json). Sequences are taken to be whole multiples of 32 (the
# memory-efficient kernel rounds its rows up to that) and heads of 8 (flash pads them)
CUDA = Convention("cuda", lambda width: 4, True, True, _cuda_attention, Collectives.NCCL)
# the papers' closed forms: a norm's statistics are small enough to leave out
MEGATRON = Convention("megatron", lambda width: 0)
CONVENTIONS = {"cpu": CPU, "cuda": CUDA}
