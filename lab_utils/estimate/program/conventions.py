"""Whose kernels a ledger describes: what this machine's torch saves, and what CUDA's does, which nothing here has measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Convention:
    """`norm_statistics_width(width of the input)`, bytes; `softmax_in_fp32`: attention weights under autocast;
    `attention_state_bytes`: small states that the fused kernel saves besides."""

    name: str
    norm_statistics_width: Callable[[int], int]
    softmax_in_fp32: bool = False
    attention_state_bytes: tuple[int, ...] = ()


# torch 2.13, CPU: measured to the byte in tests/estimate
CPU = Convention("cpu", lambda width: width)
# torch on CUDA: fp32 statistics and softmax under autocast, 24 bytes of philox state for each fused attention. Not measured here.
CUDA = Convention("cuda", lambda width: 4, softmax_in_fp32=True, attention_state_bytes=(8, 16))
# the papers' closed forms: a norm's statistics are small enough to leave out
MEGATRON = Convention("megatron", lambda width: 0)
CONVENTIONS = {"cpu": CPU, "cuda": CUDA}
