"""Questions: what unattended notebooks print, what a learner's choice changes, what authors are told."""

from __future__ import annotations

import ipywidgets
import pytest

from lab_utils.course import predict as ask
from lab_utils.course import quiz
from lab_utils.i18n import set_language

OPTIONS = {"ring": "2(N−1)/N", "whole": "the whole buffer"}


@pytest.fixture(autouse=True)
def english():
    set_language("en")
    yield
    set_language("en")


@pytest.fixture(autouse=True)
def _forget_answers():
    from lab_utils.course.predict import _given

    _given.clear()


@pytest.fixture
def boxes(monkeypatch) -> list:
    """What was put on the page: (text/plain, text/html, widget) of each question."""
    import importlib

    shown: list = []
    monkeypatch.setattr(importlib.import_module("lab_utils.course.predict"), "_publish", lambda *parts: shown.append(parts))
    return shown


def test_unattended_it_goes_on_with_the_default(boxes, capsys):
    guess = ask("q", "How much?", OPTIONS, default="whole")
    assert guess.value == "whole"
    guess.reveal("ring", why="Each chunk goes round once.")
    assert capsys.readouterr().out == ("You predicted: the whole buffer\nMeasured:      2(N−1)/N  (not what you predicted)\nEach chunk goes round once.\n")


def test_the_learners_choice_counts_and_survives_a_second_run(boxes, capsys):
    guess = ask("q", "How much?", OPTIONS, default="whole")
    boxes[0][2].children[1].value = "ring"
    assert guess.value == "ring"
    guess.reveal("ring")
    assert "as you predicted" in capsys.readouterr().out
    assert ask("q", "How much?", OPTIONS, default="whole").value == "ring"
    assert boxes[1][2].children[1].value == "ring"
    assert ask("other", "How much?", OPTIONS, default="whole").value == "whole"


@pytest.mark.parametrize(("guessed", "measured", "words"), [
    (8, 4, "You predicted: 8 MB\nMeasured:      4 MB  (your guess is 2 × the measured value)"),
    (1.5, 3, "your guess is 0.5 × the measured value"),
    (3, 3.0, "exactly as you predicted"),
    (3, 0, "there was none"),
])
def test_numbers_are_compared_in_words(boxes, capsys, guessed, measured, words):
    ask("n", "How much?", default=guessed, unit="MB").reveal(measured)
    assert words in capsys.readouterr().out


def test_in_chinese(boxes, capsys):
    set_language("zh")
    ask("n", "多少？", default=8, unit="MB").reveal(4)
    assert capsys.readouterr().out == "你的预测：8 MB\n实测结果：4 MB（你的预测是实测值的 2 倍）\n"
    assert boxes[0][2].children[1].description == "你的预测（MB）"


def test_a_quiz_answers_back_for_every_option(boxes):
    asked = quiz("q", "How much?", OPTIONS, answer="ring", why={"ring": "N−1 chunks, twice.", "whole": "That is <one> broadcast."})
    _, radio, reply = boxes[0][2].children
    assert (asked.value, asked.correct, reply.value) == (None, False, "")
    radio.value = "whole"
    assert "✗ Not quite." in reply.value
    assert "That is &lt;one&gt; broadcast." in reply.value
    assert 'role="status"' in reply.value.replace("'", '"')
    assert not asked.correct
    radio.value = "ring"
    assert "✓ Right." in reply.value
    assert asked.correct


def test_without_a_kernel_the_question_can_still_be_read_and_answered(boxes):
    quiz("q", "How <much>?", OPTIONS, answer="ring", why={"ring": "N−1 chunks, twice.", "whole": "No."})
    plain, page, _ = boxes[0]
    assert plain == "Question · How <much>?\n  ( ) 2(N−1)/N\n  ( ) the whole buffer"
    assert "How &lt;much&gt;?" in page
    assert "<details><summary>2(N−1)/N</summary>✓ N−1 chunks, twice.</details>" in page


def test_every_input_has_a_name(boxes):
    ask("n", "How much?", default=8)
    ask("q", "How much?", OPTIONS, default="whole")
    assert boxes[0][2].children[1].description == "Your prediction"
    assert isinstance(boxes[1][2].children[1], ipywidgets.RadioButtons)
    assert boxes[1][2].children[1]._options_labels == tuple(OPTIONS.values())


@pytest.mark.parametrize(("wrong", "said"), [
    (lambda: ask("q", "?", OPTIONS, default="x"), "default of question q is 'x', which is none of its options: ring, whole."),
    (lambda: ask("q", "?", OPTIONS), "default of question q is None"),
    (lambda: ask("q", "?", default="8"), "asks for a number, so its default must be one, not '8'"),
    (lambda: ask("q", "?", ["one"], default="one"), "at least two options"),
    (lambda: ask("q", "?", OPTIONS, default="whole").reveal("x"), "measured of question q is 'x'"),
    (lambda: quiz("q", "?", OPTIONS, answer="x", why={}), "answer of question q is 'x'"),
    (lambda: quiz("q", "?", OPTIONS, answer="ring", why={"ring": "so"}), "`why` lacks whole"),
])
def test_authors_are_told_what_would_work(boxes, wrong, said):
    with pytest.raises(ValueError, match=".*") as refused:
        wrong()
    assert said in str(refused.value)
