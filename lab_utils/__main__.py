"""`python -m lab_utils COMMAND`: each command's flags and work live in a room of their own, loaded
when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import NoReturn

from .commands.help import HelpFormatter, in_readers_language
from .config import ConfigError
from .i18n import t
from .remedies import refuse_without_torch

# name: (module with add_arguments(parser) and run(args) -> exit status, one line of help in both
# languages)
COMMANDS = {
    "train": (
        "lab_utils.commands.train",
        "train for real, and report what a step cost",
        "真实训练，并报告每一步的开销",
    ),
    "estimate": (
        "lab_utils.commands.estimate",
        "predict what a step will cost",
        "预测每一步的开销",
    ),
    "plan": (
        "lab_utils.commands.plan",
        "the fastest layouts of a model on a cluster",
        "一个模型在一个集群上最快的并行布局",
    ),
    "compare": (
        "lab_utils.commands.compare",
        "an estimated report beside a measured one",
        "把估算与实测的报告并排比较",
    ),
    "bench": (
        "lab_utils.commands.bench",
        "two ways of the same work, side by side",
        "同一份工作的两种做法，并排计时",
    ),
    "doctor": (
        "lab_utils.commands.doctor",
        "what this machine can do, and how to mend what it cannot",
        "这台机器能做什么，不能做的如何补救",
    ),
    "build": (
        "lab_utils.course.build",
        "make and execute the notebooks from their sources",
        "由源文件生成并运行 notebook",
    ),
    "progress": (
        "lab_utils.commands.progress",
        "which questions you have answered, which exercises have passed",
        "答过哪些题，通过了哪些练习",
    ),
    "grade": (
        "lab_utils.commands.grade",
        "a class's submissions to a lab, judged from outside",
        "从外部评判全班的实验作业",
    ),
    "site": (
        "lab_utils.course.site.command",
        "the course as static pages, without a kernel",
        "把课程生成为静态网页，无需内核",
    ),
    "new": (
        "lab_utils.course.new",
        "begin a lesson with its tool and its lab",
        "新建一课，连同工具和实验",
    ),
}


NEED_TORCH = ("train", "bench", "build")


class _Flags(argparse.ArgumentParser):
    """A wrong flag is answered in one sentence; the page of usage is left to --help."""

    def error(self, message: str) -> NoReturn:
        self.exit(
            2,
            t(
                f"{self.prog}: {message}; --help lists what there is.\n",
                f"{self.prog}：{message}；用 --help 查看全部参数。\n",
            ),
        )


def parse(argv: Sequence[str]) -> tuple[ModuleType, argparse.Namespace]:
    """The module of the command that `argv` names, and its flags. Exits with one sentence for what
    is not understood."""
    parser = _Flags(
        prog="python -m lab_utils",
        description="LLM Training Lab · 大模型训练实验室",
        formatter_class=HelpFormatter,
    )
    in_readers_language(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, en, zh) in COMMANDS.items():
        commands.add_parser(name, help=t(en, zh), add_help=False)
    called = parser.parse_known_args(argv[:1])[0].command
    if called in NEED_TORCH:
        try:
            refuse_without_torch()
        except ConfigError as error:
            parser.exit(2, f"{error}\n")
    home = importlib.import_module(COMMANDS[called][0])
    flags = _Flags(
        prog=f"python -m lab_utils {called}",
        description=t(home.__doc__, COMMANDS[called][2] + "。"),
        formatter_class=HelpFormatter,
    )
    in_readers_language(flags)
    home.add_arguments(flags)
    return home, flags.parse_args(argv[1:])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status: 0, 1 where ranks failed, 2 for what was refused,
    130 after an interrupt, 141 where nobody reads the output any more."""
    _speak_any_language()
    try:
        home, args = parse(sys.argv[1:] if argv is None else argv)
        status = home.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        said = t("interrupted; no rank is left.", "已中断，没有残留的进程。")
        print(said, file=sys.stderr)
        return 130
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            status = 141
        else:
            said = t(f"nothing can be printed: {error}", f"无法输出：{error}")
            print(said, file=sys.stderr)
            status = 2
        # what is still in the buffer would fail again as Python ends
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _speak_any_language() -> None:
    """A terminal that has no letter for a character gets its number, not an error."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
