"""The setting of a tool in the address of its page: opened again it is the same setting, in either
language; what it does not know it says; a notebook's address is left alone."""

from __future__ import annotations

import random

import pytest
import sample_tool
from every_tool import LANGS, NAMES, alts_of
from harness import Watched, alts
from playwright.sync_api import Page, expect
from tool_pages import choose

from lab_utils.widgets.frame import Explorer
from lab_utils.widgets.frame.address import option_id
from lab_utils.widgets.frame.controls import start_state

ADDRESS_MS = 1000  # by then the address has followed the last control


def somewhere(tool: Explorer, draw: random.Random) -> dict:
    """A state of the tool in which many controls stand elsewhere than at the start."""
    state, start = {}, start_state(tool.controls)
    for control in tool.controls:
        drawn = draw.choice(control.choices(state))[0]
        state[control.name] = drawn
    for control in tool.controls:  # what is greyed out cannot be moved
        if control.only and state[control.only[0]] != control.only[1]:
            state[control.name] = start[control.name]
    return state


def asked(tool: Explorer, state: dict) -> dict[str, str]:
    """What the address says of a state: all that is not as the tool opens."""
    start = start_state(tool.controls)
    at = lambda c, s: [value for value, _ in c.choices(s)].index(s[c.name])  # noqa: E731
    return {c.name: option_id(state[c.name]) for c in tool.controls if at(c, state) != at(c, start)}


def address(page: Page) -> dict[str, str]:
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def open_at(open_page, tool: Explorer, hash_: str) -> Watched:
    """The tool opened anew by an address that ends in `hash_`."""
    opened = open_page(tool)
    opened.page.evaluate("hash => history.replaceState(null, '', hash)", hash_)
    opened.page.reload()
    opened.page.wait_for_selector("figure:last-of-type > svg > *", state="attached")
    return opened


@pytest.mark.parametrize("name", NAMES)
def test_an_address_opens_the_same_setting_in_both_languages(tools, open_page, name):
    tool, draw = tools(name, "en"), random.Random(13)
    page = open_page(tool).page
    for _ in range(3):
        state = somewhere(tool, draw)
        choose(page, tool, **state)
        page.wait_for_timeout(ADDRESS_MS)
        assert address(page) == asked(tool, state)
    for lang in LANGS:
        there = open_at(open_page, tools(name, lang), page.evaluate("location.hash")).page
        # there is nothing before it that it could be compared with
        assert alts(there) == alts_of(tools(name, lang), state, state)
        assert there.locator(".address span").inner_text() == ""
    choose(page, tool, **start_state(tool.controls))
    page.wait_for_function("location.hash === ''")


@pytest.mark.parametrize(
    ("hash_", "state", "unknown"),
    [
        ("#shape=disc&size=2", {"shape": "disc", "size": 2}, ""),
        ("#size=3&shape=disc", {"shape": "disc", "size": 2}, "size=3"),
        ("#ground=on&shape=ball", {"ground": True}, "shape=ball"),
        ("#colour=red", {}, "colour=red"),
        ("#ground=%E0%A4%A&size=&=&shape", {}, "ground="),
        ("#a-place-in-the-page", {}, ""),
        (f"#x={'<b>' * 99}", {}, f"x={'<b>' * 19}<…"),
    ],
    ids=["whole", "too large", "one wrong", "no control", "malformed", "an anchor", "long"],
)
def test_what_an_address_asks_that_is_not_there_is_said(open_page, hash_, state, unknown):
    tool = sample_tool.explorer()
    page = open_at(open_page, tool, hash_).page
    said = page.locator(".address span")
    if unknown:
        expect(said).to_contain_text(f"The address asks for {unknown}")
        expect(said).to_contain_text("which this tool does not have.")
    else:
        expect(said).to_have_text("")
    start = start_state(tool.controls)
    want = {"shape": "box", "ground": False} | state
    sizes = [value for value, _ in tool.controls[1].choices(want)]
    want = {"size": min(start["size"], sizes[-1])} | want
    assert alts(page) == alts_of(tool, want, start)
    page.get_by_label("Ground", exact=True).click()
    expect(said).to_have_text("")


def test_an_address_that_changes_is_followed(open_page):
    page = open_page(sample_tool.explorer()).page
    page.evaluate("location.hash = 'shape=disc&size=1'")
    expect(page.get_by_role("img").last).to_have_attribute(
        "aria-label", "disc of size 1, ground False"
    )
    page.go_back()
    expect(page.get_by_label("Shape", exact=True)).to_have_value("1")


def test_the_link_is_copied_or_shown(browser, open_page):
    tool = sample_tool.explorer("zh")
    page = open_page(tool).page
    page.get_by_label("地面", exact=True).click()
    page.wait_for_function("location.hash === '#ground=on'")  # which also clears what was said
    page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text; }; null")
    button, said = (
        page.get_by_role("button", name="复制此设置的链接"),
        page.locator(".address span"),
    )
    button.click()
    expect(said).to_have_text("已复制。")
    href = page.evaluate("location.href")
    assert href.endswith("#ground=on")
    assert page.evaluate("copied") == href
    page.evaluate("navigator.clipboard.writeText = () => { throw new Error('no'); }; null")
    button.click()
    expect(said).to_have_text(href)


def test_a_notebook_keeps_its_address(open_html):
    saved = sample_tool.explorer()._repr_mimebundle_()["text/html"]
    assert "makeAddress(" in saved
    assert "function makeAddress" not in saved
    page = open_html(f"<main>{saved}{saved}</main>").page
    page.get_by_label("Ground", exact=True).first.click()
    page.wait_for_timeout(400)
    assert "#" not in page.url
    expect(page.locator(".address")).to_have_count(0)
