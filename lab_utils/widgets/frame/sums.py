"""A panel for more states than a table can hold: its numbers are sums of products of small integer
tables.

Model states depend on some controls, saved activations on others. Each `Amount` is a table over the
controls that it depends on; a term's bytes are a sum of products of amounts, for each of a few
bars. The page looks the amounts up, adds them and draws the bars against a limit (sums.js);
`sums_scene.draw` draws the same in Python. Only sums that are true are to be formed so: bytes by
term add up to at most the peak's bound, peaks themselves do not add.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ...text import columns
from .controls import Control, Preset, State, Words, states
from .scene import Scene
from .table import compress, decompress, pooled

# one whole number for each bar, or a single one that holds for all of them
Row = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A table of whole numbers over some controls; `count` is asked once for each of their
    states."""

    controls: tuple[str, ...]
    count: Callable[[State], Row]

    def row(self, state: State) -> Row:
        """The numbers in one state; controls that are not the amount's are ignored."""
        return tuple(self.count({name: state[name] for name in self.controls}))


Product = tuple[Amount, ...]
Sum = tuple[Product, ...]


@dataclass(frozen=True, kw_only=True)
class Term:
    """One kind of bytes: a segment of every bar in the colour `fill`. `short` is its name where the
    full one has no room; `moment` the position of the only one of the panel's moments in which it
    exists, None: all of them."""

    name: str
    label: Words
    fill: str
    bytes: Sum
    short: Words | None = None
    moment: int | None = None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a state cannot be: `why` returns a sentence in the language, or None where nothing speaks
    against it."""

    controls: tuple[str, ...]
    why: Callable[[State, str], str | None]

    def lines(self, state: State, lang: str) -> tuple[str, ...] | None:
        """The sentence in lines that a panel has room for."""
        words = self.why({name: state[name] for name in self.controls}, lang)
        return words and tuple(wrapped(words, lang))


class Reading(NamedTuple):
    """What the tables say in one state. `refused`: the lines of a sentence. `bars`: of each bar
    that there is the index of its name, the moment in which it is longest, and its bytes by term in
    that moment. `filled`: so many of the terms are there yet."""

    refused: tuple[str, ...] | None
    bars: list[tuple[int, int, list[int]]]
    limit: int
    numbers: dict[str, int]
    measured: list[list[int | None]] | None
    filled: int

    @property
    def fullest(self) -> int:
        """Position in `bars` of the first of those with most bytes."""
        totals = [sum(held) for _, _, held in self.bars]
        return totals.index(max(totals))


@dataclass(frozen=True, kw_only=True)
class SumPanel:
    """Stacked bars of `terms` against `limit`, and in words what holds most and what has just
    grown.

    Terms that never exist at the same time belong to different `moments`; a bar shows its longest
    one. `bars` gives for each bar the index of its name in `bar_names`, -1 where there is no such
    bar. `numbers` are further values that the phrases may name. `records` are measured bytes by
    term and bar, for single states of `record_controls`; None where a term was not looked at.
    `phrases` are templates (see sums_scene.PHRASES for those that a panel may leave out).
    """

    name: str
    width: int
    height: int
    terms: tuple[Term, ...]
    limit: Amount
    bars: Amount
    bar_names: Sequence[Words]
    phrases: Mapping[str, Words]
    moments: Sequence[Words] = ("",)
    refusals: tuple[Refusal, ...] = ()
    numbers: Mapping[str, Sum] | None = None
    record_controls: tuple[str, ...] = ()
    records: Mapping[tuple[Any, ...], Sequence[Sequence[int | None]]] | None = None
    kept: Path | None = None  # a file of `keep`, for amounts that take long to tabulate
    presets: Sequence[Preset] = ()
    fill: str | None = None  # a control with values 1, 2, …: how many of the terms are there yet
    named: tuple[Control, ...] = ()  # those whose option the phrases may name, as {their name}

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """Every control that anything here depends on, each once."""
        parts: Iterable[Amount | Refusal] = (*self._amounts, *self.refusals)
        return tuple(
            dict.fromkeys(
                [
                    *(control.name for control in self.named),
                    *self.record_controls,
                    *([self.fill] if self.fill else []),
                    *(name for part in parts for name in part.controls),
                ]
            )
        )

    def reading(self, state: State, lang: str) -> Reading:
        """What the panel's amounts say in a state."""
        refused = next(
            (lines for refusal in self.refusals if (lines := refusal.lines(state, lang))), None
        )
        names = self.bars.row(state)
        filled = state[self.fill] if self.fill else len(self.terms)
        held = [
            _added(term.bytes, state, len(names)) if i < filled else [0] * len(names)
            for i, term in enumerate(self.terms)
        ]
        bars = [
            (name, *self._longest([bytes_of_term[i] for bytes_of_term in held]))
            for i, name in enumerate(names)
            if name >= 0
        ]
        numbers = {name: _added(parts, state, 1)[0] for name, parts in (self.numbers or {}).items()}
        measured = (self.records or {}).get(tuple(state[name] for name in self.record_controls))
        return Reading(
            refused,
            bars,
            self.limit.row(state)[0],
            numbers,
            measured and [list(bar) for bar in measured],
            filled,
        )

    def _longest(self, held: list[int]) -> tuple[int, list[int]]:
        """The first of the moments with most bytes, and what there is of every term then."""
        each = [
            [
                amount if term.moment in (None, moment) else 0
                for term, amount in zip(self.terms, held, strict=True)
            ]
            for moment in range(len(self.moments))
        ]
        longest = max(range(len(each)), key=lambda moment: sum(each[moment]))
        return longest, each[longest]

    def scene(self, state: State, lang: str, before: State | None = None) -> Scene:
        """The picture of a state; with `before`, what changed since that state is marked."""
        from .sums_scene import draw

        return draw(self, state, lang, before)

    def fits(self, state: State) -> bool:
        """Whether the state can be and its fullest bar stays below the limit."""
        return self.shortfall(state, "en") is None

    def shortfall(self, state: State, lang: str) -> str | None:
        """By how much the fullest bar is too long and what fills most of it, or why the state
        cannot be; None where it fits."""
        from .sums_scene import shortfall

        return shortfall(self, state, lang)

    def pack(self, controls: Mapping[str, Control], lang: str) -> dict[str, Any]:
        """All amounts, refusals and records as tables: what sums.js looks up. `controls` by
        name."""
        refusals = [
            pooled(
                refusal.controls,
                [
                    state and refusal.lines(state, lang)
                    for state in _over(controls, refusal.controls)
                ],
            )
            for refusal in self.refusals
        ]
        amounts = self._read(controls) or self._tabulated(controls)
        recorded = [controls[name] for name in self.record_controls]
        return {
            "amounts": amounts,
            "refusals": refusals,
            "records": {
                str(_place(recorded, key)): bars for key, bars in (self.records or {}).items()
            },
        }

    def keep(self, controls: Mapping[str, Control]) -> None:
        """Tabulate all amounts and write them to the file `kept`."""
        self.kept.write_text(
            json.dumps(compress(self._tabulated(controls))) + "\n", encoding="ascii"
        )

    def looked_up(self, controls: Mapping[str, Control]) -> SumPanel:
        """The same panel with its amounts read from the file `kept` instead of asked for; itself
        where there is no such file or it no longer holds."""
        tables = self._read(controls)
        if tables is None:
            return self
        kept = {
            id(amount): _from_table(table, amount.controls, controls)
            for table, amount in zip(tables, self._amounts, strict=True)
        }

        def swapped(parts: Sum) -> Sum:
            return tuple(tuple(kept[id(amount)] for amount in product) for product in parts)

        return replace(
            self,
            limit=kept[id(self.limit)],
            bars=kept[id(self.bars)],
            terms=tuple(replace(term, bytes=swapped(term.bytes)) for term in self.terms),
            numbers={name: swapped(parts) for name, parts in (self.numbers or {}).items()},
        )

    def _tabulated(self, controls: Mapping[str, Control]) -> list[dict[str, Any]]:
        return [
            pooled(
                amount.controls,
                [state and amount.row(state) for state in _over(controls, amount.controls)],
            )
            for amount in self._amounts
        ]

    def _read(self, controls: Mapping[str, Control]) -> list[dict[str, Any]] | None:
        """The tables of the file `kept`; None if there is none, or if a few probes say that it no
        longer holds."""
        if self.kept is None or not self.kept.exists():
            return None
        tables = decompress(json.loads(self.kept.read_text(encoding="ascii")))
        same = len(tables) == len(self._amounts) and all(
            self.agrees(table, amount, controls)
            for table, amount in zip(tables, self._amounts, strict=True)
        )
        return tables if same else None

    @staticmethod
    def agrees(
        table: Mapping[str, Any],
        amount: Amount,
        controls: Mapping[str, Control],
        probes: int = 3,
        first: int = 1,
    ) -> bool:
        """Whether a table is that of an amount, asked at a few of its states, evenly spread from
        the one numbered `first`."""
        every = _over(controls, amount.controls)
        if tuple(table["controls"]) != amount.controls or len(table["at"]) != len(every):
            return False
        places = range(first % len(every), len(every), max(1, len(every) // probes))
        return all(
            table["values"][table["at"][i]] == (every[i] and list(amount.row(every[i])))
            for i in places
        )

    def spec(self, lang: str) -> dict[str, Any]:
        """The same panel's structure and words: sums name amounts by their position in the
        table."""
        from .sums_scene import words_for

        at = {id(amount): i for i, amount in enumerate(self._amounts)}

        def sums(parts: Sum) -> list[list[int]]:
            return [[at[id(amount)] for amount in product] for product in parts]

        return {
            "terms": [
                {
                    "name": term.name,
                    "fill": term.fill,
                    "moment": term.moment,
                    "bytes": sums(term.bytes),
                }
                for term in self.terms
            ],
            "limit": at[id(self.limit)],
            "bars": at[id(self.bars)],
            "numbers": {name: sums(parts) for name, parts in (self.numbers or {}).items()},
            "named": [control.name for control in self.named],
            "recordControls": self.record_controls,
            "fill": self.fill,
            "words": words_for(self, lang),
        }

    @cached_property
    def _amounts(self) -> list[Amount]:
        sums = [*(term.bytes for term in self.terms), *(self.numbers or {}).values()]
        every = [
            self.limit,
            self.bars,
            *(amount for parts in sums for product in parts for amount in product),
        ]
        return list({id(amount): amount for amount in every}.values())


def wrapped(words: str, lang: str, most: int = 96) -> list[str]:
    """A sentence in lines of at most so many columns; Chinese breaks anywhere but before
    punctuation."""
    pieces = (
        re.findall(r"[!-~]+ ?|.[，。；：？！）]*", words)
        if lang == "zh"
        else re.findall(r"\S+ ?", words)
    )
    lines = [""]
    for piece in pieces:
        if columns(lines[-1] + piece.rstrip()) > most:
            lines.append("")
        lines[-1] += piece
    return lines


def _from_table(
    table: Mapping[str, Any], names: tuple[str, ...], controls: Mapping[str, Control]
) -> Amount:
    """An amount that is looked up in a table of `pack`."""
    every = [controls[name] for name in names]

    def count(state: State) -> Row:
        return table["values"][table["at"][_place(every, [state[name] for name in names])]]

    return Amount(controls=names, count=count)


def _over(controls: Mapping[str, Control], names: tuple[str, ...]) -> list[State | None]:
    return list(states([controls[name] for name in names]))


def _place(controls: Sequence[Control], values: Sequence[Any]) -> int:
    """Where a state stands among all states of these controls, as sums.js counts. Raises ValueError
    for a value that is no option."""
    place = 0
    for control, value in zip(controls, values, strict=True):
        place = place * control.size + [option for option, _ in control.options].index(value)
    return place


def _added(parts: Sum, state: State, bars: int) -> list[int]:
    total = [0] * bars
    for product in parts:
        each = [1] * bars
        for amount in product:
            row = amount.row(state)
            each = [x * row[i if len(row) > 1 else 0] for i, x in enumerate(each)]
        total = [a + b for a, b in zip(total, each, strict=True)]
    return total
