"""Train for real, on as many processes as the layout has ranks, and report what a step cost."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..files import writable, write_text
from ..i18n import t
from ..report import Report
from ..sizes import in_one_scale
from .flags import (
    add_config_flags,
    add_force,
    config_from,
    one_sentence,
    seconds_above_0,
    whole_from_1,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration's flags and the options of a run."""
    add_config_flags(parser)
    parser.add_argument(
        "--engine",
        default="ours",
        metavar="{ours,torch,deepspeed}",
        help=t("ours, or a production library", "自己的引擎，或第三方库"),
    )
    parser.add_argument(
        "--threads",
        type=whole_from_1,
        default=None,
        help=t(
            "CPU threads per rank; default: OMP_NUM_THREADS, else cores / ranks",
            "每个进程的 CPU 线程数；默认取 OMP_NUM_THREADS，否则为 核数 / 进程数",
        ),
    )
    parser.add_argument(
        "--timeout",
        type=seconds_above_0,
        default=600.0,
        help=t(
            "seconds that one rank may keep the others waiting", "一个进程最多让其他进程等待的秒数"
        ),
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=None,
        help=t("write the report to this file", "把报告写入此文件"),
    )
    parser.add_argument(
        "--gradients",
        type=Path,
        default=None,
        help=t(
            "write the first step's gradients to this .npz file", "把第一步的梯度写入此 .npz 文件"
        ),
    )
    add_force(parser)
    parser.add_argument("--quiet", action="store_true", help=t("no progress bar", "不显示进度条"))


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Carry out `train`."""
    from ..launch import LaunchError

    config = config_from(args)
    for path in (args.json, args.gradients):
        writable(path)
    from .. import train
    from ..train.gradients import GradientsNotWrittenError
    from ..train.room import why_not_on_gpus

    first = int(os.environ.get("RANK", "0")) == 0  # under torchrun every rank comes by here
    if first and (reason := why_not_on_gpus(config)):
        print(reason, file=sys.stderr)
    failure = None
    try:
        report = train(
            config,
            engine=args.engine,
            threads=args.threads,
            timeout=args.timeout,
            progress=not args.quiet and first,
            gradients=args.gradients,
            force=args.force,
        )
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 1
    except GradientsNotWrittenError as lost:
        # the run itself is not lost with them
        report, failure = lost.report, lost
    if first:
        if args.json:
            try:
                write_text(args.json, report.to_json())
            except OSError as error:
                failure = error  # after the summary, which is then all that is left
        print(summary(report))
    if failure:
        raise failure
    return 0


def summary(report: Report) -> str:
    """The report's main figures as a few lines of text."""
    rank, lines = report.ranks[0], []
    if report.loss:
        lines.append(
            t(
                f"loss {report.loss[0]:.4f} → {report.loss[-1]:.4f} in {len(report.loss)} steps",
                f"损失 {report.loss[0]:.4f} → {report.loss[-1]:.4f}，共 {len(report.loss)} 步",
            )
        )
    lines.append(
        t(
            f"{report.parameters:,} parameters, {report.world_size} rank(s), {report.device}",
            f"{report.parameters:,} 个参数，{report.world_size} 个进程，{report.device}",
        )
    )
    unit, amounts = in_one_scale(
        {term: value for term, value in rank.memory.items() if value and term != "at_peak"}
    )
    memory = ", ".join(f"{term} {amount}" for term, amount in amounts.items())
    lines.append(t(f"memory of rank 0 in {unit}: {memory}", f"rank 0 的内存（{unit}）：{memory}"))
    if report.basis:
        lines.append(t(f"({report.basis})", f"（{report.basis}）"))
    for entry in rank.traffic:
        calls, payload, wire = (
            f"{entry.calls} × {entry.op}",
            f"{entry.bytes:,}",
            f"{entry.wire_bytes:,}",
        )
        lines.append(
            t(
                f"traffic of rank 0 per step: {calls} on {entry.axis} ({entry.purpose}), payload"
                f" {payload} bytes, on the wire {wire} bytes",
                f"rank 0 每步通信：{calls}（{entry.axis} 轴，{entry.purpose}），数据量 {payload}"
                f" 字节，实发 {wire} 字节",
            )
        )
    if rank.time.get("step"):
        parts = ", ".join(
            f"{part} {1e3 * value:.2f} ms" for part, value in rank.time.items() if value is not None
        )
        lines.append(
            t(f"time of rank 0, median step: {parts}", f"rank 0 的时间（中位步）：{parts}")
        )
        lines.append(
            t(
                f"{report.tokens_per_second:,.0f} tokens/s",
                f"每秒 {report.tokens_per_second:,.0f} 个词元",
            )
        )
    return "\n".join(lines)
