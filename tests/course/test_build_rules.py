"""Each rule of a source, broken once: the build names file and cell and says what would work."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from lab_utils.course import build
from lab_utils.course.build_outputs import stable
from lab_utils.course.build_rules import typography

HEAD = """\
---
title: {en: Title, zh: 标题}
minutes: 1
objectives: []
---
"""
FINE = HEAD + "Words.\n\n<!-- zh -->\n文字。\n"
AIM = (
    HEAD.replace("objectives: []", "objectives: [{id: aim, en: aim, zh: 目标}]")
    + "<!-- objectives -->\n\n"
)
ASK = (
    "```{code-cell}\n:tags: [question, asks:aim]\n- {id: 05-q, en: How many, zh: 多少, unit:"
    " {en: MB, zh: MB}}\n```\n"
)
ASK_CUT = AIM + ASK.replace(
    "unit: {en: MB, zh: MB}", "options: {a: {en: one, a third, zh: 一}, b: {en: two, zh: 二}}"
)
SHOW = "```{code-cell}\n:tags: [shows:aim]\nprint(1)\n```\n"


def check(root: Path, text: str, capsys: pytest.CaptureFixture[str], room: str = "lessons") -> str:
    """What `build --check` says about one source, besides that its notebooks and
    its questions are missing."""
    (root / room / "source").mkdir(parents=True)
    (root / room / "source/05_x.md").write_text(text, encoding="utf-8")
    (root / "pyproject.toml").write_text(
        '[project.urls]\nRepository = "https://example.org/course"\n'
    )
    build.run(argparse.Namespace(names=[], check=True, lang=None, root=root))
    said = capsys.readouterr().err.splitlines()
    unbuilt = ("is missing", "questions/05_x.json is not what the sources say")
    return "\n".join(line for line in said if not any(words in line for words in unbuilt))


@pytest.mark.parametrize(
    "text",
    [
        FINE,
        AIM + ASK + SHOW,
        HEAD + "```{code-cell}\n%matplotlib inline\n!echo hi\n```\n",
        HEAD + "```{code-cell}\nif 1:\n    x = 1\n    # en: one\ny = '''\n# zh: wen'''\n```\n",
        HEAD + "```{code-cell}\ndef share(n):\n    t('Split it.', '分成几份。')\n```\n",
    ],
    ids=["prose", "objectives", "magics", "a note inside a string", "a docstring"],
)
def test_what_keeps_the_rules_passes(tmp_path, capsys, text):
    assert check(tmp_path, text, capsys) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Words.\n", "lessons/source/05_x.md must open with front matter"),
        (FINE.replace(", zh: 标题", ""), "title must be given in both languages"),
        (FINE.replace("minutes: 1\n", ""), "a lesson gives minutes"),
        (
            FINE.replace("objectives: []\n", ""),
            "a lesson gives minutes: (a whole number) and objectives",
        ),
        (FINE.replace("minutes", "minuts"), "minuts is not known"),
        (FINE.replace("[]", "[{id: a, en: only}]"), "an objective has id, en and zh"),
        (
            FINE.replace("标题", "标题:好"),
            "front matter: ASCII punctuation touches a Han character in …标题:好",
        ),
        (
            HEAD + "Words only.\n",
            (
                "05_x.md, cell 1 ('Words only.'): prose needs English, one line <!-- zh -->, then"
                " Chinese"
            ),
        ),
        (FINE + "\n<!-- zh -->\n又来\n", "it has 2 such lines"),
        (
            FINE.replace("文字", "文字, 好"),
            "cell 1 ('Words.'): ASCII punctuation touches a Han character",
        ),
        (FINE.replace("Words.", "# Words"), "the first-level heading comes from title"),
        (
            HEAD + "```{code-cell}\nx = 1  # zh: 一(个)\n```\n",
            "ASCII punctuation touches a Han character in …一(个)…",
        ),
        (HEAD + "```{code-cell}\nt('a', '甲:乙')\n```\n", "…甲:乙…"),
        (HEAD + "```{code-cell}\nt(f'a{1}', f'甲{1},乙')\n```\n", "…甲x,乙…"),
        (HEAD + "```{code-cell}\nx = (\n```\n", "cell 1 ('x = (') is not Python"),
        (
            HEAD + "```{code-cell}\n:name: bad\nx = 1 1\n```\n",
            "cell bad is not Python: invalid syntax",
        ),
        (
            HEAD + "```{code-cell}\ndef share(n):\n    'Split it.'\n```\n",
            "the Chinese page would show share's docstring in English",
        ),
        (
            HEAD + "```{code-cell}\n# BEGIN SOLUTION\nx = 1\n```\n",
            "every # BEGIN SOLUTION needs its # END SOLUTION",
        ),
        (
            ASK_CUT,
            "after a comma a third is no word of an option any more; put its words into quotation",
        ),
        (AIM + ASK, "objective aim has no claim or check"),
        (AIM + SHOW, "objective aim has no question"),
        (
            AIM + ASK + SHOW.replace("aim]", "aim, nbval-ignore-output]"),
            "a claim (shows:aim) must be compared strictly",
        ),
        (
            AIM + SHOW.replace("shows:aim", "asks:aim") + SHOW,
            "it is tagged asks:aim but holds no question",
        ),
        (
            AIM + ASK + SHOW + SHOW.replace("aim", "game"),
            "tag shows:game names no objective of the front matter (aim)",
        ),
        (
            AIM.replace("<!-- objectives -->", "") + ASK + SHOW,
            "say where the objectives are listed",
        ),
    ],
)
def test_what_breaks_a_rule_is_named(tmp_path, capsys, text, said):
    found = check(tmp_path, text, capsys)
    assert said in found


def test_a_lab_without_an_answer_is_refused(tmp_path, capsys):
    assert "a lab needs at least one answer" in check(tmp_path, FINE, capsys, room="solutions")


def test_code_that_differs_between_languages_is_refused(tmp_path, capsys, monkeypatch):
    from lab_utils.course import build_source

    monkeypatch.setattr(
        build_source, "_stub", lambda indent, first, answer, exercise, lang: f"{lang} = 1\n"
    )
    answer = FINE + "\n```{code-cell}\n:name: ex1\n# BEGIN SOLUTION\nx = 1\n# END SOLUTION\n```\n"
    assert "cell ex1: the code differs between the languages" in check(
        tmp_path, answer, capsys, room="solutions"
    )


def test_names_that_fit_no_source(tmp_path, capsys):
    check(tmp_path, FINE, capsys)
    assert build.run(argparse.Namespace(names=["07"], check=True, lang=None, root=tmp_path)) == 1
    assert capsys.readouterr().err == "no source is called 07; there are 05_x.\n"
    assert (
        build.run(argparse.Namespace(names=[], check=True, lang=None, root=tmp_path / "lessons"))
        == 1
    )
    assert "run this in the repository, or give --root" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "中文，English (ok), 再来。",
        "`a`、`f(x)` 与 `甲,乙`",
        "公式 $f(甲)$ 与 $$a,b$$",
        "[文字](http://x.org/a,b) 好",
        "```\n甲,乙\n```",
        "a: b; (c)",
    ],
)
def test_typography_lets_pass(text):
    assert not list(typography(text))


@pytest.mark.parametrize("text", ["甲,乙", "甲;", "(甲", "甲)", "a:甲", "**甲**:", "`f`甲(`g`)"])
def test_typography_catches(text):
    assert list(typography(text))


def test_stable_text_names_no_machine():
    import torch

    assert (
        stable(f"<f at 0x7f3b2c1d> {torch.__file__} /tmp/ipykernel_12/34.py:1")
        == "<f at 0xADDRESS> torch/__init__.py <cell>:1"
    )
    assert stable("0xff and 16 bytes") == "0xff and 16 bytes"
