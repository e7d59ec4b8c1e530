"""Answers that are alike, listed without judgement: short exercises have few right solutions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from .one import Record

SHORTEST = 200  # characters: below that everything is alike


class Pair(NamedTuple):
    """Two students' answers to one exercise, alike to `percent`."""

    answer: str
    first: str
    second: str
    percent: float


def alike(records: Sequence[Record], least: float = 90.0, most_pairs: int = 50) -> list[Pair]:
    """Pairs of answers that are alike to `least` percent or more (rapidfuzz's normalised
    similarity by insertions and deletions), names and comments aside; the most alike first."""
    from rapidfuzz.fuzz import ratio

    found: list[Pair] = []
    by_answer: dict[str, dict[str, str]] = {}
    for record in records:
        for exercise in record["exercises"]:
            plain = nameless(exercise["source"])
            if len(plain) >= SHORTEST:
                by_answer.setdefault(exercise["answer"], {})[record["student"]] = plain
    for answer, sources in by_answer.items():
        for (first, a), (second, b) in combinations(sources.items(), 2):
            percent = ratio(a, b, score_cutoff=least)
            if percent >= least:
                found.append(Pair(answer, first, second, percent))
    return sorted(found, key=lambda pair: -pair.percent)[:most_pairs]


def nameless(source: str) -> str:
    """A program with its own names numbered in the order in which they come."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        for name in ("id", "arg"):
            if isinstance(getattr(node, name, None), str):
                numbered = numbers.setdefault(getattr(node, name), f"n{len(numbers)}")
                setattr(node, name, numbered)
    return ast.unparse(tree)
