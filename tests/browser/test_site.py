"""The site, built by its generator and served cold from this machine: nothing is asked of anybody
else, no page is empty or heavy, axe finds nothing, tools, questions and the search answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from harness import REPOSITORY, Watched, alts, script, watched_page
from playwright.sync_api import Browser, Response, expect
from quiet import on_time

pytestmark = pytest.mark.timeout(1800)  # one builds the site: a minute of one core
PYTHON = REPOSITORY / ".cache/site/bin/python"
ALL = os.environ.get("LAB_EXHAUSTIVE") == "2"  # axe on every page, in both themes: an hour
SHOTS = os.environ.get("LAB_SCREENSHOTS")  # a folder: pictures of every page visited are left there
LANGS = ("en", "zh")
UNDERLINED = """[...document.querySelectorAll(".highlight span")].some(
  span => getComputedStyle(span).textDecorationLine.includes("underline"))"""
START = "lessons/00_start"
LARGEST = {"tools": 1_500_000, "lessons": 4_000_000, "labs": 1_500_000, "search": 1_500_000}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Site:
    """The built site in `folder`, served at `url`."""

    def __init__(self, folder: Path, url: str, browser: Browser) -> None:
        self.folder, self.url, self.browser = folder, url, browser
        self.taken = 0  # bytes that the page opened last has loaded

    def pages(self, lang: str) -> list[str]:
        """Every page of a language, as lessons/05_data_parallelism."""
        found = sorted((self.folder / lang).glob("[a-z]*/*.html"))
        return [*(f"{path.parent.name}/{path.stem}" for path in found), "search"]

    @contextmanager
    def open(self, page: str, theme: str = "light", width: int = 1280) -> Iterator[Watched]:
        """A page in a browser that has never seen the site; in the end nothing may be wrong."""
        size = {"width": width, "height": 900}
        context = self.browser.new_context(
            viewport=size, color_scheme=theme, reduced_motion="reduce"
        )
        watched, self.taken = watched_page(context, self.url), 0
        watched.page.on("response", self._weigh)
        watched.page.goto(f"{self.url}/{page}", wait_until="load")
        yield watched
        watched.assert_quiet()
        context.close()

    def _weigh(self, response: Response) -> None:
        self.taken += int(response.headers.get("content-length", 0))


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not PYTHON.exists():
        reason = "the site's generator is not installed: make .cache/site/installed"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    out = tmp_path_factory.mktemp("served") / "course"
    done = subprocess.run(
        [PYTHON, "-m", "lab_utils", "site", "--out", out],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # below a folder, as a project's pages are on GitHub
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=out.parent))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Site(out, f"http://127.0.0.1:{server.server_port}/course", browser)
    server.shutdown()


def test_the_site_holds_every_page_and_no_solution(site):
    for lang in LANGS:
        built = {
            f"{room}/{path.stem}"
            for room in ("lessons", "labs")
            for path in (REPOSITORY / room / lang).glob("[0-9][0-9]_*.ipynb")
        }
        assert built < {*site.pages(lang)}
    names = [path.name for path in site.folder.rglob("*")]
    assert not [name for name in names if "solution" in name or name.endswith((".ipynb", ".md"))]


def test_every_page_is_whole_light_and_asks_nobody(site):
    """Each page in one theme and width; the next page, and the other language, in another."""
    views = [("light", 1280), ("dark", 390), ("dark", 1280), ("light", 390)]
    seen: dict[str, int] = {}
    for start, lang in enumerate(LANGS):
        for number, name in enumerate(site.pages(lang), start):
            for theme, width in views if ALL else [views[number % 4]]:
                weight = visit(site, lang, name, theme, width, axe=ALL or number % 3 == 0)
                room = name.split("/")[0]
                assert weight <= LARGEST[room], f"{lang}/{name}: {weight:,} bytes"
                seen[room] = max(seen.get(room, 0), weight)
    print(f"heaviest pages, everything that they load counted: {seen}")


def visit(site: Site, lang: str, name: str, theme: str, width: int, axe: bool) -> int:
    """Look at a page; returns the bytes that it took."""
    with site.open(f"{lang}/{name}.html", theme, width) as watched:
        page = watched.page
        where = f"{lang}/{name}, {theme}, {width} px"
        expect(page.locator("article h1").first).to_be_visible()
        assert len(page.locator("article").inner_text()) > (20 if name == "search" else 200), where
        assert page.locator(".lab-card:not([data-live])").count() == 0, where
        expect(page.locator("article img[src^='data:image/svg']")).to_have_count(0)  # tools live
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{where}: too wide"
        assert not page.evaluate(UNDERLINED), f"{where}: underscores in code cannot be read"
        if axe:
            found = Axe().run(page).response["violations"]
            assert found == [], (where, [(v["id"], v["nodes"][0]["html"]) for v in found])
        if SHOTS:
            file = f"{lang}_{name.replace('/', '_')}_{theme}_{width}.png"
            page.screenshot(path=Path(SHOTS) / file)
    return site.taken


@pytest.mark.skipif(not ALL, reason="a clock, and a site of its own: LAB_EXHAUSTIVE=2 runs it")
@pytest.mark.parametrize("lang", LANGS)
def test_the_first_interaction_comes_within_a_second(site, lang):
    """From asking for the page, which nobody has in store, to the tool's answer to a key."""
    with site.open(f"{lang}/search.html") as watched:  # a browser that has started
        page = watched.page
        page.goto(f"{site.url}/{lang}/tools/zero.html", wait_until="commit")
        slider = page.locator(".explorer input[type=range]").first
        slider.wait_for()
        before = alts(page)
        slider.press("ArrowRight")
        assert alts(page) != before
        ms = page.evaluate("performance.now()")
        print(f"{lang}: {ms:.0f} ms")
        on_time(ms < 1000, f"{ms:.0f} ms until the tool answered, of 1,000")


def test_questions_and_predictions_live_without_a_kernel(site):
    """A result is covered until there is a guess, a quiz answers back, both are kept, and the map
    on page 00 counts them."""
    lang = LANGS[-1]
    with site.open(f"{lang}/lessons/05_data_parallelism.html") as watched:
        page = watched.page
        result = page.locator(".cell_output:has([data-kind=reveal])").first.locator("table").first
        questions = page.locator("[data-kind=question]")
        expect(result).to_be_hidden()
        for question in questions.all():
            if question.get_by_role("radio").count():
                question.get_by_role("radio").first.check()
            else:
                question.get_by_role("spinbutton").fill("7")
                question.get_by_role("button").click()
        expect(result).to_be_visible()
        expect(questions.first.get_by_role("status")).to_have_text(re.compile("^[✓✗] ."))
        page.reload()
        expect(result).to_be_visible()
        expect(questions.first.get_by_role("radio").first).to_be_checked()
        page.goto(f"{site.url}/{lang}/{START}.html")
        count = questions_of("05_data_parallelism")
        expect(page.locator("[data-lesson='05'] .lab-done")).to_contain_text(f"{count}/{count}")
        expect(page.locator(".lab-map svg path").first).to_be_attached()


def questions_of(lesson: str) -> int:
    known = REPOSITORY / "lab_utils/course/questions/map.json"
    lessons = json.loads(known.read_text(encoding="utf-8"))
    return len(next(entry["questions"] for entry in lessons if entry["name"] == lesson))


@pytest.mark.parametrize(
    ("lang", "words", "page"),
    [
        ("zh", "流水线并行", "lessons/08_pipeline_parallelism"),
        ("zh", "气泡", "lessons/08_pipeline_parallelism"),
        ("en", "loss scaling", "lessons/04_mixed_precision"),
    ],
)
def test_the_search_finds_words_of_both_languages(site, lang, words, page):
    with site.open(f"{lang}/{START}.html") as watched:
        box = watched.page.locator(".sidebar-search")
        box.fill(words)
        box.press("Enter")
        # results come one after the other
        found = watched.page.locator(f'#search a[href*="/{lang}/{page}.html"]').first
        found.click()
        watched.page.wait_for_url(f"**/{lang}/{page}.html*")
        expect(watched.page.locator("article h1").first).to_be_visible()


def test_a_setting_goes_along_into_the_other_language(site):
    with site.open("en/tools/zero.html#stage=2&ranks=64") as watched:
        page = watched.page
        page.locator(".other-language a").click()
        expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        page.wait_for_selector("figure:last-of-type > svg > *", state="attached")
        assert page.evaluate("location.hash") == "#stage=2&ranks=64"
        assert "64" in alts(page)[0]
        page.goto(f"{site.url}/index.html")
        page.wait_for_url(f"**/en/{START}.html")


def test_no_english_of_the_generator_is_left_in_a_chinese_page(site):
    words = (
        "Next",
        "Previous",
        "Home",
        "Search",
        "Contents",
        "On this page",
        "Toggle",
        "Skip to",
    ) + ("Menu", "Expand", "mode", "Made with", "Back to top")
    with site.open("zh/tools/zero.html") as watched:
        page = watched.page
        frame = page.evaluate(script("words_around"))
        assert [word for word in words if word in frame] == []
        assert "展开或收起全站目录" in frame
