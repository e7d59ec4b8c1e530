"""A real browser and a real JupyterLab for tests: nothing may leave this machine, and no error may
go unseen."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat.sign import NotebookNotary
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Route
from playwright.sync_api import TimeoutError as NotInTime
from quiet import on_time

REPOSITORY = Path(__file__).resolve().parents[2]


def script(name: str) -> str:
    """A function in JavaScript from the folder js, for `page.evaluate`."""
    return (Path(__file__).parent / "js" / f"{name}.js").read_text(encoding="utf-8")


FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def find_chromium() -> str | None:
    """Path of a Chromium: the one that the environment names in CHROMIUM, or what the system
    has."""
    named = os.environ.get("CHROMIUM")
    names = (named,) if named else ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


# JupyterLab's own note when a kernel ends while it asks for its debugger
LET_GO = "Could not restore the debugger state"


@dataclass
class Watched:
    """A page with what it tried to fetch from elsewhere (refused) and the errors that it
    reported."""

    page: Page
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """No request to elsewhere and no error since the page was opened."""
        assert not self.refused, f"requests off this machine: {self.refused}"
        assert not self.errors, f"errors in the console: {self.errors}"


def watched_page(browser: Browser | BrowserContext, allowed: str, **options: Any) -> Watched:
    """A new page that may fetch only what starts with `allowed` (and data: and blob: addresses)."""
    watched = Watched(browser.new_page(**options))

    def refuse(route: Route) -> None:
        watched.refused.append(route.request.url)
        route.abort()

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error" and LET_GO not in message.text:
            watched.errors.append(message.text)

    watched.page.route(lambda url: not url.startswith((allowed, "data:", "blob:")), refuse)
    watched.page.on("console", listen)
    watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
    return watched


Open = Callable[..., Watched]  # what the fixture open_page gives


class Lab:
    """A running JupyterLab whose files are in `root`."""

    def __init__(self, url: str, token: str, browser: Browser, environment: dict[str, str]) -> None:
        self.url, self.token, self.browser, self.environment = url, token, browser, environment
        self.root = Path(environment["JUPYTER_CONFIG_DIR"]).parent

    def settings(self, plugin: str, text: str) -> None:
        """Set a plugin of JupyterLab, for notebooks that are opened from now on."""
        file = self.root / f".jupyter/settings/@jupyterlab/{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def trust(self, *paths: str) -> None:
        """Sign notebooks (paths below the root), as `make lab` does with `jupyter trust`: their
        saved outputs may run scripts."""
        notary = NotebookNotary(data_dir=self.environment["JUPYTER_DATA_DIR"])
        for path in paths:
            notary.sign(nbformat.read(self.root / path, as_version=4))

    def open(
        self,
        path: str,
        timeout_ms: int = 60_000,
        kernel: bool = True,
        sidebar: bool = False,
        within: BrowserContext | None = None,
        **options: Any,
    ) -> Notebook:
        """Open a notebook (path below the root) in a tab of its own and wait for its kernel; with
        `kernel` False its kernel is not installed here: the question for another is answered with
        none. With `sidebar` it stands in the whole JupyterLab, its file browser open. Pages
        `within` one context share their storage, as those of one browser do."""
        options = {"viewport": {"width": 1280, "height": 1600}} | options
        watched = watched_page(within or self.browser, self.url, **({} if within else options))
        watched.page.goto(
            f"{self.url}/{'lab' if sidebar else 'doc'}/tree/{path}?token={self.token}&reset",
            wait_until="domcontentloaded",
        )
        watched.page.wait_for_function(script("notebook_ready"), arg=kernel, timeout=timeout_ms)
        if not kernel:
            watched.page.locator(".jp-Dialog button.jp-mod-reject").click(timeout=timeout_ms)
        return Notebook(watched)


class Notebook:
    """A notebook open in JupyterLab."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self.page = watched, watched.page

    def theme(self, name: str) -> None:
        """Change to "JupyterLab Light" or "JupyterLab Dark"."""
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", name
        )
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light",
            arg=str(name.endswith("Light")).lower(),
        )

    def picture(self, file: Path) -> None:
        """Save the whole notebook as one picture, however long it is."""
        height = self.page.evaluate(
            "() => document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden)"
            " .jp-WindowedPanel-outer').scrollHeight"
        )
        size = self.page.viewport_size
        self.page.set_viewport_size({"width": size["width"], "height": min(height + 100, 16_000)})
        self.page.wait_for_timeout(300)
        file.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=file)

    def run_all(self, timeout_ms: int = 120_000) -> None:
        """Run every cell; raises AssertionError with the first error that a cell raised, or with
        the first lines of the cell that had not ended in time."""
        self.page.evaluate(script("start_run_all"))
        try:
            self.page.wait_for_function("allHaveRun", timeout=timeout_ms)
            self.page.wait_for_function(script("all_run"), timeout=10_000)
        except NotInTime:
            running = self.page.evaluate(script("first_not_run"))
            raise AssertionError(f"{timeout_ms / 1000:.0f} s were not enough: {running}") from None
        errors = self.page.evaluate(script("errors"))
        assert not errors, errors


def alts(page: Page) -> list[str]:
    """What a screen reader says of every picture on the page."""
    return [svg.get_attribute("aria-label") for svg in page.locator("figure > svg").all()]


MISPLACED = script("misplaced")
A_LESSON_MS = 600_000  # to run one where others use the cores; 25 to 50 s on two quiet ones


def slider_to_paint_ms(tool: Locator, moves: Iterable[tuple[str, str]]) -> list[float]:
    """Milliseconds from each input event to the end of the frame that shows its result, sorted;
    moves are (label, key)."""
    tool.evaluate(script("time_paints"))
    for done, (label, key) in enumerate(moves):
        tool.get_by_label(label, exact=True).press(key)
        tool.page.wait_for_function(f"painted.length > {done}")
    return sorted(tool.page.evaluate("painted"))


def assert_about_a_frame(tool: Locator, moves: list[tuple[str, str]], slack: float = 1.0) -> None:
    """Half of all moves are painted within a frame and a half, 19 of 20 within three and a half;
    not judged on a busy machine."""
    times = slider_to_paint_ms(tool, moves)
    assert len(times) == len(moves) >= 25
    median, most = statistics.median(times), times[int(0.95 * len(times))]
    on_time(median <= 25 * slack, f"median {median:.0f} ms to paint; aim: one frame, 17 ms")
    on_time(most <= 60 * slack, f"19 of 20 within {most:.0f} ms; aim: two frames, 33 ms")


@contextlib.contextmanager
def jupyterlab(root: Path, browser: Browser, timeout_seconds: float = 60) -> Iterator[Lab]:
    """JupyterLab on a free port of the loopback interface, with settings of its own; ends with the
    block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home, token = root / ".jupyter", secrets.token_hex(16)
    notification = home / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    notification.parent.mkdir(parents=True)
    (home / "data").mkdir()
    notification.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={root}",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        *(["--allow-root"] if os.geteuid() == 0 else []),
    ]
    url, log = f"http://127.0.0.1:{port}", root / "server.log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server,
    ):
        try:
            deadline = time.monotonic() + timeout_seconds
            while not _answers(f"{url}/api?token={token}"):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.1)
            yield Lab(url, token, browser, environment)
        finally:
            server.terminate()
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False
