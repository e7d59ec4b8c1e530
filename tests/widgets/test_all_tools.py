"""What holds for every tool: a room under lab_utils/widgets is all that a new one needs to be
tested here, and in tests/browser/test_every_tool.py."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from lab_utils import train
from lab_utils.widgets import rooms
from lab_utils.widgets.frame import Explorer, Panel, SumPanel
from lab_utils.widgets.frame.controls import start_state, states
from lab_utils.widgets.frame.table import compress, decompress, unpack

HAN = r"[\u4e00-\u9fff]"
ASCII_BESIDE_HAN = re.compile(rf"{HAN}\s*[,;:()?!]|[,;:()?!]\s*{HAN}")
MEASURED = [name for name in rooms() if find_spec(f"lab_utils.widgets.{name}.measured")]
tool_names = pytest.mark.parametrize("name", rooms())
languages = pytest.mark.parametrize("lang", ["en", "zh"])


@lru_cache(maxsize=2)
def every_scene(tool: Explorer) -> list[tuple[Panel | SumPanel, dict[str, Any], dict]]:
    """Panel, state, scene: those of a table as the page gets it; of a panel of sums some at
    random."""
    return list(_every_scene(tool))


def _every_scene(tool: Explorer) -> Iterator[tuple[Panel | SumPanel, dict[str, Any], dict]]:
    table = decompress(compress(tool.table))
    by_name = {c.name: c for c in tool.controls}
    draw = random.Random(4)
    for panel in tool.panels:
        if isinstance(panel, SumPanel):
            for _ in range(150):
                state = {c.name: draw.choice(c.options)[0] for c in tool.controls}
                yield panel, state, tool.scene(panel, state)
            continue
        possible = states([by_name[name] for name in panel.controls])
        for state, scene in zip(possible, unpack(table[panel.name]), strict=True):
            assert (state is None) == (scene is None)
            if state:
                yield panel, state, scene


def words_of(part: Any) -> Iterator[str]:
    """All texts in a structure of dicts and lists."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from words_of(value)
    elif isinstance(part, (list, tuple)):
        for value in part:
            yield from words_of(value)


def told(tool: Explorer) -> Iterator[str]:
    """All that a tool ever says: titles, labels, options, tasks, verdicts, pictures."""
    yield from words_of(tool.spec)
    yield from words_of(tool.needs)
    for _, _, scene in every_scene(tool):
        yield scene["alt"]
        yield from (item[k] for item in scene["items"] for k in ("text", "title") if k in item)


@tool_names
def test_the_table_holds_what_the_scenes_draw(tool_of, name):
    tool = tool_of(name, "en")
    for panel, state, scene in random.Random(5).sample(every_scene(tool), 24):
        assert scene == tool.scene(panel, state)


@languages
@tool_names
def test_every_scene_has_unique_keys_and_stays_inside(tool_of, name, lang):
    for panel, state, scene in every_scene(tool_of(name, lang)):
        keys = [item["key"] for item in scene["items"]]
        assert len(set(keys)) == len(keys), state
        for item in scene["items"]:
            if item["tag"] != "rect" or item.get("opacity") == 0:
                continue
            assert min(item["x"], item["y"], item["width"], item["height"]) >= 0, (state, item)
            assert item["x"] + item["width"] <= panel.width + 0.1, (state, item)
            assert item["y"] + item["height"] <= panel.height, (state, item)


@tool_names
def test_each_language_is_whole_and_alone(tool_of, name):
    english, chinese = set(told(tool_of(name, "en"))), set(told(tool_of(name, "zh")))
    assert not {words for words in english if re.search(HAN, words)}
    assert not {words for words in chinese if ASCII_BESIDE_HAN.search(words)}
    # what is the same in both is a name, a number or a code, never a sentence
    sentences = re.compile(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}")
    assert not {words for words in chinese if sentences.search(words) and words in english}
    assert all(re.search(HAN, scene["alt"]) for _, _, scene in every_scene(tool_of(name, "zh")))


@languages
@tool_names
def test_the_challenge_is_a_ladder_that_says_how_far_off_one_is(tool_of, name, lang):
    tool = tool_of(name, lang)
    assert 2 <= len(tool.steps) <= 3
    assert tool.table, "which refuses a ladder whose steps are met too early or never"
    start = start_state(tool.controls)
    for step in tool.steps:
        assert re.search(r"\d", tool.far(step, start)), "how far off, with numbers"
        given = {name: value for name, value in step.solution.items() if start[name] != value}
        assert given, "a step is solved by changing something"
        for changed in given:
            assert tool.far(step, tool.solution(step) | {changed: start[changed]}), (
                f"without {changed} step {step.task} is met just as well"
            )


@tool_names
def test_a_tool_opens_at_the_beginning_of_its_story(tool_of, name):
    tool = tool_of(name, "en")
    assert all(control.start == 0 for control in tool.controls if control.play)


@languages
@tool_names
def test_a_saved_output_is_small_and_the_same_at_every_run(tool_of, name, lang):
    tool = tool_of(name, lang)
    bundle = tool._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert len(bundle["text/html"].encode()) <= 1_500_000
    assert tool._repr_mimebundle_() == bundle
    print(f"{name}, {lang}: {len(bundle['text/html'].encode()) / 1e6:.2f} MB in a notebook")


@pytest.mark.parametrize("name", MEASURED)
def test_every_case_was_measured_and_a_run_of_today_shows_the_same(name):
    recording = import_module(f"lab_utils.widgets.{name}.measured").RECORDING
    cases = [dict(case) for case in recording.cases()]
    assert [case for case, _ in recording.runs] == cases
    case = cases[len(cases) // 2]
    found, device = recording.measure(case, train)
    assert device
    assert found == recording.found(**case)
