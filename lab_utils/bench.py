"""`python -m lab_utils bench`: the same training step by two engines, side by side, in one run.

Both contenders live in the same processes and take turns: a block of steps of one, a block of the
other, the order swapped in every pair, so that a machine that slows down slows both. The figure is
the median over pairs of the ratio of throughputs; its spread stands beside it. An engine against
itself shows how much of a ratio is noise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple

from .commands.flags import add_force, one_sentence, whole_from_1
from .config import ConfigError, TrainConfig
from .files import writable, write_text
from .i18n import t
from .layout.refusals import refuse_what_cannot_run
from .text import table

if TYPE_CHECKING:
    from .parallel.mesh import Mesh

STRATEGIES: dict[str, dict[str, Any]] = {  # in flags; "axis" is the one that gets all ranks
    "dp": dict(axis="dp"),
    "zero1": dict(axis="dp", zero=1),
    "zero2": dict(axis="dp", zero=2),
    "zero3": dict(axis="dp", zero=3),
    "tp": dict(axis="tp"),
    "tp+sp": dict(axis="tp", sequence_parallel=True),
    "pp": dict(axis="pp"),
    "3d": dict(dp=2, tp=2, pp=2),
}
# contender: its engine
CONTENDERS = {
    "ours": "ours",
    "bucketed": "ours",
    "naive": "ours",
    "torch": "torch",
    "deepspeed": "deepspeed",
}
PIPELINE_MICRO_BATCHES = 4


class Row(NamedTuple):
    """What is held against what. An engine against itself is noise."""

    strategy: str
    first: str
    second: str


@dataclass(frozen=True)
class Ratio:
    """Throughput of `first` ÷ throughput of `second`, one number per pair of blocks; seconds are of
    the median step."""

    strategy: str
    first: str
    second: str
    ranks: int
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


def rows_for(strategies: Iterable[str], deepspeed: bool = True) -> Iterator[Row]:
    """The rows of these strategies: first each engine against itself, once, then ours against the
    others."""
    chosen = list(strategies)
    others = {
        s: ["torch", *(["deepspeed"] if deepspeed and STRATEGIES[s].get("axis") == "dp" else [])]
        for s in chosen
    }
    for engine in ("ours", "torch", "deepspeed"):
        yield from [Row(s, engine, engine) for s in chosen if engine in ("ours", *others[s])][:1]
    for strategy in chosen:
        if strategy == "dp":
            yield Row("dp", "bucketed", "naive")
        yield from (Row(strategy, "ours", other) for other in others[strategy])


def config_for(strategy: str, base: TrainConfig, ranks: int, batch_per_rank: int) -> TrainConfig:
    """The work of a strategy's rows: `base`'s model, `batch_per_rank` sequences for each rank and
    step."""
    flags = dict(STRATEGIES[strategy])
    axis = flags.pop("axis", None)
    if axis:
        flags[axis] = ranks
    dp, pp = flags.get("dp", 1), flags.get("pp", 1)
    # eight ranks on few cores take turns: less work
    batch = batch_per_rank * (ranks if axis else 4)
    micro_batches = PIPELINE_MICRO_BATCHES if pp > 1 else 1
    return base.replace(
        **flags, global_batch=batch, micro_batch=max(1, batch // dp // micro_batches)
    )


def bench(
    config: TrainConfig,
    row: Row,
    pairs: int = 15,
    steps: int = 4,
    threads: int = 1,
    force: bool = False,
) -> Ratio:
    """Time one row; `steps` optimizer steps make a block (seconds are per step). Raises ConfigError
    for what cannot run, or unless `force` for more ranks than this machine holds."""
    from .launch import launch

    for name in (row.first, row.second):
        refuse_what_cannot_run(_config_of(name, config), CONTENDERS[name])
    return launch(
        _row_on_rank,
        config.parallel.world_size,
        config,
        row,
        pairs,
        steps,
        timeout=600.0,
        threads=threads,
        force=force,
    )[0]


def _config_of(contender: str, config: TrainConfig) -> TrainConfig:
    return config.replace(gradient_sync="naive") if contender == "naive" else config


def _row_on_rank(config: TrainConfig, row: Row, pairs: int, steps: int) -> Ratio:
    from .parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    contenders = [
        _Contender(_config_of(name, config), CONTENDERS[name], mesh)
        for name in (row.first, row.second)
    ]
    for contender in contenders:
        contender.block(2 * steps)  # warm-up: first steps allocate
    times = []
    for pair in range(pairs):
        in_turn = contenders if pair % 2 == 0 else contenders[::-1]
        measured = {id(contender): contender.block(steps) for contender in in_turn}
        times.append(tuple(measured[id(contender)] / steps for contender in contenders))
    return Ratio(
        *row,
        config.parallel.world_size,
        tuple(b / a for a, b in times),
        median(a for a, _ in times),
        median(b for _, b in times),
    )


class _Contender:
    """One engine, training its model on the same batch again and again."""

    def __init__(self, config: TrainConfig, engine: str, mesh: Mesh) -> None:
        from .data.loader import Loader
        from .train.loop import make_engine

        self.mesh, self.engine = mesh, make_engine(config, engine, mesh)
        self.batch = Loader(config, mesh["dp"].rank, device=mesh.device).batch(0)

    def block(self, steps: int) -> float:
        """Seconds that the slowest rank needed for `steps` optimizer steps."""
        import time

        self._slowest(0.0)  # all start together
        began = time.perf_counter()
        for _ in range(steps):
            self.engine.forward_backward(self.batch)
            self.engine.update()
            self.mesh.ledger.clear()
        if self.mesh.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.mesh.device)
        return self._slowest(time.perf_counter() - began)

    def _slowest(self, seconds: float) -> float:
        import torch

        most = torch.tensor([seconds], dtype=torch.float64, device=self.mesh.device)
        for axis in ("dp", "pp", "tp"):
            self.mesh[axis].all_reduce(most, purpose="control", reduction="max").wait()
        return most.item()


def as_text(results: list[Ratio]) -> str:
    """The rows as a table."""
    head = (
        "",
        t("median ratio", "比值中位数"),
        t("quartiles", "四分位"),
        t("ms per step, first", "每步毫秒（前者）"),
        t("second", "（后者）"),
    )
    lines = []
    for row in results:
        low, high = row.spread
        name = f"{row.strategy}: {row.first} ÷ {row.second}" + (
            t("  (noise)", "（噪声）") if row.first == row.second else ""
        )
        lines.append(
            (
                name,
                f"{row.median:.3f}",
                f"{low:.3f} – {high:.3f}",
                f"{1e3 * row.first_seconds:.1f}",
                f"{1e3 * row.second_seconds:.1f}",
            )
        )
    return table([head, *lines])


def as_json(results: list[Ratio], **circumstances: Any) -> dict[str, Any]:
    """The rows, and what they were measured on."""
    return {
        "versions": _versions(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **circumstances,
        "rows": [asdict(row) | {"median": row.median, "spread": row.spread} for row in results],
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("lab_utils", "torch", "deepspeed"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _deepspeed_runs(say: Callable[[str], None]) -> bool:
    import torch

    from .engines.deepspeed_setup import why_not

    reason = why_not("cuda" if torch.cuda.is_available() else "cpu")
    if reason:
        say(t(f"Rows of DeepSpeed are left out. {reason}", f"略去 DeepSpeed 的各行。{reason}"))
    return reason is None


def _strategies(text: str) -> list[str]:
    """The argparse type of --only."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in STRATEGIES]
    if unknown:
        raise argparse.ArgumentTypeError(
            t(
                f"there is no strategy {unknown[0]!r}; choose {', '.join(STRATEGIES)}",
                f"没有 {unknown[0]!r} 这种策略，可选：{'、'.join(STRATEGIES)}",
            )
        )
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `bench`."""
    parser.add_argument(
        "--only",
        type=_strategies,
        default=list(STRATEGIES),
        metavar="NAMES",
        help=t(
            f"strategies, of {','.join(STRATEGIES)}", f"只测这些策略，可选 {','.join(STRATEGIES)}"
        ),
    )
    parser.add_argument("--preset", default="small", help=t("model shape", "模型规模"))
    parser.add_argument(
        "--ranks",
        type=whole_from_1,
        default=2,
        help=t("ranks (3d always takes 8)", "进程数（3d 固定为 8）"),
    )
    parser.add_argument(
        "--batch-per-rank",
        type=whole_from_1,
        default=8,
        help=t("sequences per rank and step", "每进程每步的序列数"),
    )
    parser.add_argument(
        "--bucket-mib",
        type=float,
        default=None,
        help=t("bucket size in MiB; default: 4", "桶大小（MiB），默认 4"),
    )
    parser.add_argument(
        "--pairs",
        type=whole_from_1,
        default=15,
        help=t("pairs of blocks per row, at least 7", "每行的对比次数，至少 7"),
    )
    parser.add_argument(
        "--steps",
        type=whole_from_1,
        default=4,
        help=t("optimizer steps in a block", "每块的优化器步数"),
    )
    parser.add_argument(
        "--threads",
        type=whole_from_1,
        default=1,
        help=t("CPU threads per rank", "每进程的 CPU 线程数"),
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=None,
        help=t("also write the rows to this file", "同时写入此文件"),
    )
    add_force(parser)


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Carry out `bench`."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    writable(args.json)
    base = TrainConfig.of(
        args.preset, **({} if args.bucket_mib is None else {"bucket_mib": args.bucket_mib})
    )
    if args.ranks < 2 and set(args.only) != {"3d"}:
        raise ConfigError(
            t(
                "--ranks 1 has nothing to share out: use --ranks 2.",
                "只有一个进程时没有可以分担的工作：请使用 --ranks 2。",
            )
        )
    pairs = max(7, args.pairs)
    print(
        t(
            f"throughput ratios on {args.ranks} ranks × {args.threads} thread(s), {args.preset},"
            f" {args.batch_per_rank} sequences a rank",
            f"吞吐量之比：{args.ranks} 个进程 × {args.threads} 线程，{args.preset}，每进程"
            f" {args.batch_per_rank} 条序列",
        )
    )
    print(
        t(
            f"{pairs} interleaved pairs of blocks of {args.steps} steps",
            f"交替 {pairs} 对，每块 {args.steps} 步",
        ),
        flush=True,
    )
    results, rows = [], list(rows_for(args.only, deepspeed=_deepspeed_runs(say)))
    for i, row in enumerate(rows):
        say(
            t(
                f"{i + 1} of {len(rows)}: {row.strategy}, {row.first} ÷ {row.second}",
                f"{i + 1}/{len(rows)}：{row.strategy}，{row.first} ÷ {row.second}",
            )
        )
        results.append(
            bench(
                config_for(row.strategy, base, args.ranks, args.batch_per_rank),
                row,
                pairs,
                args.steps,
                args.threads,
                args.force,
            )
        )
    if args.json:
        found = as_json(
            results,
            preset=args.preset,
            threads=args.threads,
            batch_per_rank=args.batch_per_rank,
            pairs=pairs,
            steps=args.steps,
        )
        write_text(args.json, json.dumps(found, indent=1))
    print(as_text(results))
    return 0
