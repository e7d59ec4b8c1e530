"""Predict what a step will cost, without running it and without torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..i18n import t
from .flags import add_config_flags, config_from, one_sentence, whole_from_1
from .train import summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration's flags and the machine's."""
    from ..estimate.hardware import HARDWARE

    add_config_flags(parser)
    parser.add_argument("--gpu", default=None, metavar="NAME", help=t(f"{', '.join(HARDWARE)}; default: this machine's CPU, bytes only",
                                                                      f"{'、'.join(HARDWARE)}；默认为本机 CPU，只估算字节"))
    parser.add_argument("--gpus-per-node", type=whole_from_1, default=8, help=t("GPUs in one machine", "每台机器的 GPU 数"))
    parser.add_argument("--json", type=Path, default=None, help=t("write the report to this file", "把报告写入此文件"))


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Carry out `estimate`."""
    from .. import estimate
    from ..estimate.hardware import cluster
    from . import writable

    writable(args.json)
    report = estimate(config_from(args), cluster(args.gpu, args.gpus_per_node) if args.gpu else None)
    print(summary(report))
    if args.json:
        args.json.write_text(report.to_json(), encoding="utf-8")
    return 0
