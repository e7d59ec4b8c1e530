"""Questions in a notebook: `ask` before a run or after it, `reveal` where the answer was measured.

Both show cards that need no kernel: what the learner chose is kept by the browser (and in the
learner's folder), so it is there on the second day, and no output depends on it. What a cell that
reveals has printed stays covered until there is a guess, or the learner asks to be shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...i18n import language, t
from . import Question, QuestionError, question
from .card import as_html, show_card

_REVEALS = re.compile(r'\breveal\(\s*"([\w-]+)"')


def ask(*names: str) -> None:
    """Put the questions with these ids on the page. A quiz answers back; a prediction is compared
    by `reveal`. Raises QuestionError for an id that nobody wrote."""
    for asked in map(question, names):
        text, label = asked.text[language()], _label(asked)
        listed = _options(asked)
        plain = "\n".join([f"{label} · {text}", *(f"  ( ) {option}" for _, option in listed)])
        show_card("question", _data(asked), _fallback(asked, label), plain)


def reveal(name: str, measured: Any, why: str = "") -> None:
    """Hold the learner's guess at a prediction against what was measured: an option's key, or a
    number. `why` is shown with it.

    Raises QuestionError when `measured` is none of the options.
    """
    asked = question(name)
    if asked.options is not None and measured not in asked.options:
        raise QuestionError(
            t(
                f"{measured!r} was measured, which is none of the options of question {name}:"
                f" {', '.join(asked.options)}.",
                f"实测结果 {measured!r} 不在题目 {name} 的选项之中：{'、'.join(asked.options)}。",
            )
        )
    words = _in_words(asked, measured)
    heading = t("What was measured", "实测结果")
    plain = f"{heading}{t(': ', '：')}{words}" + (f"\n{why}" if why else "")
    fallback = (
        f"<details><summary>{heading}</summary><p>{as_html(words)}</p>"
        f"{f'<p>{as_html(why)}</p>' if why else ''}</details>"
    )
    data = _data(asked) | {"measured": measured, "why": as_html(why)}
    show_card("reveal", data, fallback, plain)


def covered(name: str) -> None:
    """First in a cell whose output gives a prediction's answer away (a picture of what was
    measured): what the cell shows stays covered until there is a guess at the question above."""
    show_card("cover", _data(question(name)) | {"above": True}, "", "")


def cover_reveals() -> None:
    """From now on a cell that calls `reveal` covers, from its first moment, what it prints."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None and _cover not in shell.events.callbacks["pre_run_cell"]:
        shell.events.register("pre_run_cell", _cover)


def _cover(info: Any) -> None:
    found = _REVEALS.search(info.raw_cell or "")
    try:
        asked = found and question(found[1])
    except QuestionError:  # reveal itself will say so
        return
    if asked:
        show_card("cover", _data(asked), "", "")


def _label(asked: Question) -> str:
    return t("Question", "问题") if asked.is_quiz else t("Your prediction", "你的预测")


def _options(asked: Question) -> list[tuple[str, str]]:
    return [(key, words[language()]) for key, words in (asked.options or {}).items()]


def _in_words(asked: Question, value: Any) -> str:
    if asked.options is not None:
        return asked.options[value][language()]
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
    return f"{number} {_unit(asked)}".rstrip()


def _unit(asked: Question) -> str:
    return asked.unit[language()] if asked.unit else ""


def _fallback(asked: Question, label: str) -> str:
    head = f"<p><b>{label}</b> · {as_html(asked.text[language()])}</p>"
    if asked.options is None:
        return f"{head}<p>____ {as_html(_unit(asked))}</p>"
    if not asked.is_quiz:
        listed = "".join(f"<li>{as_html(option)}</li>" for _, option in _options(asked))
        return f"{head}<ul>{listed}</ul>"
    assert asked.why is not None
    folded = "".join(
        f"<details><summary>{as_html(option)}</summary>{'✓' if key == asked.answer else '✗'}"
        f" {as_html(asked.why[key][language()])}</details>"
        for key, option in _options(asked)
    )
    return head + folded


def _data(asked: Question) -> dict[str, Any]:
    """What card.js needs of a question, in the page's language."""
    options = None
    if asked.options is not None:
        why: Mapping[str, Any] = asked.why or {}
        options = [
            [key, as_html(text), *([as_html(why[key][language()])] if key in why else [])]
            for key, text in _options(asked)
        ]
    unit = _unit(asked)
    words = {key: t(*pair) for key, pair in _WORDS.items()} | {"label": _label(asked)}
    words["number"] = t(f"in {unit}:", f"填写数值（{unit}）：") if unit else ""
    return {
        "id": asked.id,
        "text": as_html(asked.text[language()]),
        "options": options,
        "answer": asked.answer,
        "unit": as_html(unit),
        "words": words,
    }


_WORDS = {
    "noted": ("Noted. Now run the next cell.", "记下了。现在运行下一个代码格。"),
    "right": ("Right:", "正确："),
    "wrong": ("Wrong:", "不对："),
    "commit": ("This is my guess", "就猜这个"),
    "covered": (
        "The result stays covered until you have made your guess.",
        "先写下你的预测，再揭晓结果。",
    ),
    "above": ("Covered until you have made your guess above.", "上面的预测写下之后再揭晓。"),
    "show": ("Show me without a guess", "不猜了，直接看"),
    "guess": ("You predicted", "你的预测"),
    "unguessed": ("nothing", "（没有预测）"),
    "measured": ("Measured", "实测结果"),
    "same": ("✓ As you predicted.", "✓ 与你的预测一致。"),
    "other": ("Not what you predicted.", "与你的预测不同。"),
    "exact": ("✓ Exactly as you predicted.", "✓ 与你的预测完全一致。"),
    "none": ("There was none.", "实际为零。"),
    "high": ("Your guess is % too high.", "你的预测偏高 %。"),
    "low": ("Your guess is % too low.", "你的预测偏低 %。"),
    "times": ("Your guess is % × the measured value.", "你的预测是实测值的 % 倍。"),
}
