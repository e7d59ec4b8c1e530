"""What a test does on the page of any tool, found in the tool's own declaration."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from pairs import EXHAUSTIVE

from lab_utils.widgets import rooms
from lab_utils.widgets.frame import Explorer, SumPanel
from lab_utils.widgets.frame.controls import start_state

LANGS = ("en", "zh")
# in `make test` the first tool and the last: what is tried is the frame that all stand in
NAMES = rooms() if EXHAUSTIVE else [*dict.fromkeys((rooms()[0], rooms()[-1]))]


@cache
def make(name: str, lang: str) -> Explorer:
    """A tool by the name of its room; its table is made when it is first asked for."""
    return import_module(f"lab_utils.widgets.{name}").explorer(lang)


def key_presses(tool: Explorer) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every control in the order of the page: its name, a key that moves it, and the state that the
    tool is then in."""
    state = start_state(tool.controls)
    placed = dict.fromkeys(name for panel in tool.panels for name in controls_of(tool, panel))
    by_name = {control.name: control for control in tool.controls}
    for name in placed:
        control = by_name[name]
        if control.only and state[control.only[0]] != control.only[1]:
            continue  # greyed out
        values = [value for value, _ in control.choices(state)]
        at = values.index(state[name])
        is_last = at == len(values) - 1
        key = {"checkbox": "Space", "select": "ArrowDown", "slider": "ArrowRight"}[control.kind]
        if is_last and key != "Space":
            key = {"select": "ArrowUp", "slider": "ArrowLeft"}[control.kind]
        state = state | {name: values[at - 1 if is_last else at + 1]}
        for other in tool.controls:  # a list that became shorter ends where it ends now
            if other.by == name:
                left = [value for value, _ in other.choices(state)]
                before = other.choices(state | {name: values[at]})
                i = [value for value, _ in before].index(state[other.name])
                state = state | {other.name: left[min(i, len(left) - 1)]}
        yield name, key, state


def controls_of(tool: Explorer, panel: Any) -> list[str]:
    """A panel's controls in the order in which they stand above it."""
    return [control.name for control in tool.controls if control.name in panel.controls]


def slides(tool: Explorer, at_least: int = 32) -> list[tuple[str, str]]:
    """(control, key) of many moves of all sliders, to and fro."""
    moves: list[tuple[str, str]] = []
    state = start_state(tool.controls)
    sliders = [control for control in tool.controls if control.kind == "slider"]
    while len(moves) < at_least:
        for control in sliders:
            values = [value for value, _ in control.choices(state)]
            right = len(values) - 1 - values.index(state[control.name])
            moves += [(control.name, "ArrowRight")] * right
            moves += [(control.name, "ArrowLeft")] * right
    return moves


def looks(tool: Explorer, count: int = 90) -> Iterator[dict[str, Any]]:
    """States to look at: what solves the challenge, then one control after the other at random, and
    every moment of a story."""
    for step in tool.steps:
        yield tool.solution(step)
    draw, state = random.Random(4), start_state(tool.controls)
    for control in tool.controls:
        for value, _ in control.choices(state) if control.play else ():
            yield state | {control.name: value}
    for _ in range(count):
        control = draw.choice(tool.controls)
        if control.by is None:
            value = draw.choice(control.options)[0]
            yield {control.name: value}


def alts_of(tool: Explorer, state: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """What Python says of every picture in `state`; one that compares does so with `before`."""
    return [
        (
            panel.scene(state, tool.lang, before)["alt"]
            if isinstance(panel, SumPanel)
            else tool.scene(panel, state)["alt"]
        )
        for panel in tool.panels
    ]
