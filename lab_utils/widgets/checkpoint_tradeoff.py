"""What every choice of layers saves and costs: one dot for each, bytes against extra work, the chosen one marked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..i18n import t
from .checkpoint_costs import LAYERS, curve, extra_work, policies, recomputed
from .checkpoint_measured import measured
from .checkpoint_walk import policy_of, policy_words
from .controls import State
from .scene import Item, Scene, circle, line, text
from .units import NO_BREAK, nbytes, percent

WIDTH, HEIGHT = 760, 288
LIMIT_BYTES = 90 * 10**6                        # what the challenge allows
_X, _WIDTH, _BASE, _HEIGHT = 96, 640, 222, 196
_MOST_WORK, _MOST_BYTES = 0.36, 170e6
_CHOSEN = 8                                     # the chosen dot's radius; at 0 % it stands on the axis


def scene(state: State, lang: str) -> Scene:
    """All choices as dots; the chosen one large, its neighbours in cost to compare with."""
    policy = policy_of(state)
    chosen = [circle("chosen", _x(policy), _y(curve(policy).peak), _CHOSEN, "fire", title=_tip(policy, lang))]
    return {"items": [*_ground(lang), *chosen], "alt": _summary(policy, lang)}


def _x(policy: str) -> float:
    return _X + extra_work(policy) / _MOST_WORK * _WIDTH


def _y(peak: float) -> float:
    return _BASE - peak / _MOST_BYTES * _HEIGHT


def _tip(policy: str, lang: str) -> str:
    return policy_words(policy, lang) + t(": ", "：", lang) + f"{nbytes(curve(policy).peak)}{t(', +', '，+', lang)}{percent(extra_work(policy))}"


@cache
def _ground(lang: str) -> tuple[Item, ...]:
    return *_axes(lang), *_dots(lang), *_key(lang)


def _axes(lang: str) -> Iterator[Item]:
    yield text("saved", 0, 14, t("↑ saved at once, at most", "↑ 同时保存的激活值，最多", lang), "soft", 12)
    for megabytes in (0, 50, 100, 150):
        y = _y(megabytes * 1e6)
        yield line(f"grid{megabytes}", _X, y, _X + _WIDTH, y)
        yield text(f"grid-name{megabytes}", _X - _CHOSEN - 6, y + 4, f"{megabytes}{NO_BREAK}MB", "soft", 12, "end")
    for share in (0, 10, 20, 30):
        yield text(f"work{share}", _X + share / 100 / _MOST_WORK * _WIDTH, _BASE + 20, f"{'+' * (share > 0)}{share}{NO_BREAK}%", "soft", 12, "middle")
    yield text("work", _X + _WIDTH, _BASE + 20, t("extra work →", "额外计算 →", lang), "soft", 12, "end")
    yield line("limit", _X, _y(LIMIT_BYTES), _X + _WIDTH, _y(LIMIT_BYTES), "fire", 2, **{"stroke-dasharray": "5 3"})
    yield text("limit-name", _X + _WIDTH, _y(LIMIT_BYTES) - 6, nbytes(LIMIT_BYTES).replace("90.0", "90"), "fire", 12, "end", bold=True)


def _dots(lang: str) -> Iterator[Item]:
    for policy in sorted(policies(), key=lambda policy: measured(policy) is not None):        # what was measured lies on top
        fill = "blue2" if LAYERS - 1 in recomputed(policy) else "blue4"
        ring = {"stroke": "ink", "stroke-width": 2} if measured(policy) else {}
        yield circle(f"dot-{policy}", _x(policy), _y(curve(policy).peak), 5, fill, title=_tip(policy, lang), **ring)


def _key(lang: str) -> Iterator[Item]:
    words = ((t("your choice", "当前选择", lang), "fire", {}), (t("other choices", "其他选择", lang), "blue4", {}),
             (t(f"block {LAYERS - 1} among them", f"含第 {LAYERS - 1} 层", lang), "blue2", {}),
             (t("measured too", "已实测", lang), "paper", {"stroke": "ink", "stroke-width": 2}))  # fmt: skip
    for i, (name, fill, ring) in enumerate(words):
        yield circle(f"key{i}", 8 + 186 * i, HEIGHT - 14, 5, fill, **ring)
        yield text(f"key-name{i}", 20 + 186 * i, HEIGHT - 10, name, size=12)


def _summary(policy: str, lang: str) -> str:
    peak, fits = curve(policy).peak, curve(policy).peak <= LIMIT_BYTES
    cheaper = sum(extra_work(other) <= extra_work(policy) and curve(other).peak < peak for other in policies())
    verdict = t("below the limit of 90 MB", "低于 90 MB 的上限", lang) if fits else t("above the limit of 90 MB", "高于 90 MB 的上限", lang)
    better = t(f"{cheaper} other choices save less for no more work", f"另有 {cheaper} 种选择以不多于此的计算量保存得更少", lang) if cheaper else \
        t("no other choice saves less for no more work", "没有其他选择能以不多于此的计算量保存得更少", lang)  # fmt: skip
    extra = f"+{percent(extra_work(policy))}" if extra_work(policy) else percent(0)
    return t(f"At most {nbytes(peak)} saved for {extra} of work, {verdict}; {better}.",
             f"最多保存 {nbytes(peak)}，额外计算 {extra}，{verdict}；{better}。", lang).replace("90 MB", f"90{NO_BREAK}MB")  # fmt: skip
