"""Figures of matplotlib in a page: the same on every machine, words as words, in both languages."""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ElementTree

import pytest

from lab_utils.course.drawing import Drawing, drawing


@pytest.fixture
def shown(monkeypatch):
    found: list[Drawing] = []
    monkeypatch.setattr("IPython.display.display", found.append)
    return found


def draw(alt: str, words: str) -> None:
    with drawing(alt, columns=2) as (left, right):
        left.plot([1, 2, 3], [3, 2, 4], label=words)
        left.set_xscale("log")
        left.set_ylabel(words)
        left.legend()
        right.barh([words, "Adam"], [1, 2])
        right.scatter([1], [0], marker="x")


def test_the_same_figure_is_the_same_to_the_byte(shown):
    draw("损失", "平滑后的损失")
    draw("损失", "平滑后的损失")
    assert shown[0].svg == shown[1].svg
    assert not re.search("DejaVu|metadata|[0-9]{4}-[0-9]{2}", shown[0].svg)


def test_han_words_are_words_and_need_no_font_here(shown):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw('损失 & "学习率"', "平滑后的损失")
    svg = ElementTree.fromstring(shown[0].svg)
    words = [one.text for one in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("平滑后的损失") == 3
    assert "Noto Sans CJK SC" in svg.get("style")
    assert (svg.get("role"), svg.get("aria-label")) == ("img", '损失 & "学习率"')


def test_han_words_get_the_room_that_they_need(shown):
    """A label of n 汉字 is n ems wide; so the axes beside it begin where it ends."""
    left_edges = []
    for words in ("一", "一" * 11):
        with drawing("", height=2.0) as axes:
            axes.barh([words], [1])
        left_edges.append(float(re.search(r'patch_2">\s*<path d="M ([\d.]+)', shown[-1].svg)[1]))
    assert left_edges[1] - left_edges[0] == pytest.approx(10 * 9, abs=1.5)  # of 9 points each


def test_figures_of_one_page_share_no_id(shown):
    draw("one", "loss")
    draw("two", "loss")
    clips = [set(re.findall(r'clipPath id="(\w+)"', one.svg)) for one in shown]
    assert all(clips)
    assert not clips[0] & clips[1]


def test_nothing_is_shown_of_a_block_that_failed(shown):
    with pytest.raises(ZeroDivisionError), drawing(""):
        _ = 1 / 0
    assert not shown


def test_its_measure_is_put_back(shown):
    from matplotlib.backends.backend_svg import RendererSVG

    before = RendererSVG.get_text_width_height_descent
    draw("", "loss")
    assert RendererSVG.get_text_width_height_descent is before
    assert repr(shown[0]) == shown[0].alt
    assert shown[0]._repr_mimebundle_()["text/plain"] == ""
