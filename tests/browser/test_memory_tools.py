"""What only the pages of lesson 03's two tools have: pictures that the page adds up itself, presets, amounts that grew."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sample_sums
from every_tool import LANGS
from harness import alts
from playwright.sync_api import Page, expect
from tool_pages import choose

from lab_utils.widgets import Explorer
from lab_utils.widgets.checkpoint_walk import Moment
from lab_utils.widgets.controls import say, start_state

DRAWN = """() => [...document.querySelectorAll('svg > *')].map(node => {
  const item = { tag: node.tagName, words: node.textContent };
  for (const { name, value } of node.attributes) if (name !== 'style') item[name] = value;
  for (const name of ['fill', 'stroke']) if (node.style[name]) item[name] = node.style[name];
  return item; })"""


def as_drawn(item: dict[str, Any]) -> dict[str, Any]:
    """A scene's item as DRAWN gives it; numbers as numbers."""
    found = {name: value for name, value in item.items() if name not in ("key", "text", "title")} | {"words": item.get("text", item.get("title", ""))}
    return numbers({name: f"var(--{value})" if name in ("fill", "stroke") and value != "none" else value for name, value in found.items()})


def numbers(item: dict[str, Any]) -> dict[str, Any]:
    def number(value: Any) -> Any:
        try:
            return float(value)
        except ValueError:
            return value

    return {name: value if name == "words" else number(value) for name, value in item.items()}


def random_walk(page: Page, tool: Explorer, steps: int, seed: int) -> int:
    """Move controls at random; after each move the page shows what Python draws of it. Returns how many states were refused."""
    panel, draw, state, before, last, refused = tool.panels[0], random.Random(seed), start_state(tool.controls), None, None, 0
    for _ in range(steps):
        control = draw.choice(tool.controls)
        value = draw.choice(control.options)[0]
        if value == state[control.name]:
            continue
        before = before if last == control.name else state
        state, last = state | {control.name: value}, control.name
        choose(page, tool, **{control.name: value})
        scene = panel.scene(state, tool.lang, before)
        assert alts(page)[0] == scene["alt"], (state, before)
        assert [numbers(item) for item in page.evaluate(DRAWN)] == [as_drawn(item) for item in scene["items"]], (state, before)
        refused += scene["items"][0]["key"] == "impossible"
    return refused


@pytest.mark.parametrize("lang", LANGS)
def test_a_panel_of_sums_is_drawn_as_python_draws_it(open_page, lang):
    tool = sample_sums.explorer(lang)
    assert random_walk(open_page(tool, reduced_motion="reduce").page, tool, 120, 1) > 3


@pytest.mark.parametrize("lang", LANGS)
def test_the_anatomy_is_drawn_as_python_draws_it(tools, open_page, lang):
    tool = tools["anatomy", lang]
    page = open_page(tool, reduced_motion="reduce").page
    choose(page, tool, model="tiny")
    choose(page, tool, model="llama3-70b")
    random_walk(page, tool, 60, 2)


@pytest.mark.parametrize("name", ["anatomy", "checkpointing"])
def test_presets_set_several_controls_at_once(tools, open_page, name):
    tool, page = tools[name, "en"], open_page(tools[name, "en"]).page
    for preset in tool.presets:
        page.get_by_role("button", name=say(preset.label, "en"), exact=True).click()
        shown = page.evaluate("[...document.querySelectorAll('.control input, .control select')].map(n => n.type === 'checkbox' ? +n.checked : +n.value)")
        wanted = start_state(tool.controls) | dict(preset.state)
        assert shown == [[value for value, _ in control.choices(wanted)].index(wanted[control.name]) for control in tool.controls]


def test_what_grew_is_counted_from_where_the_control_stood_when_it_was_taken_hold_of(tools, open_page):
    tool, page = tools["anatomy", "en"], open_page(tools["anatomy", "en"]).page
    slider = page.get_by_label("Micro-batch b", exact=True)
    slider.press("ArrowRight")
    expect(page.locator("svg").get_by_text("2.00\u00a0×", exact=True)).to_be_visible()
    slider.press("ArrowRight")
    expect(page.locator("svg").get_by_text("4.00\u00a0×", exact=True)).to_be_visible()       # since it was taken hold of, not since the last key
    state = start_state(tool.controls)
    assert alts(page)[0] == tool.panels[0].scene(state | {"micro_batch": 4}, "en", state)["alt"]
    page.get_by_label("ZeRO stage", exact=True).press("ArrowRight")
    assert "optimizer states went from" in alts(page)[0]


def test_play_walks_through_the_step_and_stops(tools, open_page):
    tool, page = tools["checkpointing", "en"], open_page(tools["checkpointing", "en"]).page
    choose(page, tool, moment=Moment("backward", 0))
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=6000)
    assert page.get_by_label("Walk through the step", exact=True).get_attribute("aria-valuetext") == "backward pass: embedding"
