"""States, packing, units and colours: the parts of a tool that need no picture."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils.widgets.frame.controls import (
    Checkbox,
    Select,
    Slider,
    count_states,
    start_state,
    states,
)
from lab_utils.widgets.frame.scene import COLOURS, axis, rect
from lab_utils.widgets.frame.table import compress, decompress, pack, unpack
from lab_utils.widgets.frame.units import NO_BREAK, nbytes, percent, seconds, time_ticks

_values = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
_items = st.dictionaries(st.sampled_from(["tag", "key", "x", "text"]), _values, min_size=1)
_scenes = st.lists(
    st.one_of(
        st.none(),
        st.builds(
            lambda items, alt: {"items": items, "alt": alt},
            st.lists(_items, max_size=4),
            st.text(min_size=1),
        ),
    )
)


@given(_scenes)
def test_a_table_gives_back_every_scene(scenes):
    assert unpack(decompress(compress(pack(scenes)))) == scenes


def test_a_table_writes_an_item_once():
    item = rect("a", 0, 0, 1, 1, "blue1")
    assert pack([{"items": [item], "alt": "x"}, {"items": [dict(item)], "alt": "y"}]) == {
        "items": [item],
        "scenes": [["x", [0]], ["y", [0]]],
    }


def test_states_run_in_the_order_in_which_the_page_counts():
    kind = Select(name="kind", label="", options=[("a", "a"), ("b", "b")])
    size = Slider(
        name="size",
        label="",
        options={"a": [(1, "1"), (2, "2"), (3, "3")], "b": [(9, "9")]},
        by="kind",
        start=1,
    )
    box = Checkbox(name="on", label="")
    listed = list(states((kind, size, box)))
    assert len(listed) == count_states((kind, size, box)) == 12
    assert listed[5] == {"kind": "a", "size": 3, "on": True}
    assert listed[6:] == [
        {"kind": "b", "size": 9, "on": False},
        {"kind": "b", "size": 9, "on": True},
        None,
        None,
        None,
        None,
    ]
    assert start_state((kind, size, box)) == {"kind": "a", "size": 2, "on": False}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0 s"),
        (1e-12, "0 s"),
        (7.891e-6, "7.89 µs"),
        (0.9999e-3, "1.00 ms"),
        (0.0456, "45.6 ms"),
        (9.996, "10.0 s"),
        (123456, "123,456 s"),
    ],
)
def test_seconds(value, words):
    assert seconds(value).replace(NO_BREAK, " ") == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0 B"),
        (7, "7.00 B"),
        (999_999, "1.00 MB"),
        (871e6, "871 MB"),
        (56.2e9, "56.2 GB"),
        (2**40, "1.10 TB"),
    ],
)
def test_nbytes(value, words):
    assert nbytes(value).replace(NO_BREAK, " ") == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(1, "100 %"), (0.9999, "99.9 %"), (0.97, "97 %"), (0.0034, "0.34 %"), (0, "0 %")],
)
def test_percent(value, words):
    assert percent(value).replace(NO_BREAK, " ") == words


@given(st.floats(1e-9, 1e6))
def test_ticks_are_few_round_and_inside(end):
    ticks = time_ticks(end)
    assert 2 <= len(ticks) <= 6
    assert ticks[0][0] == 0
    assert all(0 <= position <= 1 for position, _ in ticks)
    assert all(
        re.fullmatch(rf"(\d+(\.\d+)?|[\d.]+e[+-]?\d+){NO_BREAK}(s|ms|µs)", words)
        for _, words in ticks
    )
    assert len({words for _, words in ticks}) == len(ticks)


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_is_readable_and_steps_are_ordered_by_luminance(theme):
    colour = {name: pair[theme] for name, pair in COLOURS.items()}
    on = {name: name.removeprefix("on-") for name in colour if name.startswith("on-")}
    for ink, ground in [
        *on.items(),
        ("ink", "paper"),
        ("soft", "paper"),
        ("ink", "void"),
        ("fire", "void"),
        ("fire", "paper"),
    ]:
        assert contrast(colour[ink], colour[ground]) >= 4.5, (ink, ground)
    blues = [luminance(colour[f"blue{i}"]) for i in range(1, 6)]
    assert blues == sorted(blues, reverse=theme == 0)
    assert all(contrast(colour[f"blue{i}"], colour[f"blue{i + 1}"]) > 1.3 for i in range(1, 5))
    assert contrast(colour["sand"], colour["fire"]) > 2


def test_an_unknown_colour_is_refused():
    with pytest.raises(ValueError, match="no colour 'pink'"):
        rect("a", 0, 0, 1, 1, "pink")


def test_an_axis_stands_where_its_ticks_are():
    items = {item["key"]: item for item in axis("t", 10, 5, 200, [(0, "0 s"), (0.5, "1 s")])}
    assert (items["t-line"]["x1"], items["t-line"]["x2"]) == (10, 210)
    assert items["t-tick1"]["x1"] == items["t-number1"]["x"] == 110
    assert items["t-number1"]["text"] == "1 s"
