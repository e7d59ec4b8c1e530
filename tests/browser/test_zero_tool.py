"""What only the page of the ZeRO tool has: moments that depend on the stage, and a challenge for each of two models."""

from __future__ import annotations

import pytest
from every_tool import TOURS
from playwright.sync_api import expect
from tool_pages import choose, label

from lab_utils.widgets import Explorer


@pytest.fixture
def tool(tools: dict[tuple[str, str], Explorer]) -> Explorer:
    return tools["ZeRO", "en"]


def test_the_last_moment_is_the_last_of_the_stage(tool, open_page):
    page = open_page(tool).page
    slider = page.get_by_label(label(tool, "moment"), exact=True)
    choose(page, tool, stage="1")
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == "the updated shards go round"
    choose(page, tool, stage="3")
    assert slider.get_attribute("aria-valuetext") == "the optimizer steps", "in stage 3 nothing goes round after it"


def test_the_challenge_sets_a_task_for_each_of_two_models(tool, open_page):
    page = open_page(tool).page
    challenge = page.locator(".challenge")
    choose(page, tool, **TOURS["ZeRO"].solved)
    expect(challenge).to_contain_text("✓ Solved.")
    choose(page, tool, micro_batches=2)
    expect(challenge).to_contain_text("Not yet.")
    choose(page, tool, model="llama3-70b", ranks=16, stage="3")
    expect(challenge).to_contain_text("✓ Solved.")
    expect(page.get_by_role("status")).to_contain_text("Solved.")
