"""`python -m lab_utils bench`: two ways of doing the same work, side by side, in one run.

Both contenders live in the same processes and take turns: a block of steps of one, a block of the other, the order
swapped in every pair, so that a machine that slows down slows both. The figure is the median over pairs of the ratio
of throughputs; its spread stands beside it. A contender against itself shows how much of a ratio is noise.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from .commands import writable
from .commands.flags import one_sentence, whole_from_1
from .config import TrainConfig
from .i18n import t
from .text import table

if TYPE_CHECKING:
    from .parallel.mesh import Mesh

CONTENDERS = {"torch DDP": ("torch", "bucketed"), "bucketed": ("ours", "bucketed"), "naive": ("ours", "naive")}
PAIRS = (("torch DDP", "torch DDP"), ("bucketed", "torch DDP"), ("bucketed", "naive"))


@dataclass(frozen=True)
class Ratio:
    """Throughput of `first` ÷ throughput of `second`, one number per pair of blocks."""

    first: str
    second: str
    ratios: tuple[float, ...]
    first_seconds: float
    second_seconds: float

    @property
    def median(self) -> float:
        """The middle ratio; above 1, `first` is faster."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and third quartile of the ratios."""
        low, _, high = quantiles(self.ratios, n=4)
        return low, high


def bench(config: TrainConfig, pairs: int = 15, steps: int = 4, threads: int = 1) -> list[Ratio]:
    """Time every row of PAIRS on `config` with its dp ranks; `steps` optimizer steps make a block (seconds are per step)."""
    from .launch import launch

    ranks, options = config.parallel.world_size, dict(timeout=600.0, threads=threads)
    return [launch(_pair_on_rank, ranks, config, first, second, pairs, steps, **options)[0] for first, second in PAIRS]


def _pair_on_rank(config: TrainConfig, first: str, second: str, pairs: int, steps: int) -> Ratio:
    from .parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    contenders = [_Contender(config, name, mesh) for name in (first, second)]
    for contender in contenders:
        contender.block(2 * steps)      # warm-up: first steps allocate
    times = []
    for pair in range(pairs):
        in_turn = contenders if pair % 2 == 0 else contenders[::-1]
        measured = {id(contender): contender.block(steps) for contender in in_turn}
        times.append(tuple(measured[id(contender)] / steps for contender in contenders))
    return Ratio(first, second, tuple(b / a for a, b in times), median(a for a, _ in times), median(b for _, b in times))


class _Contender:
    """One way of training the same model on the same batches."""

    def __init__(self, config: TrainConfig, name: str, mesh: Mesh) -> None:
        from .data.loader import Loader
        from .train.loop import build
        from .train.optimizer import make_optimizer

        engine, gradient_sync = CONTENDERS[name]
        self.mesh = mesh
        self.sync = build(config.replace(gradient_sync=gradient_sync), engine, mesh)
        self.optimizer = make_optimizer(self.sync.model, config)
        self.batch = Loader(config, mesh["dp"].rank, device=mesh.device).batch(0)

    def block(self, steps: int) -> float:
        """Seconds that the slowest rank needed for `steps` optimizer steps."""
        import time

        import torch

        from .train.step import train_step

        seconds = torch.zeros(1, dtype=torch.float64)
        self.mesh["dp"].all_reduce(seconds, purpose="control", reduction="max").wait()      # all start together
        began = time.perf_counter()
        for _ in range(steps):
            train_step(self.sync, self.optimizer, self.batch)
        if self.mesh.device.type == "cuda":
            torch.cuda.synchronize(self.mesh.device)
        seconds = torch.tensor([time.perf_counter() - began], dtype=torch.float64).to(self.mesh.device)
        self.mesh["dp"].all_reduce(seconds, purpose="control", reduction="max").wait()
        self.mesh.ledger.clear()
        return seconds.item()


def as_text(rows: list[Ratio]) -> str:
    """The rows as a table."""
    head = ("", t("median ratio", "比值中位数"), t("quartiles", "四分位"), t("ms per step, first", "每步毫秒（前者）"), t("second", "（后者）"))
    lines = []
    for row in rows:
        low, high = row.spread
        name = f"{row.first} ÷ {row.second}" + (t("  (noise)", "（噪声）") if row.first == row.second else "")
        lines.append((name, f"{row.median:.3f}", f"{low:.3f} – {high:.3f}", f"{1e3 * row.first_seconds:.1f}", f"{1e3 * row.second_seconds:.1f}"))
    return table([head, *lines])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `bench`."""
    parser.add_argument("--preset", default="small", help=t("model shape", "模型规模"))
    parser.add_argument("--dp", type=whole_from_1, default=2, help=t("ranks", "进程数"))
    parser.add_argument("--batch-per-rank", type=whole_from_1, default=8, help=t("sequences per rank and step", "每进程每步的序列数"))
    parser.add_argument("--bucket-mib", type=float, default=None, help=t("bucket size in MiB", "桶大小（MiB）"))
    parser.add_argument("--pairs", type=whole_from_1, default=15, help=t("pairs of blocks per row, at least 7", "每行的对比次数，至少 7"))
    parser.add_argument("--steps", type=whole_from_1, default=4, help=t("optimizer steps in a block", "每块的优化器步数"))
    parser.add_argument("--threads", type=whole_from_1, default=1, help=t("CPU threads per rank", "每进程的 CPU 线程数"))
    parser.add_argument("--json", type=Path, default=None, help=t("also write the rows to this file", "同时写入此文件"))


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Carry out `bench`."""
    writable(args.json)
    flags = {} if args.bucket_mib is None else {"bucket_mib": args.bucket_mib}
    config = TrainConfig.of(args.preset, dp=args.dp, global_batch=args.dp * args.batch_per_rank, **flags)
    print(t(f"throughput ratios on {args.dp} ranks × {args.threads} thread(s), {args.preset}, {args.batch_per_rank} sequences a rank",
            f"吞吐量之比：{args.dp} 个进程 × {args.threads} 线程，{args.preset}，每进程 {args.batch_per_rank} 条序列"))
    print(t(f"{max(7, args.pairs)} interleaved pairs of blocks of {args.steps} steps", f"交替 {max(7, args.pairs)} 对，每块 {args.steps} 步"))
    rows = bench(config, max(7, args.pairs), args.steps, args.threads)
    print(as_text(rows))
    if args.json:
        args.json.write_text(json.dumps([asdict(row) | {"median": row.median, "spread": row.spread} for row in rows], indent=1), encoding="utf-8")
    return 0
