"""`python -m lab_utils new NN name`: a lesson, its tool and its lab, small and whole, to be written
over. They build and pass their checks as they are; lessons/source/README.md says what each file is
for, and the files themselves lie in lessons/source/skeleton."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from ..i18n import t

SKELETON = Path(__file__).resolve().parents[2] / "lessons" / "source" / "skeleton"
# file of the skeleton → where it goes
FILES = {
    "lesson.md": "lessons/source/@NN@_@NAME@.md",
    "tool_init.py.txt": "lab_utils/widgets/@NAME@/__init__.py",
    "tool.py.txt": "lab_utils/widgets/@NAME@/tool.py",
    "lab_init.py.txt": "lab_utils/course/checks/lab@NN@/__init__.py",
    "exercise.py.txt": "lab_utils/course/checks/lab@NN@/shares.py",
    "hints.md": "lab_utils/course/checks/lab@NN@/hints.md",
    "solution.md": "solutions/source/@NN@_@NAME@.md",
    "planted.md": "solutions/planted/@NN@_@NAME@.md",
}
# what a lab without a lesson does not have
LESSON = ("lesson.md", "tool_init.py.txt", "tool.py.txt")
# the one registry: check → its lab and what the notebook calls the answer
REGISTRY = "lab_utils/course/check.py"
HOMES = re.compile(r"^HOMES = \{\n(?:.*\n)*?(?=^\}$)", re.M)


class NewError(Exception):
    """A lesson that cannot be begun; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `new`."""
    parser.add_argument("number", metavar="NN", help="two digits, as 07")
    parser.add_argument("name", help="a Python name, as tensor_parallelism")
    parser.add_argument(
        "--title", nargs=2, metavar=("EN", "ZH"), help="in both languages (default: from the name)"
    )
    parser.add_argument(
        "--lab", action="store_true", help="a lab by itself, without a lesson and a tool"
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path.cwd(),
        metavar="DIR",
        help="the repository (default: here)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the files and say what comes next; the exit status is 1 when nothing was written."""
    try:
        made = begin_lesson(args.root, args.number, args.name, args.title, args.lab)
    except NewError as error:
        print(error, file=sys.stderr)
        return 1
    for path in made:
        print(path.relative_to(args.root))
    print(
        t(
            f"{REGISTRY} names the lab's check. Next: python -m lab_utils build {args.number}",
            f"{REGISTRY} 已登记这个实验的检查。下一步：python -m lab_utils build {args.number}",
        )
    )
    return 0


def begin_lesson(
    root: Path,
    number: str,
    name: str,
    title: tuple[str, str] | list[str] | None = None,
    lab_only: bool = False,
) -> list[Path]:
    """Write lesson `number` called `name` into the repository at `root`, or its lab alone; returns
    the new files.

    Raises NewError, before anything is written, for a number or name that will not do or is taken.
    """
    if not re.fullmatch(r"\d\d", number):
        raise NewError(
            t(f"{number}: give two digits, as 07.", f"{number}：请给出两位数字，如 07。")
        )
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise NewError(
            t(
                f"{name}: give a Python name in small letters, as tensor_parallelism.",
                f"{name}：请给出小写的 Python 名字，如 tensor_parallelism。",
            )
        )
    taken = sorted((root / "lessons" / "source").glob(f"{number}_*.md"))
    words = {
        "@NN@": number,
        "@NAME@": name,
        "@EN@": title[0] if title else name.replace("_", " ").capitalize(),
        "@ZH@": title[1] if title else f"第 {int(number)} 课",
    }
    files = {
        root / _filled(place, words): _filled((SKELETON / source).read_text("utf-8"), words)
        for source, place in FILES.items()
        if not (lab_only and source in LESSON)
    }
    taken += [path for path in files if path.exists()]
    if taken:
        there = ", ".join(str(path.relative_to(root)) for path in taken)
        raise NewError(t(f"{there} is there already.", f"{there} 已经存在。"))
    registry = root / REGISTRY
    homes = HOMES.search(registry.read_text("utf-8")) if registry.is_file() else None
    if homes is None:
        raise NewError(
            t(
                f"{root} holds no {REGISTRY}: run this in the repository, or give --root.",
                f"{root} 里没有 {REGISTRY}：请在仓库目录中运行，或用 --root 指定。",
            )
        )
    entry = f'    "share_{name}": Home("lab{number}", "share"),\n'
    registry.write_text(
        registry.read_text("utf-8").replace(homes[0], homes[0] + entry), encoding="utf-8"
    )
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _lay_out(root, [path for path in files if path.suffix == ".py"])
    return list(files)


def _lay_out(root: Path, modules: list[Path]) -> None:
    """By the repository's formatter: where lines break depends on how long the names are."""
    command = [sys.executable, "-m", "ruff", "format", "--quiet", *map(str, modules)]
    if subprocess.run(command, cwd=root).returncode:
        print(
            t(
                "Not formatted, as ruff is missing: pip install -r requirements-test.txt",
                "没有安装 ruff，文件未排版：pip install -r requirements-test.txt",
            ),
            file=sys.stderr,
        )


def _filled(text: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text
