"""`python -m lab_utils site`: the course as static pages, both languages, no kernel, no third
party."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from ...i18n import LANGUAGES, t
from .finish import ThemeError, mend, write_doors
from .pages import EXTRA, PAGES, write_pages

SETTINGS = Path(__file__).with_name("generator")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `site`."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/site"),
        metavar="DIR",
        help=t("where the pages go (default: build/site)", "页面写到哪里（默认 build/site）"),
    )
    parser.add_argument("--lang", choices=LANGUAGES, help=t("one language only", "只生成一种语言"))
    parser.add_argument(
        "--root",
        type=Path,
        default=Path.cwd(),
        metavar="DIR",
        help=t("the repository (default: here)", "代码仓库（默认当前目录）"),
    )


def run(args: argparse.Namespace) -> int:
    """Make the site; the exit status is 1 where a step failed, which says why, 2 where the
    generator is not installed."""
    if find_spec("myst_nb") is None:
        said = t(
            "the site's generator is not installed here: run make site.",
            "这里没有安装站点生成器：请执行 make site。",
        )
        print(said, file=sys.stderr)
        return 2
    began, langs = time.monotonic(), [args.lang] if args.lang else list(LANGUAGES)
    with tempfile.TemporaryDirectory(prefix="site") as folder:
        work, html = Path(folder), Path(folder, "html", "site")
        pages = {lang: write_pages(args.root, work / lang, lang) for lang in langs}
        made = {lang: _sphinx(work / lang, html / lang, lang) for lang in langs}
        if failed := [lang for lang, process in made.items() if process.wait()]:
            print(t("Sphinx failed: ", "Sphinx 失败：") + ", ".join(failed), file=sys.stderr)
            return 1
        try:
            for lang in langs:
                mend(html / lang, [*pages[lang], "search"], lang)
        except ThemeError as error:
            print(error, file=sys.stderr)
            return 1
        shutil.rmtree(html / "jupyter_execute")  # the reader's own copy of the notebooks
        write_doors(html, langs)
        if status := _search(html):
            return status
        put_in_place(html, args.out)
    count, seconds = sum(map(len, pages.values())), time.monotonic() - began
    print(
        t(
            f"{count} pages in {seconds:.0f} s: {args.out}/index.html",
            f"{count} 个页面，用时 {seconds:.0f} 秒：{args.out}/index.html",
        )
    )
    return 0


def _sphinx(folder: Path, out: Path, lang: str) -> subprocess.Popen[bytes]:
    """Sphinx at work on what `write_pages` wrote into `folder`; a warning is an error."""
    flags = ["-q", "-W", "--keep-going", "-b", "html", "-c", SETTINGS, "-d", folder / "known"]
    told = {"LAB_LANG": lang, "LAB_SITE_EXTRA": str(folder / EXTRA)}
    command = [sys.executable, "-m", "sphinx", *flags, folder / PAGES, out]
    return subprocess.Popen(command, env=os.environ | told)


def put_in_place(made: Path, out: Path) -> None:
    """The finished site in the place of the one before, of which nothing stays."""
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(made, out)


def _search(out: Path) -> int:
    """The index of the pages' articles, Chinese cut into words; its exit status."""
    flags = ["--site", out, "--root-selector", "#furo-main-content", "--quiet"]
    skipped = ".headerlink, .how, script, style, summary"
    return subprocess.run(
        [sys.executable, "-m", "pagefind", *flags, "--exclude-selectors", skipped], check=False
    ).returncode
