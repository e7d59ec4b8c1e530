"""What the cells that the build injects call: `begin` on top of a notebook, `todo` where an answer
is missing."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from .. import __version__
from ..i18n import set_language, t
from .questions.ask import cover_reveals


def begin(lang: str, made_with: str = __version__) -> None:
    """Set the language of a notebook ("en" or "zh"), have results covered until they are guessed,
    and plotly save figures as data, not as 5 MB of script. Says so where the notebook was made with
    another version of the package than the one that is installed."""
    set_language(lang)
    if made_with != __version__:
        print(
            t(
                f"This notebook was made with version {made_with} of the course, and {__version__}"
                " is installed: its figures may differ. Take both from the same place.",
                f"这份 notebook 出自课程的 {made_with} 版，而安装的是 {__version__} 版，"
                "数字可能不同。请让两者来自同一处。",
            )
        )
    cover_reveals()
    # Colab draws plotly figures in a way of its own
    if "google.colab" not in sys.modules:
        os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")


class Todo(NotImplementedError):
    """An exercise that waits for its answer. A notebook prints its sentence without a stack
    trace."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def todo(exercise: str = "…") -> NoReturn:
    """Stop here, kindly: the learner's code for `exercise` is still missing. Raises Todo."""
    raise Todo(
        t(
            f"✏️ Exercise {exercise} is yours: at “YOUR CODE HERE”, put your code in the place of"
            " todo(…), and run the cell again.",
            f"✏️ 轮到你了：练习 {exercise} 尚未完成。"
            "请在“在此处编写代码”处，用你的代码替换 todo(…)，再运行一次。",
        )
    )


class Interrupted(KeyboardInterrupt):
    """A check that the learner stopped. A notebook prints its sentence without a stack trace."""

    def __init__(self) -> None:
        super().__init__(
            t(
                "The check was stopped before its end; none of its processes is left.",
                "自动检查中途被停止，它启动的进程都已结束。",
            )
        )

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
