"""What an execution changed is said cell by cell, in words where words changed."""

from __future__ import annotations

import nbformat
import pytest

from lab_utils.course.build_record import changed_outputs

PLOTLY = "application/vnd.plotly.v1+json"


def notebook(text="total 6\n", html="h", x=1, tag="strict"):
    v4 = nbformat.v4
    data = {"text/html": html, "text/plain": "p", PLOTLY: {"x": x}, "image/png": str(x)}
    outputs = [v4.new_output("stream", text=text), v4.new_output("display_data", data=data)]
    cell = v4.new_code_cell("x", id="report", outputs=outputs, metadata={"tags": [tag]})
    return v4.new_notebook(cells=[cell])


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (notebook(), []),
        (notebook("total 10\n"), ["'total 6' → 'total 10'"]),
        (notebook("total 6\nmore\n"), ["'p' → 'more'"]),
        (notebook(html="g"), ["not its words, in text/html"]),
        (notebook(x=2), [f"not its words, in {PLOTLY}"]),
        (notebook("total 10\n", tag="nbval-ignore-output"), []),
    ],
)
def test_what_changed_is_said_once(tmp_path, new, said):
    nbformat.write(notebook(), tmp_path / "old.ipynb")
    found = list(changed_outputs(tmp_path / "old.ipynb", new))
    assert found == [f"cell report: output changed, {words}" for words in said]


def test_a_first_build_changes_nothing(tmp_path):
    assert list(changed_outputs(tmp_path / "none.ipynb", notebook())) == []
