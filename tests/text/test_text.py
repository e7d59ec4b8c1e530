"""Tables whose columns stand under each other, Han characters counted as two."""

from __future__ import annotations

import pickle
from html.parser import HTMLParser

from IPython.core.formatters import DisplayFormatter

from lab_utils.text import columns, table


def test_columns():
    assert columns("abc") == 3
    assert columns("内存，") == 6
    assert columns("2(N−1)/N · →") == 12


def test_alignment_and_formats():
    shown = table([("项目", "估算"), ("bytes", 1234567), ("内存占用", "–"), ("same", True)])
    lines = shown.splitlines()
    assert len({columns(line) for line in lines}) == 1  # the last column ends at one edge
    assert lines[1].endswith("1,234,567")
    assert lines[3].endswith("yes")
    assert lines[0].startswith("项目    ")


class Cells(HTMLParser):
    """The cells of a table by row, as (tag, style, text)."""

    def __init__(self, page):
        super().__init__()
        self.rows = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append((tag, dict(attributes)["style"], ""))

    def handle_data(self, words):
        if words.strip():
            tag, style, before = self.rows[-1][-1]
            self.rows[-1][-1] = tag, style, before + words


def test_a_notebook_shows_a_real_table_and_text_beside_it():
    shown = table(
        [
            ("", "估算", "what"),
            ("a < b & c", 1234567, "one, 2 of them"),
            ("*so* | _so_", False, "–"),
        ]
    )
    bundle, _ = DisplayFormatter().format(shown)
    left, right = "text-align:left", "text-align:right"
    assert Cells(bundle["text/html"]).rows == [
        [("td", left, ""), ("th", right, "估算"), ("th", left, "what")],
        [
            ("td", left, "a < b & c"),
            ("td", f"{right};white-space:nowrap", "1,234,567"),
            ("td", left, "one, 2 of them"),
        ],
        [("td", left, "*so* | _so_"), ("td", right, "no"), ("td", left, "–")],
    ]
    assert bundle["text/plain"] == shown
    assert bundle["text/plain"].splitlines()[1] == "a < b & c     1,234,567   one, 2 of them"
    assert set(bundle) == {"text/html", "text/plain"}


def test_a_table_can_be_sent_to_another_process():
    shown = table([("a", "b"), (1, 2)])
    again = pickle.loads(pickle.dumps(shown))
    assert again == shown
    assert again._repr_html_() == shown._repr_html_()
