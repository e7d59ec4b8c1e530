"""The 3D planner's words: parts of a step, layouts, long sentences in lines; and the estimator's
own sentences in the tool's language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unicodedata import east_asian_width

from ... import i18n
from ...config import TrainConfig
from ...i18n import t
from ..frame.units import digits, percent
from ..frame.words import RECOMPUTE

FILL = dict(compute="blue4", bubble="stone", tp="fire", pp="plum", dp="sand", optimizer="leaf")


def part_words(part: str, lang: str) -> str:
    """One of a step's parts for a reader."""
    words = {
        "compute": ("computing", "计算"),
        "bubble": ("bubble", "气泡"),
        "tp": ("waits for tp", "等待 tp"),
        "pp": ("waits for pp", "等待 pp"),
        "dp": ("waits for dp", "等待 dp"),
        "optimizer": ("optimizer", "优化器"),
    }[part]
    return t(*words, lang)


def layout_words(config: TrainConfig, lang: str) -> str:
    """A layout in a line."""
    p, policy = config.parallel, RECOMPUTE[config.recompute]
    policy = policy if isinstance(policy, str) else t(*policy, lang)
    again = t(f"recomputes {policy}", f"重计算：{policy}", lang)
    if config.recompute == "none":
        again = t("recomputes nothing", "不重计算", lang)
    return f"tp {p.tp} · pp {p.pp} · dp {p.dp} · ZeRO-{p.zero} · {again}"


def late_words(late: float, lang: str) -> str:
    """So much slower, or faster where it is negative; from twice as long on, so many times."""
    if late < 0:
        return t(f"{percent(-late)} faster", f"快 {percent(-late)}", lang)
    if late >= 1:
        return t(f"{digits(1 + late, 2)} × as long", f"耗时是 {digits(1 + late, 2)} 倍", lang)
    return t(f"{percent(late)} slower", f"慢 {percent(late)}", lang)


def beside_the_planner(late: float, lang: str) -> str:
    """The same, against the planner's layout."""
    told = late_words(late, "en")
    if late >= 1:
        times = digits(1 + late, 2)
        return t(f"{told} as the planner's", f"耗时是规划器的 {times} 倍", lang)
    return t(f"{told} than the planner's", f"比规划器的{late_words(late, 'zh')}", lang)


def lines(words: str, columns: int) -> list[str]:
    """A sentence in lines of so many columns; a Han character takes two and may end a line."""
    done, now, width = [], "", 0
    for piece in _pieces(words):
        wide = sum(2 if east_asian_width(c) in "WF" else 1 for c in piece)
        if now and width + wide > columns and piece not in "，。：；、）":
            done.append(now.rstrip())
            now, width = "", 0
            piece = piece.lstrip()
        now, width = now + piece, width + wide
    return [*done, now]


def _pieces(words: str) -> Iterator[str]:
    """What may not be parted: words with the space before them, single Han characters."""
    piece = ""
    for c in words:
        if east_asian_width(c) in "WF":
            yield from (piece, c) if piece else (c,)
            piece = ""
        elif c == " ":
            if piece:
                yield piece
            piece = c
        else:
            piece += c
    if piece:
        yield piece


@contextmanager
def speaking(lang: str) -> Iterator[None]:
    """What is said within, is said in this language."""
    before = i18n._chosen
    i18n.set_language(lang)
    try:
        yield
    finally:
        i18n._chosen = before
