"""Every notebook as it is opened for the first time: no line cut, nothing in the other language,
no error, in both languages and themes and at three widths."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import REPOSITORY, Lab, Notebook, script
from pairs import EVERYTHING, EXHAUSTIVE

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
Look = tuple[int, str]  # a width and a theme
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


def looks(path: str) -> list[Look]:
    """How the notebook is looked at: in `make test` once; in `make test-all` a lesson at each
    width, in themes that alternate, the other language in the other themes, and a lab, which has no
    figure before it runs, at the narrowest; with LAB_EXHAUSTIVE=2 at all, in both."""
    number = PAGES.index(path)
    if EVERYTHING:
        return [*itertools.product(WIDTHS, THEMES)]
    if not EXHAUSTIVE:
        return [(WIDTHS[number % 3], THEMES[number // 3 % 2])]
    first = "/zh/" in path
    return [(width, THEMES[(first + i) % 2]) for i, width in enumerate(WIDTHS)][
        : 1 if path.startswith("labs") else 3
    ]


def views(lab: Lab, path: str) -> Iterator[Seen]:
    """The notebook as it is to be looked at. It is opened once for the narrow page and once for
    JupyterLab with its file browser; widths and themes change in the open page, as learners change
    them."""
    for sidebar in (False, True):
        own = [look for look in looks(path) if (look[0] >= 1280) == sidebar]
        if not own:
            continue
        size = {"width": own[0][0], "height": 2000}
        notebook = lab.open(path, timeout_ms=OPENS_MS, viewport=size, sidebar=sidebar)
        for width, theme in own:
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
    """`make test` opens the first lesson, the last and its lab; `make test-all` all."""
    wrong = []
    for notebook, width, theme in views(trusted, path):
        lang = "zh" if "/zh/" in path else "en"
        found = notebook.page.evaluate(CHECKS, {"lang": lang, "tolerance": 2})
        wrong += [f"{width} px, {theme}: {sentence}" for sentence in found]
        if SHOTS:
            name = f"{path.replace('/', '_')}_{width}_{theme.split()[1]}.png"
            notebook.picture(Path(SHOTS) / name)
    assert not wrong, "\n".join(wrong)
