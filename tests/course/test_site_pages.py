"""What the site shows of a notebook: every link leads to a page, every figure has words, no answer
of a lab, nothing that only a kernel could do. How it looks in a browser is in
browser/test_site.py."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path

import nbformat
import pytest

from lab_utils.course.site import finish, tools
from lab_utils.course.site.cards import PLOTLY, for_reading
from lab_utils.course.site.lessons import page
from lab_utils.course.site.pages import START, write_pages
from lab_utils.widgets import rooms

REPOSITORY = Path(__file__).resolve().parents[2]
LANGS = ("en", "zh")
GITHUB = "https://github.com/somebody/lab"
CARD = re.compile(r'data-lab="([\w+/=]+)"')


def notebooks(lang: str) -> list[Path]:
    return [
        path
        for room in ("lessons", "labs")
        for path in sorted((REPOSITORY / room / lang).glob("[0-9][0-9]_*.ipynb"))
    ]


def html_of(notebook: nbformat.NotebookNode) -> str:
    """All HTML of a page's outputs, and all texts of its cards."""
    shown = "".join(
        output.data["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    )
    return shown + "".join(b64decode(card).decode() for card in CARD.findall(shown))


@pytest.mark.parametrize("lang", LANGS)
def test_every_link_between_pages_leads_to_a_page(lang):
    pages = {f"{path.parts[-3]}/{path.stem}" for path in notebooks(lang)}
    followed = set()
    for path in notebooks(lang):
        made = page(path, GITHUB)
        prose = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
        html = html_of(made)
        assert ".ipynb" not in re.sub(r'data-lab="[^"]*"', "", html), path
        links = re.findall(r"\]\(([^)\s:]+)\.ipynb\)", prose)
        links += re.findall(r'href=\\?"([^":]+)\.html', html)
        for link in links:
            room, _, name = f"{path.parts[-3]}/{link}".rpartition("/")
            target = f"{room.split('/')[-1]}/{name}"
            assert target in pages, (path, link)
            followed.add(target)
    assert followed >= pages - {START}


@pytest.mark.parametrize("lang", LANGS)
def test_a_lab_is_the_students_and_says_where_it_is_solved(lang):
    for path in notebooks(lang):
        if path.parts[-3] == "labs":
            made, built = page(path, GITHUB), nbformat.read(path, as_version=4)
            codes = [cell.source for cell in built.cells[2:] if cell.cell_type == "code"]
            assert [cell.source for cell in made.cells if cell.cell_type == "code"] == codes
            solved = REPOSITORY / "solutions" / lang / path.name
            answers = nbformat.read(solved, as_version=4).cells
            assert codes != [cell.source for cell in answers[2:] if cell.cell_type == "code"]
            assert f"{GITHUB.removeprefix('https://github.com/')}/blob/HEAD/labs" in str(made)


@pytest.mark.parametrize("lang", LANGS)
def test_nothing_is_left_that_only_a_kernel_or_a_third_party_could_show(lang):
    for path in notebooks(lang):
        made = page(path, GITHUB)
        assert not any(cell.id == "setup" for cell in made.cells)
        for cell in made.cells:
            for output in cell.get("outputs", []):
                assert not {PLOTLY, "image/png", "application/javascript"} & {
                    *output.get("data", {})
                }
        html = html_of(made)
        assert not re.search(r'(?:src|href)="(?:https?:)?//(?!www\.w3\.org)', html), path
        for alt in re.findall(r'<img class="figure" alt="([^"]*)"', html):
            assert len(alt) > 5, (path, alt)
        for packed in CARD.findall(html):
            noted = json.loads(b64decode(packed)).get("words", {}).get("noted", "")
            assert "run the next" not in noted
            assert "运行" not in noted


def test_a_figure_is_told_by_its_axes_and_what_is_drawn():
    figure = {
        "layout": {"xaxis": {"title": {"text": "step"}}, "yaxis": {"title": {"text": "loss"}}},
        "data": [{"name": "ours"}, {"name": "a <b>"}, {}],
    }
    output = nbformat.v4.new_output("display_data", data={PLOTLY: figure, "image/png": "eA==\n"})
    shown = for_reading(output, "en").data["text/html"]
    assert 'alt="Figure: step, loss, ours, a"' in shown
    assert 'src="data:image/png;base64,eA=="' in shown


def test_page_00_holds_the_contents_and_the_map(tmp_path, monkeypatch):
    # all tools are made by the site itself
    monkeypatch.setattr(tools, "rooms", lambda: ("initialisation",))
    names = write_pages(REPOSITORY, tmp_path, "zh")
    start = nbformat.read(tmp_path / "pages" / f"{START}.ipynb", as_version=4)
    listed = re.findall(r"^/(\S+)$", "\n".join(cell.source for cell in start.cells), re.M)
    assert sorted([*listed, START]) == sorted(names)
    assert "lab-map" in html_of(start)
    tool = tmp_path / "pages/tools/initialisation"
    assert "(../lessons/11_initialisation.ipynb)" in tool.with_suffix(".md").read_text("utf-8")
    assert "function makeAddress" in tool.with_suffix(".part").read_text("utf-8")
    alone = (tmp_path / "extra/tools/alone/initialisation.html").read_text("utf-8")
    assert "function makeAddress" in alone


def test_every_tool_is_in_a_lesson():
    for name in rooms():
        assert [*tools._lessons_with(name, REPOSITORY / "lessons/en")], name


def test_a_theme_that_says_something_else_is_noticed(tmp_path):
    every = "".join(finish.CHANGES)
    (tmp_path / "a.html").write_text(every, encoding="utf-8")
    finish.mend(tmp_path, ["a"], "zh")
    mended = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "上一页" in mended
    assert "Toggle" not in mended
    (tmp_path / "a.html").write_text(every.replace("Previous", "Before"), encoding="utf-8")
    with pytest.raises(finish.ThemeError, match="<span>Previous</span>"):
        finish.mend(tmp_path, ["a"], "en")


def test_doors_lead_on_with_and_without_a_script(tmp_path):
    for lang in LANGS:
        (tmp_path / lang).mkdir()
    finish.write_doors(tmp_path, [*LANGS])
    front = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert front.count(f'href="en/{START}.html"') == front.count(f'href="zh/{START}.html"') == 1
    assert "navigator.language" in front
    inner = (tmp_path / "zh/index.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in inner
    assert f'location.replace("{START}.html")' in inner
