"""The second day: a lesson was run, answered, saved and closed; now it is opened again. Questions,
what they compared and tools are alive without a kernel, after a restart of it, and in the other
language; what was answered is in the learner's folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from harness import A_LESSON_MS, REPOSITORY, Lab, Notebook
from playwright.sync_api import Browser, BrowserContext, expect
from test_notebooks_in_lab import cell, run_cell

pytestmark = pytest.mark.timeout(900)  # a whole lesson is run first

LESSON = "05_data_parallelism"
WORDS = {
    "en": {"same": "As you predicted.", "other": "Not what you predicted.", "n": "Ranks N"},
    "zh": {"same": "与你的预测一致", "other": "与你的预测不同", "n": "rank 数 N"},
}


@pytest.fixture(scope="module")
def same_browser(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 1600})
    yield context
    context.close()


@pytest.fixture(scope="module")
def first_day(lab: Lab, same_browser: BrowserContext) -> Lab:
    """Lesson 05 was run in Chinese, one prediction and one question answered, saved and closed; in
    English only the notebook that came with the course is there."""
    shutil.copytree(REPOSITORY / "lessons", lab.root / "lessons", ignore=lambda *_: {"source"})
    lab.trust(f"lessons/en/{LESSON}.ipynb")
    lab.settings("notebook-extension/tracker", '{"windowingMode": "none"}')
    notebook = lab.open(f"lessons/zh/{LESSON}.ipynb", within=same_browser)
    notebook.run_all(timeout_ms=A_LESSON_MS)
    cell(notebook, "predict-ring").get_by_role("radio").nth(2).check()
    expect(cell(notebook, "wire").get_by_text(WORDS["zh"]["other"])).to_be_visible()
    cell(notebook, "ask-collectives").get_by_role("radio").nth(2).check()
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    notebook.page.wait_for_function(
        "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
    )
    notebook.watched.assert_quiet()
    notebook.page.close()
    return lab


@pytest.fixture(scope="module", params=["zh", "en"])
def second_day(
    first_day: Lab, same_browser: BrowserContext, request
) -> Iterator[tuple[Notebook, dict[str, str]]]:
    """The lesson opened again by the same browser, its kernel gone before anything is touched."""
    notebook = first_day.open(f"lessons/{request.param}/{LESSON}.ipynb", within=same_browser)
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()"
    )
    yield notebook, WORDS[request.param]
    notebook.watched.assert_quiet()
    notebook.page.close()


def test_answers_are_in_the_learners_folder(first_day):
    kept = json.loads((first_day.root / "progress/answers.json").read_text(encoding="utf-8"))
    assert kept["05-ring"]["value"] == "3.0"
    assert kept["05-collectives"]["value"] == "reduce_scatter"
    # ids and keys only: the same file serves both languages
    assert not any("\u4e00" <= c <= "\u9fff" for c in json.dumps(kept, ensure_ascii=False))


def test_nothing_says_that_a_widget_is_missing(second_day):
    notebook, _ = second_day
    text = notebook.page.locator(".jp-Notebook").inner_text()
    assert "Error displaying widget" not in text
    assert notebook.page.locator(".lab-card:not([data-live])").count() == 0


def test_a_guess_is_remembered_and_still_compared(second_day):
    notebook, words = second_day
    question, run = cell(notebook, "predict-ring"), cell(notebook, "wire")
    expect(question.get_by_role("radio").nth(2)).to_be_checked()
    expect(run.get_by_text(words["other"])).to_be_visible()
    question.get_by_role("radio").nth(1).check()
    expect(run.get_by_text(words["same"])).to_be_visible()
    question.get_by_role("radio").nth(2).check()
    expect(run.get_by_text(words["other"])).to_be_visible()


def test_a_question_answers_back(second_day):
    notebook, _ = second_day
    question = cell(notebook, "ask-collectives")
    expect(question.get_by_role("radio").nth(2)).to_be_checked()
    expect(question.get_by_role("status")).to_contain_text("✓")
    question.get_by_role("radio").first.check()
    expect(question.get_by_role("status")).to_contain_text("✗")
    question.get_by_role("radio").nth(2).check()


def test_what_nobody_guessed_is_still_covered(second_day):
    notebook, _ = second_day
    expect(cell(notebook, "predict-buckets").locator("input:checked")).to_have_count(0)
    expect(cell(notebook, "train").locator("table").first).to_be_hidden()


def test_the_tool_moves(second_day):
    notebook, words = second_day
    tool = cell(notebook, "tool").locator(".explorer").first
    slider = tool.get_by_label(words["n"], exact=True)
    before = slider.get_attribute("aria-valuetext")
    said = [picture.get_attribute("aria-label") for picture in tool.get_by_role("img").all()]
    slider.focus()
    slider.press("ArrowRight")
    expect(slider).not_to_have_attribute("aria-valuetext", before)
    now = [picture.get_attribute("aria-label") for picture in tool.get_by_role("img").all()]
    assert now != said


def test_after_a_restart_of_the_kernel_questions_answer(first_day):
    notebook = first_day.open(f"lessons/zh/{LESSON}.ipynb")
    run_cell(notebook, "setup")
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext.restartKernel()"
    )
    question = cell(notebook, "ask-collectives")
    question.get_by_role("radio").first.check()
    expect(question.get_by_role("status")).to_contain_text("✗")
    notebook.watched.assert_quiet()
    notebook.page.close()


def test_another_browser_finds_the_answers_in_the_folder(first_day):
    """Another port or another browser has no storage of its own yet; the folder has."""
    notebook = first_day.open(f"lessons/zh/{LESSON}.ipynb")
    expect(cell(notebook, "predict-ring").get_by_role("radio").nth(2)).to_be_checked()
    notebook.page.close()
