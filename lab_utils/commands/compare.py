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
        found = compare(_read(args.estimated), _read(args.measured), ranks=[args.rank])
    except ValueError as error:
        print(
            t(f"these two cannot be compared: {error}", f"无法比较这两份报告：{error}"),
            file=sys.stderr,
        )
        return 2
    print(found)
    return 0


def _read(path: Path) -> Report:
    """The report of a file; raises ValueError with a sentence that names it."""
    try:
        return Report.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        reason = t(
            "there is no such file; `train --json` and `estimate --json` write one.",
            "没有这个文件；`train --json` 与 `estimate --json` 会写出报告。",
        )
    except OSError as error:
        reason = t(f"cannot be read ({error.strerror}).", f"无法读取（{error.strerror}）。")
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        reason = t("this is no JSON text.", "这不是 JSON 文本。")
    except ValueError as error:
        reason = str(error)
    raise ValueError(t(f"{path}: {reason}", f"{path}：{reason}")) from None
