"""The controls of a tool on its page: found by their labels, set, reached by keyboard."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from lab_utils.widgets import Explorer
from lab_utils.widgets.controls import say, start_state


def label(tool: Explorer, name: str) -> str:
    """What stands beside the control called `name`, in the tool's language."""
    return say(next(control.label for control in tool.controls if control.name == name), tool.lang)


# In one call: a control set through the driver takes ten times as long as the page takes to draw what comes of it.
SET = """moves => { for (const [label, index] of moves) {
  const box = [...document.querySelectorAll('.control input, .control select')].find(box => box.labels[0].textContent === label);
  if (box.type === 'checkbox') { if (box.checked !== Boolean(index)) box.click(); continue; }
  if (box.tagName === 'SELECT') box.selectedIndex = index; else box.value = index;
  for (const kind of ['input', 'change']) box.dispatchEvent(new Event(kind, { bubbles: true }));
} }"""


def choose(page: Page, tool: Explorer, **state: Any) -> None:
    """Bring the page's controls to these values, through the controls themselves."""
    chosen = start_state(tool.controls) | state
    page.evaluate(SET, [[say(control.label, tool.lang), [value for value, _ in control.choices(chosen)].index(state[control.name])]
                        for control in tool.controls if control.name in state])


def press_on(page: Page, tool: Explorer, name: str, key: str) -> None:
    """Go to a control with the Tab key alone, see that the focus shows, and press a key on it."""
    for _ in range(24):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.labels?.[0]?.textContent") == label(tool, name):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "no visible focus"
    page.keyboard.press(key)
