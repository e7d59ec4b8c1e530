"""The course's notebooks as a learner meets them: in JupyterLab, by keyboard, carelessly, in both
languages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import nbformat
import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from harness import A_LESSON_MS, REPOSITORY, Lab, Notebook, script
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.timeout(900)  # a whole lesson is run for some

_CELLS = "window.jupyterapp.shell.currentWidget.content.widgets"
_WHOLE = {"width": 1280, "height": 1600}


@pytest.fixture(scope="module")
def course(lab: Lab) -> Lab:
    """The built lessons and labs, in a JupyterLab that draws all cells and not only those in
    sight."""
    for room in ("lessons", "labs"):
        shutil.copytree(
            REPOSITORY / room,
            lab.root / room,
            ignore=shutil.ignore_patterns("source", ".ipynb_checkpoints"),
        )
    lab.settings("notebook-extension/tracker", '{"windowingMode": "none"}')
    return lab


@pytest.fixture(scope="module")
def start(course: Lab) -> Iterator[Notebook]:
    """Page 00 in English, run once."""
    yield from _learned(course, "lessons/en/00_start.ipynb")


@pytest.fixture(scope="module")
def lesson(course: Lab) -> Iterator[Notebook]:
    """Lesson 05 in Chinese, run once."""
    yield from _learned(course, "lessons/zh/05_data_parallelism.ipynb")


def _learned(course: Lab, path: str) -> Iterator[Notebook]:
    notebook = course.open(path, viewport=_WHOLE)
    notebook.run_all(timeout_ms=A_LESSON_MS)
    yield notebook
    notebook.page.close()


def cell(notebook: Notebook, name: str) -> Locator:
    """The cell that the source calls `name`."""
    index = notebook.page.evaluate(
        f"name => {_CELLS}.findIndex(cell => cell.model.id === name)", name
    )
    assert index >= 0, f"no cell {name}"
    return notebook.page.locator(".jp-WindowedPanel-viewport > .jp-Cell").nth(index)


def run_cell(notebook: Notebook, name: str, wait: bool = True) -> None:
    """Run one cell; without `wait` return while it runs."""
    notebook.page.evaluate(script("run_cell"), [name, wait])


def outputs(notebook: Notebook, name: str) -> list[dict[str, Any]]:
    return notebook.page.evaluate(
        f"name => {_CELLS}.find(cell => cell.model.id === name).model.outputs.toJSON()", name
    )


def printed(notebook: Notebook, name: str) -> str:
    """What the cell printed, or the text form of what it displayed."""
    parts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in outputs(notebook, name)
    ]
    return "".join("".join(part) for part in parts)


def expect_printed(notebook: Notebook, name: str, text: str) -> None:
    """The last words of a cell may come a moment after it has ended."""
    until(lambda: text in printed(notebook, name), 10, f"{name} prints {text}")


def kernel_process(notebook: Notebook) -> psutil.Process:
    """The notebook's kernel, as the system sees it."""
    pid = notebook.page.evaluate(script("kernel_pid"))
    return psutil.Process(pid)


def until(condition: Any, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def fonts(notebook: Notebook, element: Locator) -> set[str]:
    """The font families that really drew the element's text."""
    element.evaluate("element => element.setAttribute('data-measured', '')")
    session = notebook.page.context.new_cdp_session(notebook.page)
    for domain in ("DOM", "CSS"):
        session.send(f"{domain}.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    node = session.send("DOM.querySelector", {"nodeId": root, "selector": "[data-measured]"})[
        "nodeId"
    ]
    found = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
    session.detach()
    element.evaluate("element => element.removeAttribute('data-measured')")
    return {font["familyName"] for font in found}


@pytest.mark.parametrize("name", ["start", "lesson"])
def test_runs_without_an_error_and_looks_as_it_should(request, name):
    notebook: Notebook = request.getfixturevalue(name)
    page = notebook.page
    expect(page.locator(".js-plotly-plot .main-svg .trace").first).to_be_attached()
    assert (
        page.locator(".js-plotly-plot").count()
        == page.locator(".js-plotly-plot:has(.trace)").count()
        == {"start": 1, "lesson": 2}[name]
    )
    folded = page.evaluate(
        f"() => {_CELLS}.filter(cell => (cell.model.getMetadata('tags') ??"
        " []).includes('hide-input')).map(cell => cell.model.id)"
    )
    assert len(folded) >= 4
    for hidden in folded:
        expect(cell(notebook, hidden).locator(".cm-content")).to_be_hidden()
    stars = page.evaluate(script("stars"))
    assert not stars, "emphasis that was not understood"
    notebook.watched.assert_quiet()


@pytest.mark.parametrize(
    ("name", "theme"), [("start", "JupyterLab Dark"), ("lesson", "JupyterLab Light")]
)
def test_axe_finds_nothing_in_the_outputs(request, name, theme):
    page = request.getfixturevalue(name).page
    request.getfixturevalue(name).theme(theme)
    results = Axe().run(page, context=".jp-OutputArea-output").response
    assert [
        (v["id"], [node["html"][:200] for node in v["nodes"]]) for v in results["violations"]
    ] == []
    assert {"label", "color-contrast"} <= {rule["id"] for rule in results["passes"]}, (
        "axe looked at the outputs"
    )


def test_a_picture_that_gives_the_answer_away_is_covered_too(lesson):
    run = cell(lesson, "trace")
    picture, words = run.locator(".js-plotly-plot"), run.get_by_text("上面的预测写下之后再揭晓")
    expect(picture).to_be_hidden()
    expect(words).to_be_visible()
    cell(lesson, "predict-overlap").get_by_role("radio").first.check()
    expect(picture).to_be_visible()
    expect(words).to_be_hidden()
    # drawn while it was hidden, when plotly knows no width but its own (700 px)
    area = run.locator(".jp-OutputArea").first.bounding_box()["width"]
    lesson.page.wait_for_function(
        """width => [...document.querySelectorAll(".js-plotly-plot svg.main-svg")].some(
             svg => Math.abs(svg.getBoundingClientRect().width - width) < 120)""",
        arg=area,
    )


def test_chinese_is_drawn_with_chinese_glyphs(lesson):
    question = cell(lesson, "predict-ring").locator(".lab-card b").first
    expect(question).to_have_text("你的预测")
    cell(lesson, "predict-overlap").get_by_role("radio").first.check()  # uncovers the picture
    legend = cell(lesson, "trace").locator(".legendtext", has_text="等待中")
    for element in (question, legend):
        drawn = fonts(lesson, element)
        assert drawn, "the element has text"
        assert all(
            any(mark in family for mark in ("CJK", "WenQuanYi", "PingFang", "YaHei", "Hei", "Song"))
            for family in drawn
        ), drawn


def test_a_quiz_answers_back_by_keyboard_in_chinese(lesson):
    quiz = cell(lesson, "ask-collectives")
    options = quiz.get_by_role("radio")
    expect(quiz.locator("input:checked")).to_have_count(0)
    expect(quiz.get_by_role("status")).to_be_empty()
    options.first.focus()
    lesson.page.keyboard.press("Space")
    expect(quiz.get_by_role("status")).to_contain_text("✗ 大家手里都是 rank 0 的数。")
    for _ in range(2):
        lesson.page.keyboard.press("ArrowDown")
    expect(options.nth(2)).to_be_checked()
    expect(options.first).not_to_be_checked()
    expect(quiz.get_by_role("status")).to_contain_text("✓")


def test_what_was_measured_stays_covered_until_there_is_a_guess_and_follows_it(start):
    question, run = cell(start, "predict-launch"), cell(start, "launch")
    printed_line = run.get_by_text("rank 0 / 4: counter = 1")
    expect(question.locator("input:checked")).to_have_count(0)
    expect(printed_line).to_be_hidden()
    covered = run.get_by_text("stays covered").first
    expect(covered).to_be_visible()
    question.get_by_role("radio").nth(2).check()
    expect(printed_line).to_be_visible()
    expect(covered).to_be_hidden()
    expect(run.get_by_role("row", name="You predicted")).to_contain_text("4: each added one")
    expect(run.get_by_text("Not what you predicted.")).to_be_visible()
    question.get_by_role("radio").first.check()
    expect(run.get_by_text("As you predicted.")).to_be_visible()
    run_cell(start, "launch")
    expect(run.get_by_text("As you predicted.")).to_be_visible()


def test_a_number_is_predicted_by_typing(start):
    box, run = cell(start, "predict-bytes").get_by_role("spinbutton"), cell(start, "report")
    expect(run.locator("table").first).to_be_hidden()
    box.fill("1895700")
    box.press("Enter")
    expect(run.get_by_text("Exactly as you predicted.")).to_be_visible()
    box.fill("236928")
    box.press("Enter")
    expect(run.get_by_text("Your guess is 0.125 × the measured value.")).to_be_visible()


def test_who_makes_no_guess_can_ask_to_be_shown(lesson):
    run = cell(lesson, "wire")
    expect(run.locator("table").first).to_be_hidden()
    run.get_by_role("button", name="不猜了，直接看").click()
    expect(run.locator("table").first).to_be_visible()
    expect(run.get_by_text("（没有预测）")).to_be_visible()


def test_the_tool_is_there_and_its_slider_moves(lesson):
    tool = cell(lesson, "tool").locator(".explorer")
    slider, pictures = tool.get_by_label("rank 数 N", exact=True), tool.get_by_role("img")
    before = pictures.nth(1).get_attribute("aria-label")
    slider.focus()
    slider.press("ArrowRight")
    expect(pictures.nth(1)).not_to_have_attribute("aria-label", before)
    assert pictures.nth(1).get_attribute("aria-label").startswith("8 个 rank")


def test_running_everything_again_works(start):
    start.run_all()
    expect_printed(start, "first-run", "ranks: 2")
    start.watched.assert_quiet()


def test_a_late_cell_first_is_a_plain_error_and_never_a_hang(course):
    notebook = course.open("lessons/en/05_data_parallelism.ipynb", viewport=_WHOLE)
    run_cell(notebook, "faults-table")
    error = outputs(notebook, "faults-table")[-1]
    assert (error["output_type"], error["ename"]) == ("error", "NameError")
    notebook.page.close()


@pytest.mark.parametrize(
    ("lang", "says"),
    [("en", "Exercise chunk-bounds is yours"), ("zh", "轮到你了：练习 chunk-bounds 尚未完成")],
)
def test_the_students_lab_stops_kindly_at_the_first_exercise(course, lang, says):
    notebook = course.open(f"labs/{lang}/05_data_parallelism.ipynb", viewport=_WHOLE)
    with pytest.raises(AssertionError, match=says):
        notebook.run_all()
    stopped = cell(notebook, "chunk-bounds-check").locator(".jp-OutputArea-output")
    expect(stopped).to_have_count(1)
    expect(stopped).to_contain_text(says)
    assert "Traceback" not in stopped.inner_text()
    assert len(stopped.inner_text().splitlines()) == 1
    assert (
        notebook.page.evaluate(
            f"() => {_CELLS}.find(cell => cell.model.id === 'ring-all-reduce').model.executionCount"
        )
        is None
    ), "nothing after it ran"
    notebook.watched.assert_quiet()
    notebook.page.close()


_CARELESS = {
    "short": (
        "from lab_utils import launch\n\ndef hello():\n    return 1\n\nprint(launch(hello, 2))"
    ),
    "long": "def sleeper():\n    import time\n    time.sleep(120)\n\nlaunch(sleeper, 2)",
    "training": (
        "from lab_utils import TrainConfig, train\nreport = train(TrainConfig.of('tiny', dp=2,"
        " steps=100_000))"
    ),
}


@pytest.fixture(scope="module")
def careless(lab: Lab) -> Iterator[Notebook]:
    """A small notebook with cells that take long; its first has run."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in _CARELESS.items()]
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata=kernel), lab.root / "careless.ipynb"
    )
    notebook = lab.open("careless.ipynb")
    run_cell(notebook, "short")
    expect_printed(notebook, "short", "[1, 1]")
    yield notebook
    notebook.page.close()


def test_an_interrupted_run_leaves_no_rank_and_the_next_one_works(careless):
    kernel = kernel_process(careless)
    idle = set(kernel.children(recursive=True))
    for name in ("long", "training"):
        run_cell(careless, name, wait=False)
        until(
            lambda: len(set(kernel.children(recursive=True)) - idle) >= 2,
            20,
            f"two ranks of {name}",
        )
        time.sleep(0.5)
        ranks = set(kernel.children(recursive=True)) - idle
        careless.page.evaluate(
            "() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')"
        )
        until(
            lambda ranks=ranks: not any(rank.is_running() for rank in ranks),
            10,
            f"the ranks of {name} have ended",
        )
        careless.page.wait_for_function(
            "() =>"
            " window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.status"
            " === 'idle'",
            timeout=10_000,
        )
        assert outputs(careless, name)[-1]["ename"] == "KeyboardInterrupt"
        run_cell(careless, "short")
        expect_printed(careless, "short", "[1, 1]")


def test_no_process_outlives_its_kernel(careless):
    kernel = kernel_process(careless)
    idle = set(kernel.children(recursive=True))
    assert idle, "the forkserver"
    run_cell(careless, "long", wait=False)
    until(lambda: len(set(kernel.children(recursive=True)) - idle) >= 2, 20, "two ranks")
    family = kernel.children(recursive=True)
    careless.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()"
    )
    _, alive = psutil.wait_procs([kernel, *family], timeout=15)
    assert not alive
