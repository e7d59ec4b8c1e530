"""What the page of a tool does by itself, on the data-parallelism tool and a small sample: walks,
glides, says, draws."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sample_tool
from axe_playwright_python.sync_playwright import Axe
from harness import MISPLACED, alts, script
from playwright.sync_api import expect
from tool_pages import choose, label

from lab_utils.widgets.frame import Explorer
from lab_utils.widgets.frame.controls import states


@pytest.fixture
def tool(tools: Callable[[str, str], Explorer]) -> Explorer:
    return tools("data_parallelism", "en")


def test_axe_would_find_a_control_without_a_name(tool, open_page):
    page = open_page(tool).page
    page.evaluate("document.querySelector('label').remove()")
    assert [violation["id"] for violation in Axe().run(page).response["violations"]] == ["label"]


def test_a_slider_says_its_option_in_words(tool, open_page):
    page = open_page(tool).page
    walk = page.get_by_label(label(tool, "moment"))
    assert walk.get_attribute("aria-valuetext") == "start"
    choose(page, tool, moment=2)
    assert walk.get_attribute("aria-valuetext") == "ring step 2 of 6"
    choose(page, tool, ranks=2)
    assert walk.get_attribute("aria-valuetext") == "ring step 2 of 2"
    choose(page, tool, ranks=1)
    assert walk.get_attribute("aria-valuetext") == "update", (
        "where there are fewer options the slider moves to the last"
    )
    assert walk.get_attribute("max") == "3"


def test_every_picture_is_drawn_as_python_drew_it(open_page):
    tool = sample_tool.explorer()
    page = open_page(tool).page
    panel = tool.panels[0]
    every = [state for state in states(tool.controls) if state]
    for state in every + every[::-1]:
        page.get_by_label("Shape", exact=True).select_option(index=int(state["shape"] == "disc"))
        page.get_by_label("Size", exact=True).fill(str(state["size"] - 1))
        page.get_by_label("Ground", exact=True).set_checked(state["ground"])
        drawn = page.evaluate(
            "() => [...document.querySelectorAll('figure > svg > *')].map(n => [n.tagName,"
            " n.getAttribute('width') ?? n.getAttribute('r'), n.textContent])"
        )
        expected = [
            [
                i["tag"],
                str(i.get("width", i.get("r"))) if "width" in i or "r" in i else None,
                i.get("text", i.get("title", "")),
            ]
            for i in tool.scene(panel, state)["items"]
        ]
        assert drawn == expected


def test_play_walks_to_the_end_and_stops(tool, open_page):
    page = open_page(tool).page
    choose(page, tool, ranks=2, moment=1)
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=6000)
    assert page.get_by_label(label(tool, "moment")).get_attribute("aria-valuetext") == "update"
    page.get_by_role("button", name="Play").click()
    assert page.get_by_label(label(tool, "moment")).get_attribute("aria-valuetext") == "start", (
        "at the end, play begins again"
    )
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1100)
    assert page.get_by_label(label(tool, "moment")).get_attribute("aria-valuetext") == "start", (
        "paused"
    )


@pytest.mark.parametrize(("motion", "seconds"), [("no-preference", "0.25s"), ("reduce", "0s")])
def test_elements_glide_unless_the_reader_asked_for_less_motion(tool, open_page, motion, seconds):
    page = open_page(tool, reduced_motion=motion).page
    assert (
        page.evaluate(
            "getComputedStyle(document.querySelector('figure > svg rect')).transitionDuration"
        ).split(", ")[0]
        == seconds
    )


def test_chunks_fly_and_what_they_change_waits_for_them(tool, open_page):
    page = open_page(tool, reduced_motion="no-preference").page
    choose(page, tool, moment=1)
    page.wait_for_function("document.getAnimations().every(a => a.playState === 'finished')")
    # in one call: it shall not be over before it is looked at
    running = page.evaluate(
        f"""moves => {{ ({script("set_controls")})(moves);
        return document.getAnimations().filter(a => a.playState !== 'finished').map(
          ({{ effect, transitionProperty, animationName }}) => [
            effect.target.getAttribute('class'), transitionProperty ?? animationName,
            effect.getTiming().duration, effect.getTiming().delay]); }}""",
        [[label(tool, "moment"), 4]],
    )
    assert running.count(["fly", "x", 600, 0]) >= 4, "one chunk from every rank"
    assert ["late", "fill", 250, 500] in running
    assert ["landing", "explorer-landing", 200, 500] in running


def test_the_same_thing_stays_the_same_element(tool, open_page):
    page = open_page(tool).page
    page.evaluate(
        "document.querySelectorAll('figure > svg rect').forEach(rect => { rect.mine = true; })"
    )
    choose(page, tool, moment=3)
    assert page.evaluate(
        "[...document.querySelectorAll('figure:first-of-type rect')].every(rect => rect.mine)"
    )


def test_a_screen_reader_hears_only_the_last_of_many_moves(tool, open_page):
    page = open_page(tool).page
    page.evaluate(script("hear"))
    page.evaluate(script("set_controls"), [[label(tool, "moment"), at] for at in (1, 2, 3, 4)])
    page.wait_for_function("heard.length > 0")
    page.wait_for_timeout(300)
    heard = page.evaluate("heard")
    assert heard == [alts(page)[0]], (
        "one announcement, of the picture that changed, in its last state"
    )


def test_a_misplaced_label_would_be_found(tool, open_page):
    page = open_page(tool, reduced_motion="reduce").page
    page.evaluate(
        """() => { const [a, b, c] = document.querySelectorAll('figure > svg text');
        for (const side of ['x', 'y']) b.setAttribute(side, a.getAttribute(side));
        c.setAttribute('x', -9); }"""
    )
    wrong = page.evaluate(MISPLACED)
    assert [found.split(":")[0] for found in wrong] == ["overlap", "cut"]
