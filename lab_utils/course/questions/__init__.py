"""Questions as data: authors write them as YAML in a lesson's source, the build puts them beside
the package, `ask` looks them up by id. So a page's code holds neither the words of another language
nor an answer.

    - id: 05-ring                       one entry for each question of a cell
      en: How many times …?             the question
      zh: ……？
      answer: ring                      a quiz has one; a prediction has none
      options:
        ring: {en: [once, why], zh: [……, ……]}       quiz: the option and what is answered to it
        mesh: {en: twice, zh: 两次}                 prediction: the option
      unit: {en: bytes, zh: 字节}       a prediction without options asks for a number, in a unit
      lesson: "01"                      of a placement question: where to begin if it is not known
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...i18n import LANGUAGES

FOLDER = Path(__file__).parent
# a build of sources elsewhere (--root) keeps its questions there, and names the folder here
ELSEWHERE = "LAB_QUESTIONS"
Words = Mapping[str, str]  # language → text


class QuestionError(ValueError):
    """A question that cannot be asked; the message says which and what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question. `options`: key → words, None where a number is asked for; `why`: key → what is
    answered to that option, and `answer` the right key, both None in a prediction."""

    id: str
    text: Words
    options: Mapping[str, Words] | None = None
    why: Mapping[str, Words] | None = None
    answer: str | None = None
    unit: Words | None = None
    lesson: str | None = None

    @property
    def is_quiz(self) -> bool:
        return self.answer is not None


def parse(entries: Any) -> list[Question]:
    """Questions from what a cell's YAML says. Raises QuestionError."""
    if not isinstance(entries, list) or not entries:
        raise QuestionError("a cell tagged question holds a YAML list of questions")
    return [_parse(entry) for entry in entries]


def _parse(entry: Any) -> Question:
    if not (isinstance(entry, dict) and isinstance(entry.get("id"), str)):
        raise QuestionError(f"a question needs an id, as - id: 05-ring: {entry!r}")
    name = entry["id"]
    unknown = sorted({*entry} - {"id", *LANGUAGES, "answer", "options", "unit", "lesson"})
    if unknown:
        raise QuestionError(f"question {name}: {', '.join(unknown)} is not known")
    text = _words(entry, f"question {name}")
    unit = entry.get("unit") and _words(entry["unit"], f"the unit of question {name}")
    given, answer = entry.get("options"), entry.get("answer")
    if given is None:
        if answer is not None:
            raise QuestionError(f"question {name} has an answer but no options")
        return Question(id=name, text=text, unit=unit)
    if not isinstance(given, dict) or len(given) < 2:
        raise QuestionError(f"question {name} needs at least two options")
    halves = {str(key): _option(name, key, option, answer) for key, option in given.items()}
    options = {key: words for key, (words, _) in halves.items()}
    if answer is None:
        return Question(id=name, text=text, options=options)
    if str(answer) not in options:
        raise QuestionError(
            f"the answer of question {name} is {answer!r}, which is none of its options:"
            f" {', '.join(options)}"
        )
    why = {key: reason for key, (_, reason) in halves.items()}
    lesson = entry.get("lesson")
    return Question(id=name, text=text, options=options, why=why, answer=str(answer), lesson=lesson)


def _words(given: Any, where: str) -> dict[str, str]:
    if not (isinstance(given, dict) and all(isinstance(given.get(x), str) for x in LANGUAGES)):
        raise QuestionError(f"{where} needs its words in both languages, en and zh")
    return {lang: given[lang].strip() for lang in LANGUAGES}


def _option(name: str, key: Any, option: Any, answer: Any) -> tuple[Words, Words]:
    """The words of an option, and of what is answered to it (empty in a prediction)."""
    where = f"option {key} of question {name}"
    if answer is None:
        return _words(option, where), {}
    pairs = {lang: option.get(lang) if isinstance(option, dict) else None for lang in LANGUAGES}
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs.values()):
        raise QuestionError(f"{where} answers back: en: [option, why], zh: [选项, 解释]")
    return tuple({lang: str(pairs[lang][i]).strip() for lang in LANGUAGES} for i in (0, 1))


def packed(questions: Iterable[Question]) -> str:
    """The questions of a lesson as the text of its file beside the package."""
    entries = [{k: v for k, v in asdict(q).items() if v is not None} for q in questions]
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"


@functools.cache
def of_lesson(number: str) -> dict[str, Question]:
    """The questions of the lesson (or lab) whose ids begin with `number`, by id."""
    return {
        entry["id"]: Question(**entry)
        for folder in (FOLDER, Path(os.environ.get(ELSEWHERE) or FOLDER))
        for path in sorted(folder.glob(f"{number}_*.json"))
        for entry in json.loads(path.read_text(encoding="utf-8"))
    }


def question(name: str) -> Question:
    """The question with this id. Raises QuestionError for one that nobody wrote."""
    known = of_lesson(name.partition("-")[0])
    if name not in known:
        raise QuestionError(f"no question is called {name!r}; there are {', '.join(known)}.")
    return known[name]
