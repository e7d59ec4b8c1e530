"""Explorer without a browser: what it refuses, what it puts into a notebook, and how fast it loads."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from lab_utils.widgets import Challenge, Explorer, Panel, Slider
from lab_utils.widgets.scene import rect, text
from lab_utils.widgets.table import decompress


def slider(name: str, size: int = 3, **more) -> Slider:
    return Slider(name=name, label=(name, f"{name} 值"), options=[(i, f"{i} units") for i in range(size)], **more)


def draw(state, lang):
    values = ", ".join(f"{k}={v}" for k, v in state.items())
    return {"items": [rect("r", 0, 0, 10, 5, "blue3", title="<tip>"), text("t", 0, 9, f"<{values}> & {lang}")], "alt": f"here {values}"}


def tool(*sliders: Slider, lang: str = "en", challenge: Challenge | None = None, controls: tuple[str, ...] | None = None) -> Explorer:
    panel = Panel(name="p", scene=draw, controls=controls or tuple(s.name for s in sliders), width=40, height=20)
    return Explorer(("Title <b>", "标题"), sliders, [panel], challenge, lang)


def test_a_panel_with_an_unknown_control_is_refused():
    with pytest.raises(ValueError, match="panel 'p' cannot use b"):
        tool(slider("a"), controls=("a", "b"))


def test_a_panel_needs_the_control_that_decides_on_its_options():
    by = Slider(name="b", label="b", options={i: [(0, "0")] * (i + 1) for i in range(3)}, by="a")
    assert tool(slider("a"), by).table["p"]["scenes"][1] is None
    with pytest.raises(ValueError, match="cannot use b"):
        tool(slider("a"), by, controls=("b",))


@pytest.mark.parametrize("met", [lambda s: True, lambda s: False], ids=["from the start", "never"])
def test_a_challenge_must_be_a_challenge(met):
    with pytest.raises(ValueError, match="open at the start and met in some state"):
        _ = tool(slider("a"), challenge=Challenge(task="t", panel="p", met=met)).table


def test_a_challenge_is_precomputed():
    table = tool(slider("a"), challenge=Challenge(task="t", panel="p", met=lambda s: s["a"] == 2)).table
    assert table["p"]["solved"] == [False, False, True]
    with pytest.raises(ValueError, match="needs a panel 'q'"):
        tool(slider("a"), challenge=Challenge(task="t", panel="q", met=bool))


def test_a_panel_too_large_for_a_table_has_no_page_and_asks_the_kernel():
    large = tool(slider("a", 50), slider("b", 50))
    assert large.table == {"p": None}
    with pytest.raises(ValueError, match="panel 'p' has more than 2048 states"):
        large.html()
    answers = []
    large._answer(type("Widget", (), {"send": staticmethod(answers.append)}), {"panel": "p", "at": 57, "state": {"a": 1, "b": 7}}, [])
    assert answers == [{"panel": "p", "at": 57, "state": {"a": 1, "b": 7}, "scene": draw({"a": 1, "b": 7}, "en")}]


def test_a_notebook_keeps_a_live_view_a_picture_and_words():
    shown = tool(slider("a", start=1), lang="zh")
    bundle = shown._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.jupyter.widget-view+json", "image/svg+xml", "text/plain"}
    assert bundle["text/plain"] == "标题\nhere a=1"
    picture = ET.fromstring(bundle["image/svg+xml"])
    words = [e.text for e in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["标题", "a 值：1 units", "<a=1> & zh"]
    assert picture.find("{http://www.w3.org/2000/svg}title").text == "here a=1"
    fills = {e.get("fill") for e in picture.iter("{http://www.w3.org/2000/svg}rect")}
    assert fills == {"#ffffff", "#5f9dd0"}, "colours are written out: a stylesheet would not survive everywhere"


def test_the_live_widget_carries_all_that_the_page_carries():
    shown = tool(slider("a"), slider("b", start=2))
    widget = shown.widget
    assert widget is shown.widget
    assert decompress(widget.table) == shown.table
    assert widget.state == {"a": 0, "b": 2}
    assert [c["name"] for c in widget.spec["controls"]] == ["a", "b"]
    assert widget._esm.endswith("export default { render };\n")
    assert ".explorer" in widget._css


def test_a_page_is_the_same_every_time_and_escapes_its_words():
    page = tool(slider("a")).html()
    assert page == tool(slider("a")).html()
    assert "<title>Title &lt;b&gt;</title>" in page
    assert page.count("</script>") == 1


def test_importing_takes_no_torch_no_anywidget_and_little_time():
    code = """
import sys, time; start = time.perf_counter()
import lab_utils.widgets, lab_utils.widgets.data_parallelism
print(time.perf_counter() - start, [m for m in ("torch", "anywidget", "ipywidgets") if m in sys.modules])
from lab_utils.widgets import data_parallelism
data_parallelism.explorer()
print([m for m in ("torch", "anywidget", "ipywidgets") if m in sys.modules])"""
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split(maxsplit=1) for _ in range(3)]
    assert {modules for _, modules in runs} == {"[]\n[]\n"}
    print("import:", min(float(seconds) for seconds, _ in runs))
    assert min(float(seconds) for seconds, _ in runs) <= 0.3
