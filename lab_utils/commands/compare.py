"""Lay an estimated report beside a measured one, term by term."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..comparison import compare
from ..i18n import t
from ..report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two reports."""
    parser.add_argument(
        "estimated", type=Path, help=t("report of `estimate --json`", "`estimate --json` 的报告")
    )
    parser.add_argument(
        "measured", type=Path, help=t("report of `train --json`", "`train --json` 的报告")
    )
    parser.add_argument("--rank", type=int, default=0, help=t("which rank", "比较哪个 rank"))


def run(args: argparse.Namespace) -> int:
    """Carry out `compare`."""
    try:
        estimated, measured = (
            Report.from_json(path.read_text(encoding="utf-8"))
            for path in (args.estimated, args.measured)
        )
        print(compare(estimated, measured, ranks=[args.rank]))
    except (OSError, json.JSONDecodeError, ValueError, KeyError, IndexError) as error:
        print(
            t(f"these two cannot be compared: {error}", f"无法比较这两份报告：{error}"),
            file=sys.stderr,
        )
        return 2
    return 0
