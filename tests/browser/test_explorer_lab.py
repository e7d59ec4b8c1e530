"""A tool inside a real JupyterLab: from a cell that has just run, and on the second day, from the
saved notebook, without a kernel; in both themes, beside other views of itself."""

from __future__ import annotations

from collections.abc import Iterator

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from every_tool import make, slides
from harness import Lab, Notebook, assert_about_a_frame
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from playwright.sync_api import expect
from tool_pages import label

from lab_utils.widgets.frame.controls import say, start_state

WINDOW = {"width": 1280, "height": 5200}  # JupyterLab draws only the cells in sight
NAME = "data_parallelism"


def book(*cells: nbformat.NotebookNode, kernel: str) -> nbformat.NotebookNode:
    spec = {"name": kernel, "display_name": kernel, "language": "python"}
    return nbformat.v4.new_notebook(cells=list(cells), metadata={"kernelspec": spec})


def saved(lang: str) -> nbformat.NotebookNode:
    """A cell as it was saved yesterday."""
    output = nbformat.v4.new_output(
        "execute_result", data=make(NAME, lang)._repr_mimebundle_(), execution_count=1
    )
    return nbformat.v4.new_code_cell(f"# {lang}", outputs=[output], execution_count=1)


def open_saved(lab: Lab, path: str, trusted: bool, **options: object) -> Notebook:
    """A notebook of yesterday whose kernel is not installed here, with the tool in both
    languages."""
    nbformat.write(book(saved("en"), saved("zh"), kernel="gone"), lab.root / path)
    if trusted:
        lab.trust(path)
    return lab.open(path, kernel=False, **options)


@pytest.fixture(scope="module")
def live(lab: Lab) -> Iterator[Notebook]:
    """A tool that a cell has just returned."""
    code = f"from lab_utils.widgets import {NAME}\n{NAME}.explorer('en')"
    nbformat.write(
        book(nbformat.v4.new_code_cell(code), kernel=NATIVE_KERNEL_NAME), lab.root / "live.ipynb"
    )
    notebook = lab.open("live.ipynb", viewport=WINDOW)
    notebook.run_all()
    notebook.page.wait_for_selector(".explorer figure:last-of-type > svg > text")
    yield notebook
    notebook.watched.assert_quiet()
    notebook.page.close()


@pytest.fixture(scope="module")
def second_day(lab: Lab) -> Iterator[Notebook]:
    notebook = open_saved(lab, "yesterday.ipynb", trusted=True, viewport=WINDOW)
    expect(notebook.page.locator(".explorer")).to_have_count(2)
    yield notebook
    notebook.page.close()


def moved_and_drawn(notebook: Notebook, index: int, lang: str) -> None:
    """Arrow keys move the ranks, the pictures follow, and the notebook stays where it is."""
    tool, page = make(NAME, lang), notebook.page
    view, state = page.locator(".explorer").nth(index), start_state(tool.controls)
    slider = view.get_by_label(label(tool, "ranks"), exact=True)
    slider.focus()
    cell = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    before = page.evaluate(cell)
    for key, ranks in (("ArrowRight", 8), ("ArrowDown", 4), ("ArrowUp", 8), ("ArrowLeft", 4)):
        slider.press(key)
        drawn = [svg.get_attribute("aria-label") for svg in view.locator("figure > svg").all()]
        assert drawn == [
            tool.scene(panel, state | {"ranks": ranks})["alt"] for panel in tool.panels
        ]
    assert page.evaluate(cell) == before


def test_a_tool_that_a_cell_returned_is_alive(live):
    moved_and_drawn(live, 0, "en")


@pytest.mark.parametrize(("index", "lang"), [(0, "en"), (1, "zh")])
def test_on_the_second_day_it_is_alive_without_a_kernel(second_day, index, lang):
    moved_and_drawn(second_day, index, lang)


def test_a_solved_step_is_still_solved_when_the_notebook_is_opened_again(second_day):
    tool, view = make(NAME, "en"), second_day.page.locator(".explorer").first
    view.get_by_label("Gradients travel").select_option(label="in buckets of 25 MiB")
    expect(view.locator(".verdict")).to_contain_text(say(tool.steps[0].why, "en"))
    second_day.page.reload()
    second_day.page.locator(".jp-Dialog button.jp-mod-reject").click(timeout=60_000)
    expect(view.locator(".task")).to_have_text(say(tool.steps[1].task, "en"))
    view.locator(".again").click()
    expect(view.locator(".task")).to_have_text(say(tool.steps[0].task, "en"))


def test_where_scripts_are_not_trusted_the_picture_stands_and_nothing_is_cut(lab):
    notebook = open_saved(lab, "stranger.ipynb", trusted=False, viewport=WINDOW)
    pictures = notebook.page.locator(".jp-OutputArea-output img")
    expect(pictures).to_have_count(2)
    for picture, lang in zip(pictures.all(), ("en", "zh"), strict=True):
        expect(picture).to_have_attribute("alt", repr(make(NAME, lang)))
        assert picture.evaluate("image => image.complete && image.naturalWidth") > 700
        cell = picture.locator("xpath=ancestor::div[contains(@class, 'jp-OutputArea-output')]")
        assert picture.bounding_box()["width"] <= cell.bounding_box()["width"]
    assert notebook.page.locator(".explorer").count() == 0
    notebook.page.close()


@pytest.mark.parametrize("width", [1024, 1280, 1920])
def test_the_verdict_stays_in_sight_and_nothing_is_cut(lab, width):
    window = {"width": width, "height": 800}
    notebook = open_saved(lab, f"narrow{width}.ipynb", trusted=True, viewport=window)
    view = notebook.page.locator(".explorer").first
    view.wait_for()
    view.get_by_label("Gradients travel").scroll_into_view_if_needed()
    expect(view.locator(".verdict")).to_be_in_viewport(ratio=1)
    expect(view.get_by_label("Gradients travel")).to_be_in_viewport(ratio=1)
    box = view.evaluate("tool => tool.scrollWidth - tool.clientWidth")
    assert box <= 0, "nothing sticks out of the tool"
    assert view.bounding_box()["x"] + view.bounding_box()["width"] <= width
    notebook.page.close()


def test_slider_to_paint_is_about_a_frame_here_too(live):
    # a window as people have it: what is painted counts
    live.page.set_viewport_size({"width": 1280, "height": 1400})
    tool = make(NAME, "en")
    moves = [(label(tool, control), key) for control, key in slides(tool)]
    assert_about_a_frame(live.page.locator(".explorer"), moves, slack=1.5)
    live.page.set_viewport_size(WINDOW)


@pytest.mark.parametrize(
    ("theme", "paper"),
    [("JupyterLab Dark", "rgb(20, 24, 29)"), ("JupyterLab Light", "rgb(255, 255, 255)")],
)
def test_follows_the_notebooks_theme_and_axe_finds_nothing(live, theme, paper):
    page = live.page
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme
    )
    expect(page.locator(".explorer").first).to_have_css("background-color", paper)
    page.wait_for_timeout(300)  # colours glide for a quarter of a second
    results = Axe().run(page, context=".explorer").response
    assert results["violations"] == []
    passed = {rule["id"] for rule in results["passes"]}
    assert {"label", "select-name", "color-contrast"} <= passed, "axe looked at the tool"
