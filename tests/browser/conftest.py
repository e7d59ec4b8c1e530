"""Fixtures of every test in a browser; all of them are marked `browser`, and skipped with a reason where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import FLAGS, Lab, find_chromium, jupyterlab
from playwright.sync_api import Browser, sync_playwright


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


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
