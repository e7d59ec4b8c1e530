"""`grade`: a class's submissions to one lab, judged from outside."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..config import ConfigError
from ..i18n import LANGUAGES, set_language, t
from ..remedies import refuse_without_torch
from .flags import one_sentence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `grade`."""
    parser.add_argument(
        "submissions",
        type=Path,
        help=t(
            "a folder with NAME.ipynb, or NAME/any.ipynb, for each student",
            "文件夹，每个学生一份 姓名.ipynb，或 姓名/任意.ipynb",
        ),
    )
    parser.add_argument("--lab", required=True, help=t("its number, as 05", "实验编号，如 05"))
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help=t(
            "a folder for grades.csv, a feedback page per student, a summary; what it has is kept",
            "输出文件夹：grades.csv、每个学生的反馈页、总览；已有的结果会保留",
        ),
    )
    parser.add_argument(
        "--hidden",
        type=Path,
        help=t(
            "a folder with judges of your own, labNN.py", "你自己的评分规则所在文件夹，labNN.py"
        ),
    )
    parser.add_argument(
        "--seed", help=t("decides the hidden cases (default: new)", "决定隐藏用例（默认随机）")
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=0,
        help=t("at a time (default: cores)", "同时评几份（默认核数）"),
    )
    parser.add_argument("--again", action="store_true", help=t("grade all anew", "全部重新评分"))
    parser.add_argument("--lang", choices=LANGUAGES, help=t("of the summary", "总览的语言"))


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Grade, and write what was found. Returns 0 when every file could be graded."""
    refuse_without_torch()
    from tqdm import tqdm

    from ..course.check import HOMES
    from ..grade.batch import grade_all
    from ..grade.report import write_report

    if args.lang:
        set_language(args.lang)
    lab = f"lab{args.lab.removeprefix('lab').zfill(2)}"
    if not args.hidden and lab not in {home.lab for home in HOMES.values()}:
        known = ", ".join(sorted({home.lab[3:] for home in HOMES.values()}))
        raise ConfigError(
            t(
                f"there is no lab {args.lab}; there are {known}.",
                f"没有实验 {args.lab}；有 {known}。",
            )
        )
    with tqdm(total=0, unit=t(" files", " 份"), disable=not sys.stderr.isatty()) as bar:

        def progress(done: int, of: int) -> None:
            bar.total, bar.n = of, done
            bar.refresh()

        records = grade_all(
            args.submissions,
            lab,
            args.out,
            seed=args.seed,
            hidden=args.hidden,
            jobs=args.jobs,
            again=args.again,
            progress=progress,
        )
    write_report(records, lab, args.out)
    ungraded = sum(not record["exercises"] for record in records)
    print(
        t(
            f"{len(records)} submissions; {args.out / 'summary.html'}, {args.out / 'grades.csv'}",
            f"共 {len(records)} 份；见 {args.out / 'summary.html'}、{args.out / 'grades.csv'}",
        )
    )
    if ungraded:
        print(
            t(
                f"{ungraded} without a mark: the column `trouble` says why; the same command tries"
                " them anew.",
                f"{ungraded} 份没有得分：原因见 trouble 一列；再运行一次同样的命令会重新评这几份。",
            ),
            file=sys.stderr,
        )
    return 1 if ungraded else 0
