"""Page 00's two cards that look at the whole course: the map with what is done, and one
recommendation from the placement questions."""

from __future__ import annotations

import functools
import json
from typing import Any

from ...i18n import language, t
from ..progress import was_passed
from . import FOLDER, question
from .card import as_html, show_card


def course_map() -> None:
    """Draw the lessons that there are, and the labs that stand for themselves, each after those
    that it needs, with the questions that the learner has answered and the exercises that have
    passed."""
    known = _lessons()
    columns: dict[int, list[dict[str, Any]]] = {}
    for lesson in known.values():
        columns.setdefault(_depth(lesson, known), []).append(lesson)
    boxes = "".join(f"<div>{''.join(map(_box, columns[depth]))}</div>" for depth in sorted(columns))
    exercises = [name for lesson in known.values() for name in lesson["exercises"]]
    data = {
        "lessons": {
            number: {
                "needs": [need for need in lesson["needs"] if need in known],
                "questions": lesson["questions"],
                "exercises": lesson["exercises"],
            }
            for number, lesson in known.items()
        },
        "passed": [name for name in exercises if was_passed(name)],
        "words": {
            "questions": t("% questions", "题目 %"),
            "exercises": t("% exercises", "练习 %"),
            "and": t(", ", "，"),
        },
    }
    plain = "\n".join(f"{n} · {lesson['title'][language()]}" for n, lesson in known.items())
    show_card("map", data, f'<div class="lab-map">{boxes}</div>', plain)


def placement(*names: str) -> None:
    """One recommendation from the answers to the questions with these ids: the lesson of the first
    that was not answered rightly, or the next one that is written."""
    known, asked = _lessons(), []
    for name in names:
        put = question(name)
        asked.append({"id": name, "answer": put.answer, "go": _go(put.lesson or "00", known)})
    last = [number for number, entry in known.items() if entry["lesson"]][-1]
    words = {
        "open": t(
            "Answer the questions above, and one recommendation stands here (% to go).",
            "答完上面的题，这里会给出一条建议（还剩 % 题）。",
        ),
        "all": t(
            f"All right. Go where you like; {_link(known[last])} is the furthest so far.",
            f"全对。想学哪一课都行，目前最靠后的是 {_link(known[last])}。",
        ),
    }
    said = f'<p role="status">{words["open"].replace("%", str(len(names)))}</p>'
    show_card("placement", {"questions": asked, "words": words}, said, words["open"])


def _go(number: str, known: dict[str, dict[str, Any]]) -> str:
    """Where to begin when lesson `number` is the first that is not known."""
    lessons = [n for n, entry in known.items() if entry["lesson"]]
    if number in lessons:
        return t(
            f"<b>Begin with {_link(known[number])}.</b>",
            f"<b>请从 {_link(known[number])} 学起。</b>",
        )
    later = next((n for n in lessons if n > number), lessons[-1])
    return t(
        f"Lesson {number} would be the place to begin; it is still being written."
        f" <b>Until then begin with {_link(known[later])}.</b>",
        f"本应从第 {number} 课学起，但它还在编写中。<b>请先学 {_link(known[later])}。</b>",
    )


def _link(lesson: dict[str, Any]) -> str:
    title = f"{lesson['name'][:2]} · {lesson['title'][language()]}"
    href = f"{lesson['name']}.ipynb" if lesson["lesson"] else _lab(lesson)
    return f'<a href="{href}">{as_html(title)}</a>'


def _lab(lesson: dict[str, Any]) -> str:
    return f"../../labs/{language()}/{lesson['lab']}.ipynb"


def _box(lesson: dict[str, Any]) -> str:
    minutes = t(f"{lesson['minutes']} minutes", f"{lesson['minutes']} 分钟")
    lab = ""
    if not lesson["lesson"]:
        lab = t(" · a lab of its own", " · 独立实验")
    elif lesson["lab"]:
        lab = f' · <a href="{_lab(lesson)}">{t("lab", "实验")}</a>'
    return (
        f'<div data-lesson="{lesson["name"][:2]}">{_link(lesson)}<small>{minutes}{lab}</small>'
        '<div class="lab-bar"><span></span></div><small class="lab-done"></small></div>'
    )


def _depth(lesson: dict[str, Any], known: dict[str, dict[str, Any]]) -> int:
    """How many lessons come before, one after the other."""
    before = [known[need] for need in lesson["needs"] if need in known]
    return 1 + max((_depth(need, known) for need in before), default=-1)


@functools.cache
def _lessons() -> dict[str, dict[str, Any]]:
    entries = json.loads((FOLDER / "map.json").read_text(encoding="utf-8"))
    return {entry["name"][:2]: entry for entry in entries}
