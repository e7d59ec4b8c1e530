"""What every choice of layers saves and costs: one dot for each, bytes against extra work, the
chosen one marked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, line, path, text
from ..frame.units import NO_BREAK, nbytes, percent
from .challenge import LIMITS
from .costs import LAYERS, curve, extra_work, policies, recomputed
from .measured import measured
from .walk import policy_of, policy_words

WIDTH, HEIGHT = 760, 288
_X, _WIDTH, _BASE, _HEIGHT = 96, 640, 222, 196
_MOST_WORK, _MOST_BYTES = 0.36, 170e6
# the chosen dot's radius; at 0 % it stands on the axis
_CHOSEN = 8


def scene(state: State, lang: str) -> Scene:
    """All choices as dots; the chosen one large, its neighbours in cost to compare with."""
    policy = policy_of(state)
    chosen = [
        circle(
            "chosen", _x(policy), _y(curve(policy).peak), _CHOSEN, "fire", title=_tip(policy, lang)
        )
    ]
    return {"items": [*_ground(lang), *chosen], "alt": _summary(policy, lang)}


def _x(policy: str) -> float:
    return _X + extra_work(policy) / _MOST_WORK * _WIDTH


def _y(peak: float) -> float:
    return _BASE - peak / _MOST_BYTES * _HEIGHT


def _tip(policy: str, lang: str) -> str:
    return (
        policy_words(policy, lang)
        + t(": ", "：", lang)
        + f"{nbytes(curve(policy).peak)}{t(', +', '，+', lang)}{percent(extra_work(policy))}"
    )


@cache
def _ground(lang: str) -> tuple[Item, ...]:
    return *_axes(lang), *_dots(lang), *_key(lang)


def _axes(lang: str) -> Iterator[Item]:
    yield text(
        "saved", 0, 14, t("↑ saved at once, at most", "↑ 同时保存的激活值，最多", lang), "soft", 12
    )
    for megabytes in (0, 50, 100, 150):
        y = _y(megabytes * 1e6)
        yield line(f"grid{megabytes}", _X, y, _X + _WIDTH, y)
        yield text(
            f"grid-name{megabytes}",
            _X - _CHOSEN - 6,
            y + 4,
            f"{megabytes}{NO_BREAK}MB",
            "soft",
            12,
            "end",
        )
    for share in (0, 10, 20, 30):
        yield text(
            f"work{share}",
            _X + share / 100 / _MOST_WORK * _WIDTH,
            _BASE + 20,
            f"{'+' * (share > 0)}{share}{NO_BREAK}%",
            "soft",
            12,
            "middle",
        )
    yield text(
        "work", _X + _WIDTH, _BASE + 20, t("extra work →", "额外计算 →", lang), "soft", 12, "end"
    )
    yield from _limits()


def _limits() -> Iterator[Item]:
    """What each step of the challenge allows: no more bytes, no more work."""
    for number, (most_bytes, most_work) in enumerate(LIMITS, 1):
        y, x = _y(most_bytes), _X + most_work * _WIDTH / _MOST_WORK
        dashes = {"stroke-dasharray": "5 3"}
        yield path(f"limit{number}", f"M{_X} {y:.1f}H{x:.1f}V{_BASE}", "fire", width=1.5, **dashes)
        yield text(f"limit-name{number}", _X + 6, y + 14, str(number), "fire", 12, bold=True)


def _dots(lang: str) -> Iterator[Item]:
    # what was measured lies on top
    for policy in sorted(policies(), key=lambda policy: measured(policy) is not None):
        fill = "blue2" if LAYERS - 1 in recomputed(policy) else "blue4"
        ring = {"stroke": "ink", "stroke-width": 2} if measured(policy) else {}
        yield circle(
            f"dot-{policy}",
            _x(policy),
            _y(curve(policy).peak),
            5,
            fill,
            title=_tip(policy, lang),
            **ring,
        )


def _key(lang: str) -> Iterator[Item]:
    words = (
        (t("your choice", "当前选择", lang), "fire", {}),
        (t("other choices", "其他选择", lang), "blue4", {}),
        (t(f"block {LAYERS - 1} recomputed", f"重计算第 {LAYERS - 1} 层", lang), "blue2", {}),
        (t("measured too", "已实测", lang), "paper", {"stroke": "ink", "stroke-width": 2}),
    )
    for i, (x, (name, fill, ring)) in enumerate(zip((8, 130, 260, 440), words, strict=True)):
        yield circle(f"key{i}", x, HEIGHT - 14, 5, fill, **ring)
        yield text(f"key-name{i}", x + 12, HEIGHT - 10, name, size=12)
    dashes = {"stroke-dasharray": "5 3"}
    yield line("key-limit", 600, HEIGHT - 14, 622, HEIGHT - 14, "fire", 1.5, **dashes)
    limits = t(f"limits of steps 1–{len(LIMITS)}", f"第 1–{len(LIMITS)} 关的上限", lang)
    yield text("key-limits", 628, HEIGHT - 10, limits, size=12)


def _summary(policy: str, lang: str) -> str:
    peak = curve(policy).peak
    cheaper = sum(
        extra_work(other) <= extra_work(policy) and curve(other).peak < peak for other in policies()
    )
    choices = "1 other choice saves" if cheaper == 1 else f"{cheaper or 'no'} other choices save"
    better = t(
        f"{choices} less for no more work",
        f"另有 {cheaper} 种选择以不多于此的计算量保存得更少"
        if cheaper
        else "没有其他选择能以不多于此的计算量保存得更少",
        lang,
    )
    extra = f"+{percent(extra_work(policy))}" if extra_work(policy) else percent(0)
    return t(
        f"At most {nbytes(peak)} saved for {extra} of work; {better}.",
        f"最多保存 {nbytes(peak)}，额外计算 {extra}；{better}。",
        lang,
    )
