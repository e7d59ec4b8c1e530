"""A challenge is a ladder of two or three steps, each with a task that checks itself, says how far
off the learner is, and once solved why it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...i18n import t
from .controls import Control, State, Words, say


@dataclass(frozen=True, kw_only=True)
class Need:
    """One condition over a few controls. `far(state, lang)` says in words with numbers how far off
    the state is ("84 % of 90 %: the last bucket holds the embedding"), None where it is met."""

    controls: tuple[str, ...]
    far: Callable[[State, str], str | None]

    def told(self, state: State, lang: str) -> str | None:
        """`far` in a state that may have more controls than the need's."""
        return self.far({name: state[name] for name in self.controls}, lang)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the ladder: met when every need is; the first that is not speaks. `why`: why the
    solution works. `solution`: control → value over the tool's first state, a layout that one would
    copy. `fits`: name of a SumPanel whose fullest bar must fit, too, after all needs are met."""

    task: Words
    needs: tuple[Need, ...]
    why: Words
    solution: State
    fits: str | None = None


def given(controls: Sequence[Control], **values: Any) -> Need:
    """What a step takes as given: controls of the tool that have to stand at these values."""
    named = {control.name: control for control in controls if control.name in values}

    def far(state: State, lang: str) -> str | None:
        wrong = [
            f"{say(control.label, lang)} = {say(dict(control.choices(values))[values[name]], lang)}"
            for name, control in named.items()
            if state[name] != values[name]
        ]
        if not wrong:
            return None
        listed = t(", ", "，", lang).join(wrong)
        return t(f"this step takes as given {listed}.", f"本关的给定条件：{listed}。", lang)

    return Need(controls=tuple(named), far=far)
