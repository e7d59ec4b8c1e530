"""The ZeRO tool as a self-contained page: keyboard, speed, accessibility, labels, size; nothing from elsewhere."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from harness import MISPLACED, alts, slider_to_paint_ms
from playwright.sync_api import Page, expect

from lab_utils.widgets import Explorer, zero_stages
from lab_utils.widgets.controls import say, start_state, states
from lab_utils.widgets.zero_walk import Moment

LANGS = ("en", "zh")
SOLVED_8B = {"ranks": 32, "stage": "2", "model": "llama3-8b", "precision": "bf16-pure", "optimizer": "adamw", "micro_batches": 1}


@pytest.fixture(scope="module")
def tools() -> dict[str, Explorer]:
    return {lang: zero_stages.explorer(lang) for lang in LANGS}


def label(tool: Explorer, name: str, lang: str) -> str:
    return say(next(control.label for control in tool.controls if control.name == name), lang)


def choose(page: Page, tool: Explorer, lang: str, **state: Any) -> None:
    """Bring the page's controls to these values, through the controls themselves."""
    chosen = start_state(tool.controls) | state
    for control in tool.controls:
        if control.name in state:
            index = [value for value, _ in control.choices(chosen)].index(state[control.name])
            box = page.get_by_label(say(control.label, lang), exact=True)
            box.select_option(index=index) if control.kind == "select" else box.fill(str(index))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lang", LANGS)
def test_axe_finds_nothing(tools, open_page, lang, theme):
    page = open_page(tools[lang], color_scheme=theme, reduced_motion="reduce").page
    assert Axe().run(page).response["violations"] == []
    choose(page, tools[lang], lang, ranks=4, stage="1", moment=Moment("backward", 1), model="tiny", precision="fp32")
    assert Axe().run(page).response["violations"] == []
    choose(page, tools[lang], lang, **SOLVED_8B)
    expect(page.locator(".challenge.solved")).to_be_visible()
    results = Axe().run(page).response
    assert results["violations"] == []
    assert {"label", "select-name", "color-contrast"} <= {rule["id"] for rule in results["passes"]}, "axe looked at the tool"


@pytest.mark.parametrize("lang", LANGS)
def test_the_keyboard_alone_reaches_every_control_and_changes_the_picture(tools, open_page, lang):
    tool, page = tools[lang], open_page(tools[lang]).page
    state = start_state(tool.controls)
    for name, key, value in (("ranks", "ArrowRight", 8), ("stage", "ArrowLeft", "2"), ("moment", "End", Moment("publish")), ("model", "ArrowUp", "gpt2-xl"),
                             ("precision", "ArrowUp", "fp32"), ("optimizer", "ArrowDown", "sgd"), ("micro_batches", "End", 8)):  # fmt: skip
        for _ in range(8):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.labels?.[0]?.textContent") == label(tool, name, lang):
                break
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "no visible focus"
        page.keyboard.press(key)
        state[name] = value
        assert alts(page) == [tool.scene(panel, state)["alt"] for panel in tool.panels]


def test_the_last_moment_is_the_last_of_the_stage(tools, open_page):
    page = open_page(tools["en"]).page
    slider = page.get_by_label(label(tools["en"], "moment", "en"), exact=True)
    choose(page, tools["en"], "en", stage="1")
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == "the updated shards go round"
    choose(page, tools["en"], "en", stage="3")
    assert slider.get_attribute("aria-valuetext") == "the optimizer steps", "in stage 3 nothing goes round after it"


def test_the_challenge_sets_a_task_for_each_of_two_models(tools, open_page):
    page = open_page(tools["en"]).page
    challenge = page.locator(".challenge")
    expect(challenge).to_contain_text("Not yet.")
    choose(page, tools["en"], "en", **SOLVED_8B)
    expect(challenge).to_contain_text("✓ Solved.")
    choose(page, tools["en"], "en", micro_batches=2)
    expect(challenge).to_contain_text("Not yet.")
    choose(page, tools["en"], "en", model="llama3-70b", ranks=16, stage="3")
    expect(challenge).to_contain_text("✓ Solved.")
    expect(page.get_by_role("status")).to_contain_text("Solved.")


def test_the_page_is_small_and_names_no_address(tools):
    for tool in tools.values():
        html = tool.html()
        assert len(html.encode()) < 1_500_000
        assert html.count("http") == html.count("http://www.w3.org/2000/svg") == 1
        print(f"{tool.lang}: {len(html.encode()) / 1e6:.2f} MB")


def test_slider_to_paint_is_about_a_frame(tools, open_page):
    page = open_page(tools["en"]).page
    walk = [("moment", "ArrowRight")] * 5 + [("moment", "ArrowLeft")] * 12
    rest = [("ranks", "ArrowRight")] * 5 + [("stage", "ArrowLeft")] * 3 + [("stage", "ArrowRight")] * 4 + [("micro_batches", "ArrowRight")] * 2
    times = slider_to_paint_ms(page.locator(".explorer"), [(label(tools["en"], name, "en"), key) for name, key in walk + rest])
    assert len(times) == 31
    assert statistics.median(times) <= 25, "aim: one frame, 17 ms; the rest is for a busy machine"
    assert times[int(0.95 * len(times))] <= 60, "aim: two frames, 33 ms"


@pytest.mark.parametrize("lang", LANGS)
def test_no_label_is_cut_or_hidden_by_another(tools, open_page, lang):
    tool, page = tools[lang], open_page(tools[lang], reduced_motion="reduce").page
    by_name = {control.name: control for control in tool.controls}
    walk, held, sent = ([s for s in states([by_name[name] for name in panel.controls]) if s] for panel in tool.panels)
    for state in [*walk[::19], *held[::37], *sent[::53]]:
        choose(page, tool, lang, **state)
        assert page.evaluate(MISPLACED) == [], state
