"""A real browser and a real JupyterLab for tests: nothing may leave this machine, and no error may go unseen."""

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

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Route

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")  # fmt: skip


def find_chromium() -> str | None:
    """Path of a Chromium: the one that the environment names in CHROMIUM, or what the system has."""
    named = os.environ.get("CHROMIUM")
    names = (named,) if named else ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@dataclass
class Watched:
    """A page with what it tried to fetch from elsewhere (refused) and the errors that it reported."""

    page: Page
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """No request to elsewhere and no error since the page was opened."""
        assert not self.refused, f"requests off this machine: {self.refused}"
        assert not self.errors, f"errors in the console: {self.errors}"


def watched_page(browser: Browser, allowed: str, **options: Any) -> Watched:
    """A new page that may fetch only what starts with `allowed` (and data: and blob: addresses)."""
    watched = Watched(browser.new_page(**options))

    def refuse(route: Route) -> None:
        watched.refused.append(route.request.url)
        route.abort()

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error":
            watched.errors.append(message.text)

    watched.page.route(lambda url: not url.startswith((allowed, "data:", "blob:")), refuse)
    watched.page.on("console", listen)
    watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
    return watched


Open = Callable[..., Watched]      # what the fixture open_page gives


class Lab:
    """A running JupyterLab whose files are in `root`."""

    def __init__(self, url: str, token: str, browser: Browser, root: Path) -> None:
        self.url, self.token, self.browser, self.root = url, token, browser, root

    def open(self, path: str, timeout_ms: int = 60_000, **options: Any) -> Notebook:
        """Open a notebook (path below the root) in a tab of its own and wait for its kernel."""
        watched = watched_page(self.browser, self.url, **{"viewport": {"width": 1280, "height": 1600}} | options)
        watched.page.goto(f"{self.url}/doc/tree/{path}?token={self.token}&reset", wait_until="domcontentloaded")
        watched.page.wait_for_function(
            """() => { const w = window.jupyterapp?.shell?.currentWidget, s = w?.context?.sessionContext;
               return w?.content?.model && s?.isReady && s.session?.kernel?.status === 'idle'; }""", timeout=timeout_ms)  # fmt: skip
        return Notebook(watched)


class Notebook:
    """A notebook open in JupyterLab."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self.page = watched, watched.page

    def run_all(self, timeout_ms: int = 120_000) -> None:
        """Run every cell; raises AssertionError with the first error that a cell raised."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(
            """() => { const code = [...window.jupyterapp.shell.currentWidget.content.model.cells]
                 .filter(c => c.type === 'code' && c.sharedModel.source.trim());
               return code.some(c => c.sharedModel.outputs.some(o => o.output_type === 'error'))
                 || code.every(c => c.executionCount !== null && c.executionState !== 'running'); }""", timeout=timeout_ms)  # fmt: skip
        errors = self.page.evaluate(
            """() => [...window.jupyterapp.shell.currentWidget.content.model.cells].filter(c => c.type === 'code')
                 .flatMap(c => c.sharedModel.outputs).filter(o => o.output_type === 'error').map(o => `${o.ename}: ${o.evalue}`)""")  # fmt: skip
        assert not errors, errors


def alts(page: Page) -> list[str]:
    """What a screen reader says of every picture on the page."""
    return [svg.get_attribute("aria-label") for svg in page.get_by_role("img").all()]


# Boxes of all texts of a picture in its own units; wrong are those that leave it, overlap, or stick out of the rectangle they stand in.
MISPLACED = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const { width, height } = svg.viewBox.baseVal, wrong = [];
  const texts = [...svg.querySelectorAll('text')].map(n => [n, n.getBBox()]), rects = [...svg.querySelectorAll('rect')].map(n => n.getBBox());
  const apart = (b, c, slack) => b.x >= c.x + c.width || c.x >= b.x + b.width || b.y + slack >= c.y + c.height || c.y + slack >= b.y + b.height;
  texts.forEach(([n, b], i) => {
    if (b.x < -0.5 || b.y < -0.5 || b.x + b.width > width + 0.5 || b.y + b.height > height + 0.5) wrong.push(`cut: ${n.textContent}`);
    for (const [m, c] of texts.slice(i + 1)) if (!apart(b, c, 3)) wrong.push(`overlap: ${n.textContent} / ${m.textContent}`);
    const middle = { x: b.x + b.width / 2, y: b.y + b.height / 2, width: 0.1, height: 0.1 };
    for (const r of n.getAttribute('text-anchor') === 'middle' ? rects : [])
      if (!apart(middle, r, 0) && b.width > r.width) wrong.push(`too wide: ${n.textContent}`);
  });
  return wrong;
})"""


def slider_to_paint_ms(tool: Locator, moves: Iterable[tuple[str, str]]) -> list[float]:
    """Milliseconds from each input event to the end of the frame that shows its result, sorted; moves are (label, key)."""
    tool.evaluate("""tool => { window.painted = []; tool.addEventListener('input', event => requestAnimationFrame(() => {
        const frame = new MessageChannel();         // its message comes when the frame has been painted
        frame.port1.onmessage = () => painted.push(performance.now() - event.timeStamp);
        frame.port2.postMessage(0); })); }""")
    for done, (label, key) in enumerate(moves):
        tool.get_by_label(label, exact=True).press(key)
        tool.page.wait_for_function(f"painted.length > {done}")
    times = sorted(tool.page.evaluate("painted"))
    print(f"slider to paint: n={len(times)}, median {statistics.median(times):.1f} ms, p95 {times[int(0.95 * len(times))]:.1f} ms")
    return times


@contextlib.contextmanager
def jupyterlab(root: Path, browser: Browser, timeout_seconds: float = 60) -> Iterator[Lab]:
    """JupyterLab on a free port of the loopback interface, with settings of its own; ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home, token = root / ".jupyter", secrets.token_hex(16)
    notification = home / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    notification.parent.mkdir(parents=True)
    notification.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"), "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "PYTHONPATH": str(REPOSITORY),
    }  # fmt: skip
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0",
               f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None",
               "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", *(["--allow-root"] if os.geteuid() == 0 else [])]  # fmt: skip
    url, log = f"http://127.0.0.1:{port}", root / "server.log"
    with log.open("w") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server:
        try:
            deadline = time.monotonic() + timeout_seconds
            while not _answers(f"{url}/api?token={token}"):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.1)
            yield Lab(url, token, browser, root)
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
