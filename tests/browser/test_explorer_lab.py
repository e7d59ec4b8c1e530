"""The same tools inside a real JupyterLab: displayed from a cell, live, in both themes, with a kernel that answers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from harness import Lab, Notebook, slider_to_paint_ms
from playwright.sync_api import expect

from lab_utils.widgets import data_parallelism
from lab_utils.widgets.controls import start_state

_CELLS = (
    "from lab_utils.widgets import data_parallelism\ndata_parallelism.explorer('en')",
    "data_parallelism.explorer('zh')",
    f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\nimport sample_tool\nsample_tool.explorer(with_large=True)",
)
EN, ZH, SAMPLE = range(3)
WINDOW = {"width": 1280, "height": 5000}        # JupyterLab draws only the cells in sight


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in _CELLS], metadata=kernel)
    nbformat.write(book, lab.root / "tools.ipynb")
    notebook = lab.open("tools.ipynb", viewport=WINDOW)
    notebook.run_all()
    notebook.page.wait_for_function("document.querySelectorAll('.explorer figure svg > text').length && document.querySelectorAll('.explorer').length === 3")
    yield notebook
    notebook.page.close()


@pytest.fixture(autouse=True)
def quiet(notebook: Notebook) -> Iterator[None]:
    yield
    notebook.watched.assert_quiet()


@pytest.mark.parametrize(("index", "lang", "label"), [(EN, "en", "Ranks N"), (ZH, "zh", "rank 数 N")])
def test_arrow_keys_move_the_slider_and_not_the_notebook(notebook, index, lang, label):
    tool, page = data_parallelism.explorer(lang), notebook.page
    widget, state = page.locator(".explorer").nth(index), start_state(tool.controls)
    slider = widget.get_by_label(label, exact=True)
    slider.focus()
    cell = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    before = page.evaluate(cell)
    for key, ranks in (("ArrowRight", 8), ("ArrowDown", 4), ("ArrowUp", 8)):
        slider.press(key)
        drawn = [svg.get_attribute("aria-label") for svg in widget.get_by_role("img").all()]
        assert drawn == [tool.scene(panel, state | {"ranks": ranks})["alt"] for panel in tool.panels]
    assert page.evaluate(cell) == before


def test_a_choice_in_a_list_changes_the_picture(notebook):
    tool, widget = data_parallelism.explorer("en"), notebook.page.locator(".explorer").nth(EN)
    widget.get_by_label("Ranks N").fill("4")
    widget.get_by_label("Gradients travel").select_option(label="in buckets of 25 MiB")
    expected = tool.scene(tool.panels[1], start_state(tool.controls) | {"ranks": 8, "sync": "25"})["alt"]
    expect(widget.get_by_role("img").nth(1)).to_have_attribute("aria-label", expected)


def test_play_runs(notebook):
    widget = notebook.page.locator(".explorer").nth(SAMPLE)
    widget.get_by_label("Size", exact=True).fill("0")
    widget.get_by_role("button", name="Play").click()
    expect(widget.get_by_role("img").first).to_have_attribute("aria-label", "box of size 3, ground False", timeout=5000)
    expect(widget.get_by_role("button", name="Play")).to_be_visible()


def test_slider_to_paint_is_about_a_frame_here_too(notebook):
    widget = notebook.page.locator(".explorer").nth(EN)
    notebook.page.set_viewport_size({"width": 1280, "height": 1400})        # a window as people have it: what is painted counts
    widget.get_by_label("Ranks N").fill("4")
    walk = [("Walk through the step", key) for key in ["ArrowRight"] * 10 + ["ArrowLeft"] * 12]
    times = slider_to_paint_ms(widget, [*walk, *[("Ranks N", key) for key in ["ArrowLeft"] * 4 + ["ArrowRight"] * 6]])
    notebook.page.set_viewport_size(WINDOW)
    assert len(times) == 32
    assert statistics.median(times) <= 34, "aim: one frame, 17 ms; the rest is for a busy machine"
    assert times[int(0.95 * len(times))] <= 90, "aim: two frames, 33 ms"


def test_the_kernel_draws_what_is_too_large_for_a_table(notebook):
    widget = notebook.page.locator(".explorer").nth(SAMPLE)
    picture = widget.get_by_role("img").nth(1)
    expect(picture).to_have_attribute("aria-label", "the sum is 0")
    widget.get_by_label("A", exact=True).fill("49")
    widget.get_by_label("B", exact=True).fill("2")
    expect(picture).to_have_attribute("aria-label", "the sum is 51")
    expect(picture).to_contain_text("49 + 2")


@pytest.mark.parametrize(("theme", "paper"), [("JupyterLab Dark", "rgb(20, 24, 29)"), ("JupyterLab Light", "rgb(255, 255, 255)")])
def test_follows_the_notebooks_theme_and_axe_finds_nothing(notebook, theme, paper):
    page = notebook.page
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    expect(page.locator(".explorer").first).to_have_css("background-color", paper)
    page.wait_for_timeout(300)          # colours glide for a quarter of a second
    results = Axe().run(page, context=".explorer").response
    assert results["violations"] == []
    assert {"label", "select-name", "color-contrast"} <= {rule["id"] for rule in results["passes"]}, "axe looked at the tool"


def test_the_saved_output_carries_a_picture_for_where_nothing_runs(notebook):
    bundles = notebook.page.evaluate("""() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
        .map(cell => cell.sharedModel.outputs.at(-1).data)""")
    for lang, bundle in zip(("en", "zh"), bundles, strict=False):
        tool = data_parallelism.explorer(lang)
        assert "".join(bundle["image/svg+xml"]) == tool.svg()
        assert "".join(bundle["text/plain"]) == repr(tool)
