"""Questions as data: what authors are told, what a page holds, and what it does not depend on."""

from __future__ import annotations

import base64
import json
import re

import pytest

from lab_utils.course.questions import FOLDER, QuestionError, of_lesson, overview, parse, question
from lab_utils.course.questions import ask as asking
from lab_utils.course.questions import card as cards
from lab_utils.i18n import set_language

LESSONS = sorted(path.name[:2] for path in FOLDER.glob("[0-9][0-9]_*.json"))
QUIZ = {
    "id": "99-sum",
    "en": "2 + 2?",
    "zh": "2 + 2 等于几？",
    "answer": "4",
    "options": {
        "4": {"en": ["four", "Yes."], "zh": ["四", "对。"]},
        "5": {"en": ["five", "One less."], "zh": ["五", "少一个。"]},
    },
}


@pytest.fixture(autouse=True)
def english():
    set_language("en")
    yield
    set_language("en")


@pytest.fixture
def shown(monkeypatch) -> list[tuple]:
    """What was put on the page: (kind, data, fallback, plain) of each card."""
    found: list[tuple] = []
    for module in (asking, overview):
        monkeypatch.setattr(module, "show_card", lambda *parts: found.append(parts))
    return found


def asked(monkeypatch, *entries):
    known = {q.id: q for q in parse(list(entries))}
    monkeypatch.setattr(asking, "question", known.__getitem__)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": None}, "needs an id"),
        ({"zh": None}, "both languages"),
        ({"answer": "6"}, "none of its options: 4, 5"),
        ({"options": {"4": QUIZ["options"]["4"]}}, "at least two options"),
        ({"options": None}, "an answer but no options"),
        ({"anwser": "4"}, "anwser is not known"),
        ({"answer": None}, "option 4 of question 99-sum needs its words"),
        ({"options": QUIZ["options"] | {"6": {"en": "six", "zh": "六"}}}, "option 6"),
    ],
)
def test_an_author_is_told_what_is_wrong(change, complaint):
    entry = {key: value for key, value in (QUIZ | change).items() if value is not None}
    with pytest.raises(QuestionError, match=re.escape(complaint)):
        parse([entry])


def test_a_quiz_answers_back_and_its_answer_is_not_in_the_clear(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: shown.append(bundle))
    asked(monkeypatch, QUIZ)
    asking.ask("99-sum")
    page = shown[0]["text/html"]
    assert '"answer"' not in page.replace("data.answer", "")
    packed = re.search(r'data-lab="([^"]+)"', page)[1]
    data = json.loads(base64.b64decode(packed))
    assert data["answer"] == "4"
    assert data["options"] == [["4", "four", "Yes."], ["5", "five", "One less."]]
    # where no script runs, each option unfolds
    assert "<summary>five</summary>✗ One less." in page
    assert shown[0]["text/plain"] == "Question · 2 + 2?\n  ( ) four\n  ( ) five"


def test_nothing_is_chosen_and_the_same_comes_out_every_time(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: shown.append(bundle))
    for _ in range(2):
        asking.ask("05-ring")
        asking.reveal("05-ring", "1.5")
    assert shown[:2] == shown[2:]
    assert "checked" not in shown[0]["text/html"].split("<script>")[0]
    # a page without scripts covers the answer, too
    assert shown[1]["text/html"].split("<script>")[0].count("<details><summary>") == 1


def test_reveal_refuses_what_is_no_option(shown):
    with pytest.raises(QuestionError, match="none of the options of question 05-ring: 1.0, 1.5"):
        asking.reveal("05-ring", "2.0")
    assert not shown


def test_a_number_is_compared_in_its_unit(shown):
    asking.reveal("00-optimizer", 1_895_700, why="Two numbers for each.")
    kind, data, fallback, plain = shown[0]
    assert kind == "reveal"
    assert data["measured"] == 1_895_700
    assert plain == "What was measured: 1,895,700 bytes\nTwo numbers for each."
    assert "<p>1,895,700 bytes</p>" in fallback


def test_an_unknown_id_names_those_that_there_are():
    with pytest.raises(QuestionError, match="no question is called '05-rings'; there are 05-"):
        question("05-rings")


def test_a_cell_that_reveals_is_covered_from_its_first_moment(shown):
    class Info:
        raw_cell = 'x = 1\nreveal("05-ring", x)'

    asking._cover(Info)
    assert [kind for kind, *_ in shown] == ["cover"]
    Info.raw_cell = "print(1)"
    asking._cover(Info)
    Info.raw_cell = 'reveal("05-unknown", x)'
    asking._cover(Info)
    assert len(shown) == 1


def test_a_picture_that_gives_the_answer_away_is_covered_and_does_not_ask_again(shown):
    asking.covered("05-ring")
    (kind, data, fallback, plain), *others = shown
    assert (kind, data["id"], data["above"], fallback, plain) == ("cover", "05-ring", True, "", "")
    assert not others
    with pytest.raises(QuestionError, match="no question is called"):
        asking.covered("05-rings")


@pytest.mark.parametrize("number", LESSONS)
def test_every_question_of_the_course_has_its_words_in_both_languages(number):
    for name, one in of_lesson(number).items():
        words = [one.text, one.unit or {}, *(one.options or {}).values(), *(one.why or {}).values()]
        english = " ".join(text.get("en", "") for text in words)
        assert not re.search("[一-鿿]", english), name
        assert re.search("[一-鿿]", one.text["zh"]), name
        # the tick before it says so already
        for key, why in (one.why or {}).items():
            assert not re.match(r"(✓|✗|Right\. Right)", why["en"]), (name, key)


def test_the_map_shows_what_each_lesson_needs_and_what_has_passed(shown, monkeypatch):
    monkeypatch.setattr(overview, "was_passed", lambda name: name == "chunk_bounds")
    overview.course_map()
    _, data, fallback, plain = shown[0]
    assert data["passed"] == ["chunk_bounds"]
    assert data["lessons"]["05"]["exercises"] == ["bucketed", "chunk_bounds", "ring_all_reduce"]
    assert set(data["lessons"]["06"]["needs"]) <= set(data["lessons"])
    assert 'href="05_data_parallelism.ipynb"' in fallback
    assert "05 · Data parallelism" in plain


def test_a_lab_without_a_lesson_stands_on_the_map(shown):
    overview.course_map()
    _, data, fallback, plain = shown[0]
    assert data["lessons"]["19"]["questions"] == []
    assert "validate" in data["lessons"]["19"]["exercises"]
    assert fallback.count("19_debugging.ipynb") == 1
    assert 'href="../../labs/en/19_debugging.ipynb"' in fallback
    assert "19 · Debugging a training script" in plain
    overview.placement("00-d1")
    assert "19 ·" not in json.dumps(shown[1][1]["words"]["all"])


def test_placement_recommends_one_lesson_that_exists(shown):
    names = [name for name in of_lesson("00") if re.fullmatch(r"00-d\d", name)]
    assert len(names) == 5
    overview.placement(*names)
    _, data, _, plain = shown[0]
    for entry in data["questions"]:
        assert entry["go"].count("<a href=") == 1
        assert entry["answer"] == question(entry["id"]).answer
    assert "(5 to go)" in plain.replace("%", "5")


def test_scripts_of_a_card_close_nothing_else():
    script, style = cards._files()
    assert "</script" not in script
    assert "</style" not in style
