"""`show(fn)`: a notebook never repeats an implementation, it prints the real one."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

from ..i18n import t

PACKAGE = Path(__file__).resolve().parents[1]


def source_of(thing: Any) -> tuple[str, str]:
    """Where `thing` is defined, as "lab_utils/room/file.py:line", and its source, dedented.

    Raises ValueError for anything that is not a function, a class, a method or a module of lab_utils.
    """
    thing = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", thing))
    refusal = ValueError(t(f"show prints functions, classes and modules of lab_utils; {thing!r} is none of them.",
                           f"show 只能显示 lab_utils 里的函数、类和模块，{thing!r} 不在其中。"))
    try:
        path = Path(inspect.getsourcefile(thing) or "").resolve()
        lines, first = inspect.getsourcelines(thing)
    except (TypeError, OSError) as error:
        raise refusal from error
    if not path.is_relative_to(PACKAGE):
        raise refusal
    where = path.relative_to(PACKAGE.parent).as_posix()
    heading = where if isinstance(thing, ModuleType) else f"{where}:{first}"
    return heading, textwrap.dedent("".join(lines)).rstrip()


def show(*things: Any) -> None:
    """Print the source of functions, classes or modules of lab_utils, each under its file and line, highlighted.

    Raises ValueError for what is not lab_utils' own.
    """
    from IPython.display import display

    for heading, source in [source_of(thing) for thing in things]:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", source)), default=0))
        display({"text/markdown": f"**{heading}**\n\n{fence}python\n{source}\n{fence}", "text/plain": f"{heading}\n\n{source}"}, raw=True)
