"""Fixtures of every test in a browser; all of them are marked `browser`, and skipped with a reason where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from every_tool import LANGS, TOURS
from harness import FLAGS, Lab, Open, Watched, find_chromium, jupyterlab, watched_page
from playwright.sync_api import Browser, sync_playwright

from lab_utils.widgets import Explorer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def tools() -> dict[tuple[str, str], Explorer]:
    """Every tool in both languages, by (name, language); a table is made when it is first asked for."""
    return {(name, lang): tour.make(lang) for name, tour in TOURS.items() for lang in LANGS}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        reason = "no Chromium found: install one (Debian: apt-get install chromium) or name it in CHROMIUM"
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
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a tool as a page on disk; at the end nothing may have gone wrong in any of them."""
    opened: list[Watched] = []

    def open_one(tool: Explorer, **options: Any) -> Watched:
        file = tmp_path / f"{len(opened)}.html"
        file.write_text(tool.html(), encoding="utf-8")
        opened.append(watched_page(browser, file.as_uri(), **{"viewport": {"width": 1000, "height": 1800}} | options))
        opened[-1].page.goto(file.as_uri())
        opened[-1].page.wait_for_selector("figure:last-of-type svg > *")
        return opened[-1]

    yield open_one
    for watched in opened:
        watched.assert_quiet()
        watched.page.close()
