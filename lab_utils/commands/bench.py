"""`bench`: ours against torch and DeepSpeed, in interleaved pairs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..bench import STRATEGIES, as_json, as_text, bench, config_for, deepspeed_runs, rows_for
from ..config import ConfigError, TrainConfig
from ..files import writable, write_text
from ..i18n import t
from .flags import add_force, one_sentence, whole_from_1


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
    results, rows = [], list(rows_for(args.only, deepspeed=deepspeed_runs(say)))
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
