"""How the ranks of a run share its work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .flag import ContextParallel, GradientSync, Schedule, check, check_choices, flag, is_number


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """Who works together: the degrees of the mesh axes (dp, pp, cp, tp) and how each axis does its
    part."""

    dp: int = flag(1, "data-parallel ranks", "数据并行的进程数")
    tp: int = flag(1, "tensor-parallel ranks", "张量并行的进程数")
    pp: int = flag(1, "pipeline stages", "流水线阶段数")
    cp: int = flag(
        1,
        "context-parallel ranks: each holds a part of every sequence",
        "上下文并行的进程数：每个进程持有每条序列的一部分",
    )
    cp_kind: ContextParallel = flag(
        "ring",
        "how the ranks of --cp attend to one another's tokens: keys and values go round a ring, or"
        " heads are swapped for tokens (all-to-all)",
        "--cp 各进程如何看到彼此的词元：键和值沿环传递，或用头换词元（all-to-all）",
    )
    zero: Literal[0, 1, 2, 3] = flag(0, "ZeRO stage", "ZeRO 级别")
    sequence_parallel: bool = flag(
        False, "shard the sequence between tensor-parallel regions", "在张量并行区域之间切分序列"
    )
    schedule: Schedule = flag("1f1b", "pipeline schedule", "流水线调度")
    virtual_stages: int = flag(1, "model chunks per pipeline rank", "每个流水线进程持有的模型段数")
    gradient_sync: GradientSync = flag(
        "bucketed",
        "one all-reduce per bucket, overlapped, or one per gradient",
        "梯度同步方式：分桶并重叠，或逐个梯度 all-reduce",
    )
    offload: bool = flag(
        False,
        "optimizer states and fp32 weights in the host's memory (with ZeRO)",
        "优化器状态与 fp32 权重放在主机内存（配合 ZeRO）",
    )
    bucket_mib: float = flag(4.0, "size of a gradient bucket in MiB", "梯度桶大小（MiB）")

    def __post_init__(self) -> None:
        check_choices(self)
        check(
            self.zero in (0, 1, 2, 3),
            f"--zero must be 0, 1, 2 or 3, not {self.zero!r}.",
            f"--zero 只能是 0、1、2 或 3，而不是 {self.zero!r}。",
        )
        check(
            is_number(self.bucket_mib) and self.bucket_mib * 2**20 >= 1,
            f"--bucket-mib must be above 0, and at least a byte (2**-20), not {self.bucket_mib!r}.",
            f"--bucket-mib 必须大于 0，且至少为一个字节（2**-20），而不是 {self.bucket_mib!r}。",
        )

    @property
    def world_size(self) -> int:
        """Ranks in all: the product of the axes."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def replicas(self) -> int:
        """Ranks that hold the same weights, read other tokens, and so sum their gradients: dp × cp.
        ZeRO cuts states over all of them."""
        return self.dp * self.cp

    @property
    def bucket_bytes(self) -> int:
        """`bucket_mib` in bytes."""
        return int(self.bucket_mib * 2**20)
