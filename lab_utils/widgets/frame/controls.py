"""Controls and panels: the parts from which a tool is declared, and the states that they span.

A control is a list of options; a state is one option of each control. A panel draws the state of
*some* controls, so a tool with many controls stays small: its table holds the sum of its panels'
states, not their product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .scene import Scene

Words = str | tuple[str, str]  # the same in both languages, or (English, Chinese)
Option = tuple[Any, Words]  # what scenes get, what the page shows
State = Mapping[str, Any]  # control name → the option's value


def say(words: Words, lang: str) -> str:
    """The words in one language."""
    return words if isinstance(words, str) else words[lang == "zh"]


@dataclass(frozen=True, kw_only=True)
class Control:
    """One choice of the learner; `start` is the index of the option that a tool opens with. `only`:
    (another control, one of its values) with which alone this one does anything; else the page
    greys it out."""

    name: str
    label: Words
    options: Sequence[Option] | Mapping[Any, Sequence[Option]]
    start: int = 0
    only: tuple[str, Any] | None = None
    kind: ClassVar[str]
    by: ClassVar[str | None] = None
    play: ClassVar[bool] = False
    still: ClassVar[Any] = None

    def choices(self, state: State) -> Sequence[Option]:
        """The options that there are, given the values of the controls before this one."""
        return self.options[state[self.by]] if self.by else self.options

    @property
    def size(self) -> int:
        """The number of options; the most there can be, if they depend on another control."""
        return max(map(len, self.options.values())) if self.by else len(self.options)


@dataclass(frozen=True, kw_only=True)
class Slider(Control):
    """Ordered options. `by` names an earlier control whose value decides which options there are:
    `options` then maps each of its values to a list. `play` adds a button that moves the slider to
    its end; `still` is the value at which its story stands in a picture that cannot move, the last
    one where none is named."""

    kind: ClassVar[str] = "slider"
    by: str | None = None
    play: bool = False
    still: Any = None


@dataclass(frozen=True, kw_only=True)
class Select(Control):
    """A drop-down list."""

    kind: ClassVar[str] = "select"


@dataclass(frozen=True, kw_only=True)
class Checkbox(Control):
    """A box that is off or on."""

    kind: ClassVar[str] = "checkbox"
    options: Sequence[Option] = ((False, ("off", "关")), (True, ("on", "开")))


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A button above a panel that sets several controls at once: control name → value."""

    label: Words
    state: State


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture of `width` × `height` units: `scene(state, lang)` draws the state of the named
    controls; `presets` stand above it."""

    name: str
    scene: Callable[[State, str], Scene]
    controls: tuple[str, ...]
    width: int
    height: int
    presets: Sequence[Preset] = ()


def option_lists(control: Control, by_name: Mapping[str, Control]) -> list[Sequence[Option]]:
    """The lists of options that a control can have: one, or one for each option of the control that
    decides them, in its order."""
    if control.by is None:
        return [control.options]
    return [control.options[value] for value, _ in by_name[control.by].options]


def start_state(controls: Sequence[Control]) -> dict[str, Any]:
    """The values that a tool opens with."""
    state: dict[str, Any] = {}
    for control in controls:
        state[control.name] = control.choices(state)[control.start][0]
    return state


def still_state(controls: Sequence[Control]) -> dict[str, Any]:
    """The values of a picture that cannot move: what a tool opens with, its story told."""
    state: dict[str, Any] = {}
    for control in controls:
        choices = control.choices(state)
        told = choices[-1][0] if control.still is None else control.still
        state[control.name] = told if control.play else choices[control.start][0]
    return state


def count_states(controls: Sequence[Control]) -> int:
    """Length of `states`."""
    return math.prod(control.size for control in controls)


def states(controls: Sequence[Control]) -> Iterator[dict[str, Any] | None]:
    """Every state, the last control running fastest; None where a control has fewer options than
    its size."""
    for indices in itertools.product(*(range(control.size) for control in controls)):
        state: dict[str, Any] | None = {}
        for control, i in zip(controls, indices, strict=True):
            choices = control.choices(state)
            if i >= len(choices):
                state = None
                break
            state[control.name] = choices[i][0]
        yield state
