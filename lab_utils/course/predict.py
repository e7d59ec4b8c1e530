"""Questions in a notebook: `predict` before the run (a guess, then `reveal`), `quiz` after it (it answers back).

Each is an ipywidgets box with native inputs. Beside it goes plain HTML of the same question, so that a notebook reads
the same on GitHub and where no kernel runs; the text is the same at every run, so nbval compares it strictly.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..i18n import t

Options = Mapping[str, str] | Sequence[str]
_given: dict[str, Any] = {}           # what the learner chose, by question: running a cell again does not lose it


def _choices(question_id: str, options: Options) -> dict[str, str]:
    """Options as {key: text}; without keys each text is its own."""
    choices = dict(options) if isinstance(options, Mapping) else {str(o): str(o) for o in options}
    if len(choices) < 2:
        raise ValueError(t(f"question {question_id} needs at least two options.", f"题目 {question_id} 至少需要两个选项。"))
    return choices


def _need(question_id: str, key: Any, choices: Mapping[str, str], what: str) -> None:
    if key not in choices:
        raise ValueError(t(f"{what} of question {question_id} is {key!r}, which is none of its options: {', '.join(choices)}.",
                           f"题目 {question_id} 的 {what} 是 {key!r}，不在选项之中：{'、'.join(choices)}。"))


def _publish(plain: str, fallback: str, box: Any) -> None:
    from IPython.display import display

    display({**box._repr_mimebundle_(), "text/plain": plain, "text/html": fallback}, raw=True)


def _html(text: str) -> str:
    """Plain text as HTML; what stands between backquotes is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _wrapped(text: str) -> str:
    return f"<div style='white-space:normal;line-height:1.5'>{text}</div>"


def _radio(choices: Mapping[str, str], value: str | None) -> Any:
    import ipywidgets

    return ipywidgets.RadioButtons(options=[(text, key) for key, text in choices.items()], value=value, layout={"width": "max-content", "max_width": "100%"})


@dataclass
class Prediction:
    """A guess that the learner has committed to; `value` is an option's key, or a number."""

    question_id: str
    value: Any
    choices: dict[str, str] | None
    unit: str

    def _words(self, value: Any) -> str:
        if self.choices is not None:
            return self.choices[value]
        number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
        return f"{number}{' ' if self.unit else ''}{self.unit}"

    def reveal(self, measured: Any, why: str = "") -> None:
        """Print the guess beside what was measured (an option's key, or a number), in words, then `why`.

        Raises ValueError when `measured` is none of the options.
        """
        if self.choices is not None:
            _need(self.question_id, measured, self.choices, "measured")
            verdict = t("as you predicted", "与你的预测一致") if measured == self.value else t("not what you predicted", "与你的预测不同")
        elif measured == self.value:
            verdict = t("exactly as you predicted", "与你的预测完全一致")
        elif measured == 0:
            verdict = t("there was none", "实际为零")
        else:
            times = self.value / measured
            verdict = t(f"your guess is {times:.3g} × the measured value", f"你的预测是实测值的 {times:.3g} 倍")
        print(t(f"You predicted: {self._words(self.value)}\nMeasured:      {self._words(measured)}  ({verdict})",
                f"你的预测：{self._words(self.value)}\n实测结果：{self._words(measured)}（{verdict}）"))
        if why:
            print(why)

    def _ipython_display_(self) -> None:
        """Nothing: the box is on the page already."""


def predict(question_id: str, text: str, options: Options | None = None, default: Any = None, unit: str = "") -> Prediction:
    """Ask for a guess before anything is shown; a notebook that runs unattended goes on with `default`.

    With `options` ({key: text} or a list) the learner picks one, without them they write a number, in `unit`. `default`
    is required, and should be one of the misconceptions, never the answer. Raises ValueError if it is no option.
    """
    import ipywidgets

    choices = None if options is None else _choices(question_id, options)
    if choices is not None:
        _need(question_id, default, choices, "default")
    elif not isinstance(default, int | float):
        raise ValueError(t(f"question {question_id} asks for a number, so its default must be one, not {default!r}.",
                           f"题目 {question_id} 要填数字，default 也应是数字，而不是 {default!r}。"))
    value = _given.get(question_id, default)
    if choices is not None and value not in choices:
        value = default
    guess = Prediction(question_id, value, choices, unit)
    label = t("Your prediction", "你的预测")
    if choices is not None:
        answer = _radio(choices, guess.value)
    else:
        name = t(f"{label} ({unit})", f"{label}（{unit}）") if unit else label
        answer = ipywidgets.FloatText(value=guess.value, description=name, style={"description_width": "initial"})

    def remember(change: dict[str, Any]) -> None:
        guess.value = _given[question_id] = change["new"]

    answer.observe(remember, "value")
    listed = "".join(f"<li>{_html(choice)}</li>" for choice in (choices or {}).values())
    fallback = f"<p><b>{label}</b> · {_html(text)}</p>" + (f"<ul>{listed}</ul>" if choices else f"<p>____ {_html(unit)}</p>")
    plain = "\n".join([f"{label} · {text}", *(f"  ( ) {choice}" for choice in (choices or {}).values())])
    question = ipywidgets.HTML(_wrapped(f"<b>{label}</b> · {_html(text)}"))
    _publish(plain, fallback, ipywidgets.VBox([question, answer]))
    return guess


@dataclass
class Quiz:
    """A question that was asked: `value` is the key that was chosen last (None so far), `correct` whether it is right."""

    question_id: str
    answer: str
    value: str | None = None

    @property
    def correct(self) -> bool:
        return self.value == self.answer

    def _ipython_display_(self) -> None:
        """Nothing: the box is on the page already."""


def quiz(question_id: str, text: str, options: Options, answer: str, why: Mapping[str, str]) -> Quiz:
    """Ask a question that answers back: `why` says for every option what is right or wrong about it.

    `options` is {key: text} or a list; `answer` is the right key. Raises ValueError when `answer` is no option or an
    option has no explanation.
    """
    import ipywidgets

    choices = _choices(question_id, options)
    _need(question_id, answer, choices, "answer")
    missing = [key for key in choices if not why.get(key)]
    if missing:
        raise ValueError(t(f"question {question_id} answers back for every option: `why` lacks {', '.join(missing)}.",
                           f"题目 {question_id} 的每个选项都要有解释：`why` 缺少 {'、'.join(missing)}。"))
    asked = Quiz(question_id, answer, _given.get(question_id) if _given.get(question_id) in choices else None)
    label = t("Question", "问题")
    picked, reply = _radio(choices, asked.value), ipywidgets.HTML()

    def respond() -> None:
        if asked.value is not None:
            verdict = t("✓ Right.", "✓ 正确。") if asked.correct else t("✗ Not quite.", "✗ 不对。")
            reply.value = f"<div role='status'>{_wrapped(f'<b>{verdict}</b> {_html(why[asked.value])}')}</div>"

    def remember(change: dict[str, Any]) -> None:
        asked.value = _given[question_id] = change["new"]
        respond()

    respond()
    picked.observe(remember, "value")
    folded = "".join(f"<details><summary>{_html(choice)}</summary>{'✓' if key == answer else '✗'} {_html(why[key])}</details>"
                     for key, choice in choices.items())
    plain = "\n".join([f"{label} · {text}", *(f"  ( ) {choice}" for choice in choices.values())])
    question = ipywidgets.HTML(_wrapped(f"<b>{label}</b> · {_html(text)}"))
    _publish(plain, f"<p><b>{label}</b> · {_html(text)}</p>{folded}", ipywidgets.VBox([question, picked, reply]))
    return asked
