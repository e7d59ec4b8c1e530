"""The plainest condition of a challenge: that some controls have a wanted value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...i18n import t
from .challenge import Need
from .controls import Control, State, say


def asked(controls: Sequence[Control], **wanted: Any) -> Need:
    """A need of one value, or of one of a tuple of values, for each of the named controls (none of
    those whose options depend on another); in words: which control has another one, and what is
    asked."""
    by_name = {control.name: control for control in controls}

    def far(state: State, lang: str) -> str | None:
        for name, values in wanted.items():
            values = values if isinstance(values, tuple) else (values,)
            if state[name] not in values:
                words = {value: say(word, lang) for value, word in by_name[name].options}
                label, shown = say(by_name[name].label, lang), words[state[name]]
                or_ = t(" or ", " 或 ", lang).join(words[value] for value in values)
                return t(
                    f"{label} is {shown}; asked: {or_}.",
                    f"{label}：现为“{shown}”，要求“{or_}”。",
                    lang,
                )
        return None

    return Need(controls=tuple(wanted), far=far)
