"""Every tool in a browser, without a kernel and without a network: accessible, by keyboard, quick,
its labels in their places, its challenge solved step by step; as a page and as a notebook saves
it."""

from __future__ import annotations

from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe
from every_tool import LANGS, NAMES, alts_of, key_presses, looks, slides
from harness import MISPLACED, alts, assert_about_a_frame
from pairs import EVERYTHING, cover
from playwright.sync_api import expect
from tool_pages import choose, label, press_on

from lab_utils.widgets.frame.controls import say, start_state

VIEWS = [
    {"name": name, "lang": lang, "theme": theme}
    for name, lang, theme in product(NAMES, LANGS, ("light", "dark"))
]
ADDRESS_MS = 1000  # by then the address has followed the last control
tool_names = pytest.mark.parametrize("name", NAMES)
languages = pytest.mark.parametrize("lang", LANGS)
# where the frame does the same in both: the tools take turns with the languages
either_language = pytest.mark.parametrize(
    ("name", "lang"),
    [
        (name, lang)
        for number, name in enumerate(NAMES)
        for lang in (LANGS if EVERYTHING else LANGS[number % 2 :][:1])
    ],
)


@pytest.mark.parametrize(
    ("name", "lang", "theme"),
    [tuple(view.values()) for view in (VIEWS if EVERYTHING else cover(VIEWS, lambda view: view))],
)
def test_axe_finds_nothing(tools, open_page, name, lang, theme):
    tool = tools(name, lang)
    page = open_page(tool, color_scheme=theme, reduced_motion="reduce").page
    assert Axe().run(page).response["violations"] == []
    choose(page, tool, **tool.solution(tool.steps[0]))
    expect(page.locator(".ladder.solved")).to_be_visible()
    page.locator(".verdict button").click()
    results = Axe().run(page).response
    assert results["violations"] == []
    assert {"label", "color-contrast", "button-name"} <= {rule["id"] for rule in results["passes"]}


@either_language
def test_the_keyboard_alone_reaches_every_control_and_changes_the_picture(
    tools, open_page, name, lang
):
    tool = tools(name, lang)
    page, before = open_page(tool).page, start_state(tool.controls)
    for control, key, state in key_presses(tool):
        press_on(page, tool, control, key)
        assert alts(page) == alts_of(tool, state, before), (control, key)
        before = state


@either_language
def test_the_challenge_is_climbed_step_by_step_and_stays_solved(tools, open_page, name, lang):
    tool = tools(name, lang)
    page, start = open_page(tool).page, start_state(tool.controls)
    ladder, verdict = page.locator(".ladder"), page.locator(".ladder .verdict")
    for i, step in enumerate(tool.steps):
        choose(page, tool, **start)
        expect(ladder.locator(".task")).to_have_text(say(step.task, lang))
        expect(verdict.locator("span")).to_have_text(tool.far(step, start))
        choose(page, tool, **tool.solution(step))
        expect(verdict.locator("span")).to_have_text(say(step.why, lang))
        expect(page.get_by_role("status")).to_contain_text(say(step.why, lang))
        choose(page, tool, **start)
        expect(verdict.locator("span")).to_have_text(say(step.why, lang))
        assert page.locator(".steps [aria-current]").inner_text() == f"{i + 1} ✓"
        if i + 1 < len(tool.steps):
            verdict.get_by_role("button").click()
    page.wait_for_timeout(ADDRESS_MS)  # a reload opens what the address says
    page.reload()
    expect(page.locator(".steps button", has_text="✓")).to_have_count(len(tool.steps))
    page.locator(".again").click()
    expect(ladder.locator(".task")).to_have_text(say(tool.steps[0].task, lang))
    expect(page.locator(".steps button", has_text="✓")).to_have_count(0)


@pytest.mark.parametrize("width", [1024, 1280] if EVERYTHING else [1024])
@tool_names
def test_the_verdict_is_in_sight_of_every_control(tools, open_page, name, width):
    tool = tools(name, "en")
    page = open_page(tool, viewport={"width": width, "height": 720}).page
    verdict = page.locator(".ladder .verdict")
    for control in tool.controls:
        page.get_by_label(label(tool, control.name), exact=True).scroll_into_view_if_needed()
        expect(verdict).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"


@tool_names
def test_the_page_is_small_and_names_no_address(tools, name):
    for lang in LANGS:
        html = tools(name, lang).html()
        assert len(html.encode()) < 1_500_000
        assert html.count("http") == html.count("http://www.w3.org/2000/svg") == 1
        print(f"{name}, {lang}: {len(html.encode()) / 1e6:.2f} MB")


@tool_names
def test_slider_to_paint_is_about_a_frame(tools, open_page, name):
    tool = tools(name, "en")
    moves = [(label(tool, control), key) for control, key in slides(tool)]
    assert_about_a_frame(open_page(tool).page.locator(".explorer"), moves)


@languages
@tool_names
def test_no_label_is_cut_or_hidden_by_another(tools, open_page, name, lang):
    tool = tools(name, lang)
    page = open_page(tool, reduced_motion="reduce").page
    assert page.evaluate(MISPLACED) == []
    for preset in (preset for panel in tool.panels for preset in panel.presets):
        page.get_by_role("button", name=say(preset.label, lang), exact=True).click()
        assert page.evaluate(MISPLACED) == [], preset.state
    for state in looks(tool):
        choose(page, tool, **state)
        assert page.evaluate(MISPLACED) == [], (state, alts(page))


@tool_names
def test_what_a_notebook_saves_lives_in_any_page_and_more_than_once(tools, open_html, name):
    tool = tools(name, "en")
    saved = tool._repr_mimebundle_()["text/html"]
    page = open_html(f"<main>{saved}{saved}</main>").page
    expect(page.locator(".explorer")).to_have_count(2)
    expect(page.locator("img")).to_have_count(0)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(set(ids)) == len(ids) > 0
    first, second = page.locator(".explorer").all()
    slider = first.locator("input[type=range]").last
    slider.press("ArrowRight")
    shown = [view.locator("figure > svg").all() for view in (first, second)]
    said = [[svg.get_attribute("aria-label") for svg in pictures] for pictures in shown]
    assert said[0] != said[1], "each view has a state of its own"


@either_language
def test_where_no_script_runs_a_picture_stands_in_its_place(tools, open_html, name, lang):
    tool = tools(name, lang)
    saved = tool._repr_mimebundle_()["text/html"]
    options = {"java_script_enabled": False, "viewport": {"width": 848, "height": 2500}}
    page = open_html(f"<main style='width:848px'>{saved}</main>", **options).page
    picture = page.locator("img")
    expect(picture).to_have_attribute("alt", repr(tool))
    box = picture.bounding_box()
    assert 700 <= box["width"] <= 848
    assert box["height"] > 300
