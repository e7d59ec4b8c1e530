"""docs/teaching.md: its table of weeks says what the lessons and labs themselves say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lab_utils.course.questions import question

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = {"en": "docs/teaching.md", "zh": "docs/teaching.zh.md"}
LINK = re.compile(r"\((?:\.\./)?(lessons|labs)/(?:en|zh)/(\w+)\.ipynb\)")


def weeks(lang: str) -> list[list[str]]:
    text = (REPOSITORY / PAGES[lang]).read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()]
    return [row for row in rows if row[0].isdigit()]


def minutes(room: str, name: str) -> int:
    source = REPOSITORY / {"lessons": "lessons", "labs": "solutions"}[room] / f"source/{name}.md"
    return yaml.safe_load(source.read_text(encoding="utf-8").split("---\n")[1])["minutes"]


@pytest.mark.parametrize("lang", PAGES)
def test_minutes_are_those_of_the_sources(lang):
    for _, lesson, told, lab, _ in weeks(lang):
        named = [minutes(*found) for found in LINK.findall(lesson)]
        assert [int(n) for n in re.findall(r"\d+", told)] == named
        twice = [2 * minutes(*found) for found in LINK.findall(lab)]
        assert [int(n) for n in re.findall(r"[:：]\s*(\d+)", lab)] == twice


@pytest.mark.parametrize("lang", PAGES)
def test_every_lesson_has_its_week_after_those_that_it_needs(lang):
    order = [
        name for row in weeks(lang) for room, name in LINK.findall(row[1]) if room == "lessons"
    ]
    there = sorted(path.stem for path in (REPOSITORY / "lessons/source").glob("[0-9]*.md"))
    assert sorted(order) == there
    assert len(weeks(lang)) == 12
    for name in order:
        source = (REPOSITORY / f"lessons/source/{name}.md").read_text(encoding="utf-8")
        needs = yaml.safe_load(source.split("---\n")[1])["needs"]
        before = [other[:2] for other in order[: order.index(name)]]
        assert {*needs} <= {*before}, name


@pytest.mark.parametrize("lang", PAGES)
def test_predictions_exist_and_belong_to_the_weeks_lesson(lang):
    for row in weeks(lang):
        for name in re.findall(r"`(\d\d-[\w-]+)`", row[4]):
            assert not question(name).is_quiz
            assert name[:2] in row[1]
