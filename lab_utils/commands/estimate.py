"""Predict what a step will cost, without running it and without torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import writable, write_text
from ..i18n import t
from .flags import add_config_flags, config_from, one_sentence, whole_from_1
from .train import summary

if TYPE_CHECKING:
    from ..config import Cluster, TrainConfig
    from ..estimate.time.step import StepTime


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration's flags and the machine's."""
    from ..estimate.hardware import HARDWARE

    add_config_flags(parser)
    known = (", ".join(HARDWARE), "、".join(HARDWARE))
    parser.add_argument(
        "--gpu",
        default=None,
        metavar="NAME",
        help=t(
            f"{known[0]}; default: this machine's CPU, bytes only until doctor --calibrate has run",
            f"{known[1]}；默认为本机 CPU，运行 doctor --calibrate 之前只估算字节",
        ),
    )
    parser.add_argument(
        "--gpus-per-node",
        type=whole_from_1,
        default=8,
        help=t("GPUs in one machine", "每台机器的 GPU 数"),
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=None,
        help=t("write the report to this file", "把报告写入此文件"),
    )


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Carry out `estimate`."""
    from .. import estimate
    from ..estimate.hardware import cluster, this_machine
    from ..estimate.time.step import rates_are_known, step_time

    writable(args.json)
    config = config_from(args)
    machine = (
        cluster(args.gpu, args.gpus_per_node)
        if args.gpu
        else this_machine(config.parallel.world_size, config.precision)
    )
    report = estimate(config, machine)
    if args.json:
        write_text(args.json, report.to_json())
    print(summary(report))
    if shortage := does_not_fit(config, machine if args.gpu else None):
        print(shortage)
    if rates_are_known(config, machine):
        print(bottleneck(step_time(config, machine)))
    return 0


def does_not_fit(config: TrainConfig, machine: Cluster | None) -> str | None:
    """The sentence that says so, with what would fit: on the GPUs of a cluster, or (None) in what
    is free of this machine's memory now."""
    from ..estimate.fit import does_not_fit_gpu, does_not_fit_here, what_would_fit
    from ..machine import free_memory

    free = free_memory()

    def shortage(asked: TrainConfig) -> str | None:
        return does_not_fit_gpu(asked, machine) if machine else does_not_fit_here(asked, free)

    if (reason := shortage(config)) is None:
        return None
    advice = what_would_fit(config, lambda other: shortage(other) is None)
    return t(f"{reason} {advice}", f"{reason}{advice}")


def bottleneck(time: StepTime) -> str:
    """What the step is bound by, and what each resource would save if it were free."""
    from ..estimate.plan.words import resource_words

    saved = sorted(
        (
            (seconds / time.step, resource_words(resource))
            for resource, seconds in time.savings.items()
        ),
        reverse=True,
    )
    shares = ", ".join(f"{name} {share:.1%}" for share, name in saved if share >= 1e-3)
    return t(
        f"bound by {saved[0][1]}; the step would be shorter if each were free: {shares}",
        f"瓶颈：{saved[0][1]}；若各项资源无限快，步时可缩短：{shares}",
    )
