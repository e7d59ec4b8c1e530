"""Shown source in JupyterLab beside its open sidebar: no line is cut, none breaks inside a word."""

from __future__ import annotations

import nbformat
import pytest
from harness import Lab, watched_page

from lab_utils.course.show_html import page

LINE = "    return value  # " + "abcdefg " * 10
SOURCE = f"def shown(value):\n{LINE.ljust(100, 'x')}\n{LINE[:60]}"
SHOWN = "[...document.querySelectorAll('.jp-OutputArea-output pre')]"
# words that stand on two lines
BROKEN = f"""() => {SHOWN}.flatMap(pre => {{
  const walk = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT), wrong = [];
  const range = document.createRange();
  for (let node = walk.nextNode(); node; node = walk.nextNode())
    for (const word of node.data.matchAll(/\\S+/g)) {{
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (range.getClientRects().length > 1) wrong.push(word[0]);
    }}
  return wrong;
}})"""
ROWS = f"""() => {SHOWN}.flatMap(pre => [...pre.children].map(line =>
  Math.round(line.getBoundingClientRect().height / parseFloat(getComputedStyle(line).lineHeight))
))"""
CUT = f"() => {SHOWN}.some(pre => pre.scrollWidth > pre.clientWidth)"


@pytest.mark.parametrize(("width", "rows"), [(1280, [1, 1, 1]), (1024, [1, 2, 1])])
def test_a_line_of_100_columns_fits(lab: Lab, width: int, rows: list[int]) -> None:
    html = {"text/html": page("x.py:1", SOURCE)}
    output = nbformat.v4.new_output("execute_result", data=html)
    cell = nbformat.v4.new_code_cell("show(shown)", outputs=[output])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), lab.root / "shown.ipynb")
    watched = watched_page(lab.browser, lab.url, viewport={"width": width, "height": 900})
    watched.page.goto(f"{lab.url}/lab/tree/shown.ipynb?token={lab.token}&reset")
    watched.page.wait_for_selector(".jp-OutputArea-output pre > span")
    assert watched.page.evaluate(ROWS) == rows
    assert watched.page.evaluate(BROKEN) == []
    assert not watched.page.evaluate(CUT)
    watched.page.close()
