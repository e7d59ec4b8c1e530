"""The controls of a tool on its page: found by their labels, set, reached by keyboard."""

from __future__ import annotations

from typing import Any

from harness import script
from playwright.sync_api import Page

from lab_utils.widgets.frame import Explorer
from lab_utils.widgets.frame.controls import say, start_state


def label(tool: Explorer, name: str) -> str:
    """What stands beside the control called `name`, in the tool's language."""
    return say(next(control.label for control in tool.controls if control.name == name), tool.lang)


def choose(page: Page, tool: Explorer, **state: Any) -> None:
    """Bring the page's controls to these values, through the controls themselves."""
    chosen = start_state(tool.controls) | state
    page.evaluate(
        script("set_controls"),
        [
            [
                say(control.label, tool.lang),
                [value for value, _ in control.choices(chosen)].index(state[control.name]),
            ]
            for control in tool.controls
            if control.name in state
        ],
    )


def press_on(page: Page, tool: Explorer, name: str, key: str) -> None:
    """Go to a control with the Tab key alone, see that the focus shows, and press a key on it."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.labels?.[0]?.textContent") == label(tool, name):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", (
        "no visible focus"
    )
    page.keyboard.press(key)
