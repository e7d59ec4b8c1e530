"""What only the pages of lesson 03's two tools have: pictures that the page adds up itself,
presets, amounts that grew."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sample_sums
from every_tool import LANGS
from harness import alts, script
from playwright.sync_api import Page, expect
from tool_pages import choose

from lab_utils.widgets.frame import Explorer
from lab_utils.widgets.frame.controls import say, start_state
from lab_utils.widgets.gradient_checkpointing.walk import Moment

DRAWN = script("drawn")


def as_drawn(item: dict[str, Any]) -> dict[str, Any]:
    """A scene's item as DRAWN gives it; numbers as numbers."""
    found = {
        name: value for name, value in item.items() if name not in ("key", "text", "title")
    } | {"words": item.get("text", item.get("title", ""))}
    return numbers(
        {
            name: f"var(--{value})" if name in ("fill", "stroke") and value != "none" else value
            for name, value in found.items()
        }
    )


def numbers(item: dict[str, Any]) -> dict[str, Any]:
    def number(value: Any) -> Any:
        try:
            return float(value)
        except ValueError:
            return value

    return {name: value if name == "words" else number(value) for name, value in item.items()}


def random_walk(page: Page, tool: Explorer, steps: int, seed: int) -> int:
    """Move controls at random; after each move the page shows what Python draws of it. Returns how
    many states were refused."""
    panel, draw, state, before, last, refused = (
        tool.panels[0],
        random.Random(seed),
        start_state(tool.controls),
        None,
        None,
        0,
    )
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
        assert [numbers(item) for item in page.evaluate(DRAWN)] == [
            as_drawn(item) for item in scene["items"]
        ], (state, before)
        refused += scene["items"][0]["key"] == "impossible"
    return refused


@pytest.mark.parametrize("lang", LANGS)
def test_a_panel_of_sums_is_drawn_as_python_draws_it(open_page, lang):
    tool = sample_sums.explorer(lang)
    assert random_walk(open_page(tool, reduced_motion="reduce").page, tool, 120, 1) > 3


@pytest.mark.parametrize("lang", LANGS)
def test_the_anatomy_is_drawn_as_python_draws_it(tools, open_page, lang):
    tool = tools("memory_anatomy", lang)
    page = open_page(tool, reduced_motion="reduce").page
    choose(page, tool, model="tiny")
    choose(page, tool, model="llama3-8b")
    random_walk(page, tool, 60, 2)


@pytest.mark.parametrize("name", ["memory_anatomy", "gradient_checkpointing"])
def test_presets_set_several_controls_at_once(tools, open_page, name):
    tool, page = tools(name, "en"), open_page(tools(name, "en")).page
    for preset in (preset for panel in tool.panels for preset in panel.presets):
        page.get_by_role("button", name=say(preset.label, "en"), exact=True).click()
        shown = page.evaluate(
            "[...document.querySelectorAll('.control input, .control select')].map(n => n.type ==="
            " 'checkbox' ? +n.checked : +n.value)"
        )
        wanted = start_state(tool.controls) | dict(preset.state)
        assert shown == [
            [value for value, _ in control.choices(wanted)].index(wanted[control.name])
            for control in tool.controls
        ]


def test_what_grew_is_counted_from_where_the_control_stood_when_it_was_taken_hold_of(
    tools, open_page
):
    tool, page = tools("memory_anatomy", "en"), open_page(tools("memory_anatomy", "en")).page
    state = start_state(tool.controls) | {"filled": len(tool.panels[0].terms), "dp": 8}
    choose(page, tool, filled=state["filled"], dp=state["dp"])
    slider, panel = page.get_by_label("Micro-batch b", exact=True), tool.panels[0]
    # since it was taken hold of, not since the last key
    for micro_batch in (2, 4):
        slider.press("ArrowRight")
        drawn = panel.scene(state | {"micro_batch": micro_batch}, "en", state)
        factor = next(item["text"] for item in drawn["items"] if item["key"] == "figure2")
        assert float(factor.removesuffix("\u00a0×")) == pytest.approx(micro_batch, rel=0.01)
        expect(page.locator("figure > svg").get_by_text(factor, exact=True)).to_be_visible()
    assert alts(page)[0] == panel.scene(state | {"micro_batch": 4}, "en", state)["alt"]
    page.get_by_label("ZeRO stage", exact=True).press("ArrowRight")
    assert "optimizer states went from" in alts(page)[0]


def test_the_gpu_is_filled_term_by_term_when_it_is_played(tools, open_page):
    tool, page = tools("memory_anatomy", "en"), open_page(tools("memory_anatomy", "en")).page
    last = len(tool.panels[0].terms)
    expect(page.locator(".verdict span")).to_have_text(
        tool.far(tool.steps[0], start_state(tool.controls))
    )
    choose(page, tool, filled=last - 1)
    page.get_by_role("button", name="Play").click()
    slider = page.get_by_label("Fill it", exact=True)
    expect(slider).to_have_attribute("aria-valuetext", f"all {last} terms", timeout=6000)
    full = start_state(tool.controls) | {"filled": last}
    expect(page.locator(".verdict span")).to_have_text(tool.far(tool.steps[0], full))


def test_boxes_that_do_nothing_are_greyed_out(tools, open_page):
    tool, page = (
        tools("gradient_checkpointing", "en"),
        open_page(tools("gradient_checkpointing", "en")).page,
    )
    box = page.get_by_label("Block 2", exact=True)
    expect(box).to_be_enabled()
    choose(page, tool, what="selective")
    expect(box).to_be_disabled()
    choose(page, tool, what="layers")
    expect(box).to_be_enabled()


def test_play_walks_through_the_step_and_stops(tools, open_page):
    tool, page = (
        tools("gradient_checkpointing", "en"),
        open_page(tools("gradient_checkpointing", "en")).page,
    )
    choose(page, tool, moment=Moment("backward", 0))
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=6000)
    assert (
        page.get_by_label("Walk through the step", exact=True).get_attribute("aria-valuetext")
        == "backward pass: embedding"
    )
