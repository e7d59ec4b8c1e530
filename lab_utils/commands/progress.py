"""`progress`: which questions were answered and which exercises have passed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..i18n import LANGUAGES, language, set_language, t
from ..text import Table, table
from .flags import one_sentence

if TYPE_CHECKING:
    from ..course.standing import Exercise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `progress`."""
    parser.add_argument(
        "lesson", nargs="*", help=t("only these lessons, as 05 06", "只看这几课，如 05 06")
    )
    parser.add_argument(
        "--figures",
        action="store_true",
        help=t("also what each passing answer measured", "同时给出每个通过的答案实测了什么"),
    )
    parser.add_argument("--json", type=Path, help=t("also write it to this file", "同时写入此文件"))
    parser.add_argument(
        "--lang",
        choices=LANGUAGES,
        help=t(
            "language of the answer (default: LAB_LANG, or English)",
            "输出语言（默认取 LAB_LANG，否则为英文）",
        ),
    )


@one_sentence
def run(args: argparse.Namespace) -> int:
    """Print where the learner stands. Exit status 2 for a lesson that there is not."""
    from ..config import ConfigError
    from ..course import progress
    from ..course.standing import as_json, overview, standing
    from ..files import writable

    if args.lang:
        set_language(args.lang)
    lessons = standing()
    known = [lesson.number for lesson in lessons]
    unknown = sorted({*args.lesson} - {*known})
    if unknown:
        raise ConfigError(
            t(
                f"there is no lesson {', '.join(unknown)}; there are {', '.join(known)}.",
                f"没有第 {'、'.join(unknown)} 课；现有 {'、'.join(known)}。",
            )
        )
    lessons = [one for one in lessons if not args.lesson or one.number in args.lesson]
    if args.json:
        writable(args.json)
    print(overview(lessons))
    for exercise in [one for lesson in lessons for one in lesson.passed if args.figures]:
        print(f"\ncheck.{exercise.check}\n{figures(exercise)}")
    place = progress.folder()
    if place is None:
        print(t("nothing is kept: LAB_PROGRESS is empty.", "LAB_PROGRESS 为空，不保存进度。"))
    else:
        print(t(f"kept in {place}", f"保存在 {place}"))
    if args.json:
        text = json.dumps(as_json(lessons), ensure_ascii=False, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


def figures(exercise: Exercise) -> Table:
    """What the passing answer did, case by case, with the headings of the reader's language where
    the exercise's declaration can be loaded (it needs torch)."""
    measured = exercise.measured or []
    if not isinstance(measured, Mapping):
        return table([[exercise.check], *([line] for line in measured)])
    words = _headings(exercise.check)
    heads = [words.get(name, name) for name in measured]
    values = [column if isinstance(column, list) else [column] for column in measured.values()]
    return table([heads, *zip(*values, strict=False)])


def _headings(name: str) -> dict[str, str]:
    from ..course import check

    if language() == "en" or not find_spec("torch") or name not in check.HOMES:
        return {}
    return {column.en: column.zh for column in getattr(check, name).columns}
