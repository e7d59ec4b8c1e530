"""What a student's page says."""

from __future__ import annotations

from lab_utils.grade.pages import feedback


def test_a_reason_that_fails_several_criteria_is_said_once():
    failure = {"criterion": "value", "expected": "a sum.", "came": "<nothing>", "case": "N = 3"}
    other = {**failure, "case": "N = 4"}
    names = {"sum": failure, "few": other, "messages": failure, "shape": None}
    criteria = [
        dict(name=name, en=f"{name} & so", zh=f"评分项{name}", points=1, passed=why is None)
        | {"failure": why}
        for name, why in names.items()
    ]
    exercise = dict(check="ring", answer="ring", advisory=None, criteria=criteria)
    for lang, words in (
        ("en", "The same reason as “sum &amp; so”"),
        ("zh", "原因与“评分项sum”相同"),
    ):
        page = feedback(
            dict(student="A", language=lang, trouble=None, advisory=[], exercises=[exercise])
        )
        assert page.count(words) == 1
        assert page.count("&lt;nothing&gt;") == 2
