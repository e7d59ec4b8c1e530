"""Every notebook as it is opened for the first time: no line cut, nothing in the other language,
no error, in both languages and themes and at three widths."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from harness import REPOSITORY, Lab, Notebook, script
from pairs import EXHAUSTIVE

pytestmark = pytest.mark.timeout(900 if EXHAUSTIVE else 300)  # six views of a page in one test
OPENS_MS = 240_000 if EXHAUSTIVE else 60_000  # a kernel starts late where others use the cores
CHECKS = script("page_checks")
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for room in ("lessons", "labs")
    for path in (REPOSITORY / room).glob("*/[0-9][0-9]_*.ipynb")
)
LESSONS, LABS = (
    [path for path in PAGES if path.startswith(f"{room}/{lang}")]
    for room, lang in (("lessons", "zh"), ("labs", "en"))
)
OPENED = PAGES if EXHAUSTIVE else [LESSONS[0], LESSONS[-1], LABS[-1]]
WIDTHS = (1024, 1280, 1920)
THEMES = ("JupyterLab Light", "JupyterLab Dark")
Seen = tuple[Notebook, int, str]  # with its width and theme
SHOTS = os.environ.get("LAB_SCREENSHOTS")  # a folder: a picture of every page is left there


@pytest.fixture(scope="module")
def trusted(lab: Lab) -> Lab:
    """A JupyterLab over the course, as `make lab` starts it: notebooks trusted, all cells drawn."""
    for room in ("lessons", "labs"):
        shutil.copytree(
            REPOSITORY / room, lab.root / room, ignore=shutil.ignore_patterns("source", ".*")
        )
    lab.settings("notebook-extension/tracker", '{"windowingMode": "none"}')
    lab.trust(*PAGES)
    return lab


def views(lab: Lab, path: str, widths: Sequence[int], themes: Sequence[str]) -> Iterator[Seen]:
    """The notebook in each width and theme. It is opened once for the narrow page and once for
    JupyterLab with its file browser; widths and themes change in the open page, as learners change
    them."""
    for sidebar in (False, True):
        own = [width for width in widths if (width >= 1280) == sidebar]
        if not own:
            continue
        size = {"width": own[0], "height": 2000}
        notebook = lab.open(path, timeout_ms=OPENS_MS, viewport=size, sidebar=sidebar)
        for width, theme in itertools.product(own, themes):
            notebook.page.set_viewport_size(size | {"width": width})
            notebook.theme(theme)
            notebook.page.wait_for_function(
                "() => document.querySelectorAll('.lab-card:not([data-live])').length === 0"
            )
            notebook.page.wait_for_timeout(500)  # fonts and figures have come to rest
            yield notebook, width, theme
        notebook.watched.assert_quiet()
        notebook.page.close()


@pytest.mark.parametrize("path", OPENED)
def test_nothing_is_cut_and_one_language_is_spoken(trusted, path):
    """`make test` opens the first lesson, the last and its lab, each in one language, theme and
    width; `make test-all` every lesson in all of them, and every lab, which has no figure before it
    runs, in both languages and the two narrower widths."""
    number = PAGES.index(path)
    widths, themes = WIDTHS, THEMES
    if EXHAUSTIVE and path.startswith("labs"):
        widths, themes = WIDTHS[:2], [THEMES[number % 2]]
    if not EXHAUSTIVE:
        widths, themes = [WIDTHS[number % 3]], [THEMES[number // 3 % 2]]
    wrong = []
    for notebook, width, theme in views(trusted, path, widths, themes):
        lang = "zh" if "/zh/" in path else "en"
        found = notebook.page.evaluate(CHECKS, {"lang": lang, "tolerance": 2})
        wrong += [f"{width} px, {theme}: {sentence}" for sentence in found]
        if SHOTS:
            name = f"{path.replace('/', '_')}_{width}_{theme.split()[1]}.png"
            notebook.picture(Path(SHOTS) / name)
    assert not wrong, "\n".join(wrong)
