"""`doctor`: what this machine can do, and how fast it is."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from .. import server
from ..config import ConfigError
from ..doctor import CHECKS, Finding
from ..i18n import LANGUAGES, set_language, t
from ..remedies import refuse_without_torch
from .flags import one_sentence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `doctor`."""
    parser.add_argument(
        "--lang",
        choices=LANGUAGES,
        help=t(
            "language of the answer (default: LAB_LANG, or English)",
            "输出语言（默认取 LAB_LANG，否则为英文）",
        ),
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help=t(
            "measure this machine's speeds for half a minute, so that estimate predicts times",
            "用大约半分钟测量本机速度，estimate 便能预测时间",
        ),
    )
    parser.add_argument(
        "--server",
        nargs="?",
        type=int,
        const=30,
        metavar="LEARNERS",
        help=t(
            "whether this machine carries so many learners at once (30 if no number is given)",
            "这台机器能否同时容纳这么多学员（不写数字时为 30）",
        ),
    )
    parser.add_argument(
        "--json",
        type=Path,
        help=t("also write the calibration to this file", "同时把校准结果写入此文件"),
    )


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Print every finding; the exit status is 1 only if something essential is missing."""
    if args.lang:
        set_language(args.lang)
    findings = [finding for check in CHECKS if (finding := check()) is not None]
    if args.server is not None:
        if args.server < 1:
            raise ConfigError(
                t(
                    f"--server takes a number of learners, 1 or more, not {args.server}.",
                    f"--server 后面是学员人数，至少为 1，而不是 {args.server}。",
                )
            )
        findings += server.findings(args.server)
    for finding in findings:
        print(finding)
    failed = int(any(f.remedy and f.essential for f in findings))
    return failed or (calibrate(args.json) if args.calibrate else 0)


def calibrate(copy: Path | None = None) -> int:
    """Measure this machine in a process of its own (it needs torch), keep the result, and say
    where."""
    from ..estimate.hardware.calibration import calibration_file
    from ..files import writable

    refuse_without_torch()
    kept = [path for path in (calibration_file(), copy) if path is not None]
    _make_folder(kept[0].parent)
    for path in kept:
        writable(path)
    print(
        t(
            "measuring: leave the machine alone for half a minute",
            "正在测量：请在半分钟内不要使用这台机器",
        ),
        flush=True,
    )
    code = "import sys; from lab_utils.measure.calibrate import main; main(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", code, *map(str, kept)], check=False)
    if done.returncode == 0:
        print(Finding(t("calibration", "校准"), ", ".join(map(str, kept))))
    return done.returncode


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            t(
                f"the calibration cannot be kept in {folder} ({error.strerror}): set"
                " LAB_UTILS_CACHE to a folder that you may write to.",
                f"校准结果无法保存到 {folder}（{error.strerror}）：请把 LAB_UTILS_CACHE"
                " 设为有写权限的文件夹。",
            )
        ) from None
