"""Fixtures of every test in a browser; all of them are marked `browser`, and skipped with a reason
where there is none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from every_tool import make
from harness import FLAGS, Lab, Open, Watched, find_chromium, jupyterlab, watched_page
from playwright.sync_api import Browser, sync_playwright

from lab_utils.widgets.frame import Explorer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def tools() -> Callable[[str, str], Explorer]:
    """A tool by the name of its room and the language; each is made once."""
    return make


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        reason = (
            "no Chromium found: install one (Debian: apt-get install chromium) or name it in"
            " CHROMIUM"
        )
        if os.environ.get("LAB_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab over an empty folder, `lab.root`."""
    with jupyterlab(tmp_path_factory.mktemp("lab"), browser) as running:
        yield running


@pytest.fixture
def open_html(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens HTML as a page on disk; at the end nothing may have gone wrong in any of them."""
    opened: list[Watched] = []

    def open_one(html: str, **options: Any) -> Watched:
        file = tmp_path / f"{len(opened)}.html"
        file.write_text(html, encoding="utf-8")
        options = {"viewport": {"width": 1000, "height": 1800}} | options
        opened.append(watched_page(browser, file.as_uri(), **options))
        opened[-1].page.goto(file.as_uri())
        return opened[-1]

    yield open_one
    for watched in opened:
        watched.assert_quiet()
        watched.page.close()


@pytest.fixture
def open_page(open_html: Open) -> Open:
    """Opens a tool's own page and waits until it is drawn."""

    def open_one(tool: Explorer, **options: Any) -> Watched:
        watched = open_html(tool.html(), **options)
        watched.page.wait_for_selector("figure:last-of-type > svg > *")
        return watched

    return open_one
