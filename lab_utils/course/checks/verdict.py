"""What a check answers: passed, with what was measured; or the first criterion that failed, and one
hint."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...i18n import t
from ..hints import Hint, Ladder, next_hint

Table = tuple[tuple[str, ...], ...]  # rows of words; the first is the heading


class Failure(NamedTuple):
    """A criterion that was not met. `criterion` is its name for machines; no learner sees it. The
    rest is in the learner's language."""

    criterion: str
    expected: str
    came: str
    case: str = ""


class Measured(NamedTuple):
    """What a passing answer really did: a table, then lines of text."""

    table: Table
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The answer to one attempt at one exercise; shows itself in a notebook, as HTML or as text."""

    exercise: str
    failure: Failure | None
    measured: Measured | None
    hint: Hint | None

    @classmethod
    def of(
        cls, exercise: str, outcome: Failure | Measured, answer: Any, ladders: Mapping[str, Ladder]
    ) -> Result:
        """The result for what an examination came to; a failure brings the hint that this attempt
        has earned."""
        if isinstance(outcome, Measured):
            return cls(exercise, None, outcome, None)
        return cls(exercise, outcome, None, next_hint(exercise, outcome.criterion, answer, ladders))

    @property
    def passed(self) -> bool:
        """Whether every criterion was met."""
        return self.failure is None

    @property
    def criterion(self) -> str | None:
        """The name of the first criterion that failed; None after a pass."""
        return None if self.failure is None else self.failure.criterion

    def _headline(self) -> str:
        if self.failure is None:
            return t(
                f"✓ {self.exercise}: passed. This is what your code really did:",
                f"✓ {self.exercise}：通过。下面是你的代码实际做了什么：",
            )
        where = self.failure.case and t(
            f", with {self.failure.case}", f"，测试条件：{self.failure.case}"
        )
        return t(f"✗ {self.exercise}: not yet{where}.", f"✗ {self.exercise}：还没有通过{where}。")

    def _rows(self) -> list[tuple[str, str]]:
        """The label and the words of each line of a failure."""
        number = f" {self.hint.number}/{self.hint.of}"
        return [
            (t("Expected", "预期"), self.failure.expected),
            (t("Got", "实际"), self.failure.came),
            (t("Hint", "提示") + number, self.hint.text),
        ]

    def __repr__(self) -> str:
        lines = [self._headline()]
        if self.failure is not None:
            lines += [f"  {label}{t(': ', '：')}{words}" for label, words in self._rows()]
        else:
            widths = [
                max(map(_columns, column)) for column in zip(*self.measured.table, strict=True)
            ]
            lines += [
                "  "
                + "  ".join(
                    cell + " " * (w - _columns(cell)) for cell, w in zip(row, widths, strict=True)
                ).rstrip()
                for row in self.measured.table
            ]
            lines += [f"  {line}" for line in self.measured.lines]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        colour = "#1a7f37" if self.passed else "#bc4c00"
        if self.failure is not None:
            body = "".join(
                "<p style='margin:.3em"
                f" 0'><b>{html.escape(label)}</b>{t(': ', '：')}{html.escape(words)}</p>"
                for label, words in self._rows()
            )
        else:
            head, *rows = self.measured.table
            body = (
                "<table><thead><tr>"
                + "".join(f"<th scope='col'>{html.escape(c)}</th>" for c in head)
                + "</tr></thead><tbody>"
            )
            body += (
                "".join(
                    "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>"
                    for row in rows
                )
                + "</tbody></table>"
            )
            body += "".join(
                f"<p style='margin:.3em 0'>{html.escape(line)}</p>" for line in self.measured.lines
            )
        return (
            f"<div role='status' style='border-left:.3em solid {colour};padding:.2em"
            " .8em;line-height:1.5'><p style='margin:.3em"
            f" 0'><b>{html.escape(self._headline())}</b></p>{body}</div>"
        )


def _columns(text: str) -> int:
    """Columns of a terminal that `text` takes: a Han character or full-width mark takes two."""
    return sum(2 if "\u2e80" <= c <= "\u9fff" or "\uff00" <= c <= "\uff60" else 1 for c in text)
