"""Explorer without a browser: what it refuses, what it puts into a notebook, and how fast it
loads."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from quiet import on_time

from lab_utils.widgets.frame import Explorer, Need, Panel, Slider, Step, given
from lab_utils.widgets.frame.scene import rect, text
from lab_utils.widgets.frame.table import decompress


def slider(name: str, size: int = 3, **more) -> Slider:
    return Slider(
        name=name,
        label=(name, f"{name} 值"),
        options=[(i, f"{i} units") for i in range(size)],
        **more,
    )


def draw(state, lang):
    values = ", ".join(f"{k}={v}" for k, v in state.items())
    return {
        "items": [
            rect("r", 0, 0, 10, 5, "blue3", title="<tip>"),
            text("t", 0, 9, f"<{values}> & {lang}"),
        ],
        "alt": f"here {values}",
    }


def tool(
    *sliders: Slider,
    lang: str = "en",
    steps: tuple[Step, ...] = (),
    controls: tuple[str, ...] | None = None,
) -> Explorer:
    names = controls or tuple(s.name for s in sliders)
    panel = Panel(name="p", scene=draw, controls=names, width=40, height=20)
    return Explorer("sample", ("Title <b>", "标题"), sliders, [panel], steps, lang)


def at_least(least: int, **solution: Any) -> Step:
    """A step that asks for a value of the control a."""
    need = Need(
        controls=("a",), far=lambda s, lang: None if s["a"] >= least else f"{s['a']} of {least}"
    )
    return Step(task=("t", "题"), needs=(need,), why=("w", "因"), solution=solution)


def test_a_panel_with_an_unknown_control_is_refused():
    with pytest.raises(ValueError, match="panel 'p' cannot use b"):
        tool(slider("a"), controls=("a", "b"))
    with pytest.raises(ValueError, match="a step of the challenge cannot use a"):
        tool(slider("b"), steps=(at_least(1, b=1),))


def test_a_panel_needs_the_control_that_decides_on_its_options():
    by = Slider(name="b", label="b", options={i: [(0, "0")] * (i + 1) for i in range(3)}, by="a")
    assert tool(slider("a"), by).table["p"]["scenes"][1] is None
    with pytest.raises(ValueError, match="cannot use b"):
        tool(slider("a"), by, controls=("b",))


def test_a_panel_too_large_for_a_table_is_refused():
    with pytest.raises(ValueError, match="panel 'p' has 2500 states, more than the 2048"):
        tool(slider("a", 50), slider("b", 50))


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ((at_least(0, a=1),), "step 1 of 'sample' is already met at the start"),
        ((at_least(1, a=1), at_least(0, a=2)), "step 2 of 'sample' is already met at the start"),
        ((at_least(1, a=2), at_least(2, a=2)), "step 2 .* already met by the solution of step 1"),
        ((at_least(2, a=1),), "the solution of step 1 of 'sample' fails: 1 of 2"),
        ((at_least(9, a=2),), "the solution of step 1 of 'sample' fails: 2 of 9"),
    ],
)
def test_a_ladder_that_is_none_is_refused(steps, wrong):
    with pytest.raises(ValueError, match=wrong):
        _ = tool(slider("a"), steps=steps).table


def test_a_verdict_is_there_for_every_state():
    shown = tool(slider("a"), steps=(at_least(1, a=1), at_least(2, a=2)))
    assert shown.table
    second = shown.needs[1][0]
    assert [second["values"][i] for i in second["at"]] == ["0 of 2", "1 of 2", None]


def test_what_is_given_is_said_with_the_words_of_the_page():
    need = given([slider("a"), slider("b")], a=2, b=0)
    assert need.controls == ("a", "b")
    assert need.far({"a": 2, "b": 0}, "en") is None
    assert need.far({"a": 1, "b": 0}, "en") == "this step takes as given a = 2 units."
    assert need.far({"a": 1, "b": 1}, "zh") == "本关的给定条件：a 值 = 2 units，b 值 = 0 units。"


def test_a_notebook_keeps_a_picture_and_the_script_that_replaces_it():
    shown = tool(slider("a", start=1), lang="zh")
    bundle = shown._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle == tool(slider("a", start=1), lang="zh")._repr_mimebundle_()
    assert bundle["text/plain"] == "标题\nhere a=1"
    html = bundle["text/html"]
    assert html.count("<script>") == html.count("</script>") == 1
    assert re.search(r"\bid=", html) is None, "a document may hold it more than once"
    image, alt = re.search(r'src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]+)"', html).groups()
    assert alt == "标题\nhere a=1"
    assert base64.b64decode(image).decode() == shown.svg()
    payload = re.search(r'render\(.*, "h3", "([^"]+)"\)', html).group(1)
    sent = decompress(payload)
    assert sent["state"] == {"a": 1}
    assert sent["table"] == shown.table
    assert sent["spec"]["name"] == "sample"


def test_the_picture_needs_nothing_and_knows_both_themes():
    picture = ET.fromstring(tool(slider("a", start=1), lang="zh").svg())
    space = "{http://www.w3.org/2000/svg}"
    words = [e.text for e in picture.iter(f"{space}text")]
    assert words == ["标题", "a 值：1 units", "<a=1> & zh"]
    assert picture.find(f"{space}title").text == "here a=1"
    fills = {e.get("fill") for e in picture.iter(f"{space}rect")}
    assert fills == {"#ffffff", "#5f9dd0"}, (
        "colours are written out: a stylesheet would not survive everywhere"
    )
    dark = picture.find(f"{space}style").text
    assert "prefers-color-scheme:dark" in dark
    assert ".f-paper{fill:#14181d}" in dark
    assert ".f-blue3{fill:#4a8fc7}" in dark


def test_a_page_is_the_same_every_time_and_escapes_its_words():
    page = tool(slider("a")).html()
    assert page == tool(slider("a")).html()
    assert "<title>Title &lt;b&gt;</title>" in page
    assert page.count("</script>") == 1


def test_importing_takes_no_torch_and_little_time():
    code = """
import sys, time
start = time.process_time()
import lab_utils.widgets, lab_utils.widgets.data_parallelism
print(time.process_time() - start)
lab_utils.widgets.data_parallelism.explorer()
print([m for m in ("torch", "plotly") if m in sys.modules])"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split(maxsplit=1)
        for _ in range(3)
    ]
    assert {modules for _, modules in runs} == {"[]\n"}
    best = min(float(seconds) for seconds, _ in runs)
    on_time(best <= 0.3, f"{best:.2f} s to import widgets, of 0.3 s")
