"""Pages of a graded class in a browser: a student's and the summary, in both languages, light and
dark, wide and narrow. LAB_SCREENSHOTS=FOLDER keeps pictures of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from lab_utils.grade import pages
from lab_utils.grade.judges import judges_of
from lab_utils.grade.judges.by_check import REASON as BY_CHECK
from lab_utils.grade.similar import Pair
from lab_utils.i18n import set_language

SHOTS = os.environ.get("LAB_SCREENSHOTS")
WIDTHS = (375, 1000)
FAILURE = dict(
    criterion="traffic",
    expected="between 1,440 and 1,568 bytes from each rank in a step.",
    came="2,880 bytes, by all_reduce, all_gather.",
    case="N = 4, 240 parameters, SGD with momentum",
)
FAILURE_ZH = FAILURE | dict(
    expected="每个 rank 每步发送 1,440 到 1,568 字节。",
    came="2,880 字节，通过 all_reduce、all_gather。",
    case="N = 4、240 个参数、带动量的 SGD",
)


def record(student: str, lang: str, passes: int, **more) -> dict:
    """Of a student who passes the first criteria of each exercise of lab 06."""
    failure = {"en": FAILURE, "zh": FAILURE_ZH}[lang]
    exercises = []
    for judge in judges_of("lab06"):
        criteria = [
            dict(
                name=one.name,
                en=one.en,
                zh=one.zh,
                points=1,
                passed=True if number < passes else None if number == 4 else False,
                failure=None if number < passes or number == 4 else failure,
            )
            for number, one in enumerate(judge.criteria)
        ]
        why = BY_CHECK if judge.check == "zero3" else None
        names = ["lab_utils.parallel.zero.Zero1"] if judge.check == "zero1" else []
        one = dict(check=judge.check, answer=judge.answer, source="", advisory=why)
        exercises.append(one | dict(criteria=criteria, borrowed=names))
    found = dict(student=student, language=lang, trouble=None, advisory=[], seconds=12.0)
    return found | dict(file="a.ipynb", exercises=exercises) | more


def made(lang: str) -> dict[str, str]:
    """Both pages."""
    set_language(lang)
    mine = record({"en": "student 07", "zh": "学生 07"}[lang], lang, 2)
    trouble = dict(exercises=[], trouble=["the file is empty.", "文件是空的。"])
    weaker = ["peak: Permission denied", f"zero3: {BY_CHECK[0]}"]
    every = [
        mine,
        record("08", lang, 9),
        record("09", lang, 0, **trouble),
        record("10", lang, 3, advisory=weaker),
    ]
    alike = [Pair("Zero2", "08", "10", 97.2)]
    summary = pages.summary(every, "lab06", alike)
    feedback = pages.feedback(mine | dict(advisory=weaker))
    set_language("en")
    return {"feedback": feedback, "summary": summary}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_axe_finds_nothing_and_nothing_is_cut(open_html, lang, theme):
    for name, html in made(lang).items():
        page = open_html(html, color_scheme=theme).page
        results = Axe().run(page).response
        assert results["violations"] == []
        assert "color-contrast" in {rule["id"] for rule in results["passes"]}
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if SHOTS:
                path = Path(SHOTS) / f"{name}-{lang}-{theme}-{width}.png"
                page.screenshot(path=path, full_page=True)
