"""The first panel: two optimizers' recorded runs against each other, or the ends of all over the
bytes that they keep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, line, path, text
from ..frame.units import nbytes
from .costs import RANKS, bytes_of, most_sent
from .recorded import BASE, BIN, NAMES, RATES, SEEDS, about, best_rate, race, runs, unseen

WIDTH, HEIGHT = 760, 420
BEST = "best"
_LEFT, _RIGHT, _TOP, _FLOOR = 64, 640, 92, 350
_LOW, _HIGH = 1.8, 4.2  # nats
_INKS = {"a": "blue4", "b": "fire"}
_TOKENS = BASE["global_batch"] * BASE["seq"]  # of a step


def rate_of(optimizer: str, choice: int | str) -> float:
    """The learning rate of a choice: the number of a rate, or BEST."""
    return best_rate(optimizer) if choice == BEST else RATES[optimizer][choice]


def ends(optimizer: str, choice: int | str) -> list[float | None]:
    """Loss on held-out text, by seed."""
    return unseen(race(optimizer, rate_of(optimizer, choice)))


def lower_in(state: State) -> tuple[int, int]:
    """(seeds in which `a` ends lower than `b`, in which `b` does); no number is never lower."""
    pairs = list(zip(ends(state["a"], state["rate"]), ends(state["b"], state["rate"]), strict=True))
    first = sum(a is not None and (b is None or a < b) for a, b in pairs)
    second = sum(b is not None and (a is None or b < a) for a, b in pairs)
    return first, second


def scene(state: State, lang: str) -> Scene:
    """Curves over steps, tokens or bytes sent; or a dot for each optimizer over bytes kept."""
    kept = state["axis"] == "kept"
    items = [*_frame(state["axis"], lang)]
    items += _dots(state, lang) if kept else _curves(state)
    both = dict.fromkeys((state["a"], state["b"]))
    for row, name in enumerate(both):
        items += _key("ab"[row], name, state["rate"], row, lang)
    verdict = _verdict(state, lang)
    items.append(text("verdict", 0, 66, verdict, "ink", 14, bold=True))
    marks = (
        t(
            "dots: held-out text, mean of three seeds; bars: lowest to highest",
            "点：留出文本上的损失，三个种子的平均；竖条：最低到最高",
            lang,
        )
        if kept
        else t(
            f"lines: training loss, {BIN} steps a point, three seeds; bars: held-out text",
            f"线：训练损失，每 {BIN} 步一点，三个种子；竖条：留出文本上的损失",
            lang,
        )
    )
    what = t(
        f"A real GPT of 132,544 parameters; {marks}. {about()}.",
        f"13 万参数的真实 GPT；{marks}。{about()}。",
        lang,
    )
    items.append(text("note", 0, HEIGHT - 6, what, "soft", 11))
    return {"items": items, "alt": verdict}


def _y(loss: float) -> float:
    share = (min(max(loss, _LOW), _HIGH) - _LOW) / (_HIGH - _LOW)
    return _FLOOR - share * (_FLOOR - _TOP)


def _frame(axis: str, lang: str) -> Iterator[Item]:
    yield text("y-name", 0, _TOP - 8, t("loss", "损失", lang), "soft", 12)
    for tenths in range(18, 43, 4):
        y = _y(tenths / 10)
        yield line(f"grid{tenths}", _LEFT, y, _RIGHT, y)
        yield text(f"tick{tenths}", _LEFT - 8, y + 4, f"{tenths / 10:.1f}", "soft", 12, "end")
    names = {
        "steps": t("steps", "步数", lang),
        "tokens": t("tokens", "词元", lang),
        "sent": t(
            f"bytes that a rank has sent ({RANKS} ranks, ZeRO-1)",
            f"一个 rank 已发送的字节数（{RANKS} 个 rank，ZeRO-1）",
            lang,
        ),
        "kept": t(
            f"optimizer states of the fullest of {RANKS} ranks (ZeRO-1)",
            f"{RANKS} 个 rank 中最满的一个所存的优化器状态（ZeRO-1）",
            lang,
        ),
    }
    yield text("x-name", _RIGHT, _FLOOR + 42, names[axis], "soft", 12, "end")
    for i, (x, words) in enumerate(_ticks(axis)):
        yield line(f"x-tick{i}", x, _FLOOR, x, _FLOOR + 4)
        yield text(f"x-number{i}", x, _FLOOR + 20, words, "soft", 12, "middle")


def _end(axis: str) -> float:
    """The right edge, in the axis' unit."""
    steps = BASE["steps"]
    return steps * {"steps": 1, "tokens": _TOKENS, "sent": most_sent()}[axis]


def _ticks(axis: str) -> list[tuple[float, str]]:
    if axis == "kept":
        return [(_kept_x(size), nbytes(size)) for size in (1e4, 3e4, 1e5)]
    unit = {"steps": 50, "tokens": 25_000, "sent": 50_000_000}[axis]
    many = int(_end(axis) / unit)
    words = nbytes if axis == "sent" else lambda v: f"{v:,.0f}"
    return [
        (_LEFT + (_RIGHT - _LEFT) * i * unit / _end(axis), words(i * unit)) for i in range(many + 1)
    ]


def _kept_x(size: float) -> float:
    low, high = math.log(7e3), math.log(1.7e5)
    return _LEFT + (_RIGHT - _LEFT) * (math.log(size) - low) / (high - low)


def _curves(state: State) -> Iterator[Item]:
    axis = state["axis"]
    for side in "ab" if state["a"] != state["b"] else "a":
        name = state[side]
        per_step = {"steps": 1, "tokens": _TOKENS, "sent": bytes_of(name).sent}[axis]
        scale = (_RIGHT - _LEFT) / _end(axis) * per_step
        row = race(name, rate_of(name, state["rate"]))
        for seed, run in zip(SEEDS, runs(row), strict=True):
            points = [(_LEFT + (i + 0.5) * BIN * scale, v) for i, v in enumerate(run["loss"])]
            d = _path(points)
            if d:
                yield path(f"curve-{side}{seed}", d, _INKS[side], width=1.5)
        last = _LEFT + BASE["steps"] * scale + (6 if side == "a" else 12)
        yield from _bar(f"end-{side}", last, unseen(row), _INKS[side])


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    good = [(x, v) for x, v in points if v is not None and v <= _HIGH]
    d = "".join(f"L{x:.0f} {_y(v):.1f}" for x, v in good)
    return d.replace("L", "M", 1) if len(good) > 1 else ""


def _bar(key: str, x: float, losses: Sequence[float | None], ink: str) -> Iterator[Item]:
    """From the least to the most of the seeds; nothing where one is no number."""
    if None in losses:
        return
    low, high = _y(min(losses)), _y(max(losses))
    yield line(key, x, max(low, high + 3), x, high, ink, 4)


def _dots(state: State, lang: str) -> Iterator[Item]:
    found = {name: ends(name, state["rate"]) for name in RATES}
    whole = {name: losses for name, losses in found.items() if None not in losses}
    placed: list[tuple[float, float]] = []
    # from below, so that a name that has to make way stands above
    for name, losses in sorted(whole.items(), key=lambda one: fmean(one[1])):
        x, y = _kept_x(bytes_of(name).states), _y(fmean(losses))
        ink = _INKS["a"] if name == state["a"] else _INKS["b"] if name == state["b"] else "soft"
        yield from _bar(f"spread-{name}", x, losses, ink)
        yield circle(f"dot-{name}", x, y, 3, ink, title=f"{NAMES[name]}: {_spread(losses, lang)}")
        label = y
        while any(abs(label - other) < 15 and abs(x - at) < 90 for at, other in placed):
            label -= 5
        placed.append((x, label))
        yield text(f"dot-name-{name}", x + 10, label + 4, NAMES[name], ink, 12)


def _key(side: str, name: str, choice: int | str, row: int, lang: str) -> Iterator[Item]:
    rate, here = rate_of(name, choice), bytes_of(name)
    y = 16 + 22 * row
    yield circle(f"key-{side}", 8, y - 5, 6, _INKS[side])
    words = t(
        f"{NAMES[name]}, rate {rate:g}: {_spread(ends(name, choice), lang)} on held-out text;"
        f" {here.each:.2g} B of states per parameter of Llama 3 8B",
        f"{NAMES[name]}，学习率 {rate:g}：留出文本 {_spread(ends(name, choice), lang)}；"
        f"Llama 3 8B 每个参数的状态 {here.each:.2g} 字节",
        lang,
    )
    yield text(f"key-words-{side}", 22, y, words)


def _spread(losses: Sequence[float | None], lang: str) -> str:
    good = [v for v in losses if v is not None]
    failed = len(losses) - len(good)
    if not good:
        return t("destroyed", "训练毁了", lang)
    words = f"{min(good):.2f} – {max(good):.2f}"
    return words + (t(f", {failed} destroyed", f"，{failed} 次毁了", lang) if failed else "")


def _verdict(state: State, lang: str) -> str:
    a, b = state["a"], state["b"]
    if a == b:
        return t(f"{NAMES[a]} alone.", f"只有 {NAMES[a]}。", lang)
    first, second = lower_in(state)
    pairs = zip(ends(a, state["rate"]), ends(b, state["rate"]), strict=True)
    gaps = [abs(x - y) for x, y in pairs if x is not None and y is not None]
    if len(SEEDS) in (first, second):
        ahead, behind = (NAMES[a], NAMES[b]) if first > second else (NAMES[b], NAMES[a])
        if not gaps:
            return t(
                f"{behind} is destroyed in all {len(SEEDS)} seeds, {ahead} in none.",
                f"{len(SEEDS)} 个种子里，{behind} 全部毁了，{ahead} 一个也没有。",
                lang,
            )
        by = f"{min(gaps):.2f} – {max(gaps):.2f}"
        return t(
            f"{ahead} ends lower than {behind} in all {len(SEEDS)} seeds, by {by}.",
            f"{len(SEEDS)} 个种子里 {ahead} 都低于 {behind}，低 {by}。",
            lang,
        )
    return t(
        f"Undecided: {NAMES[a]} ends lower in {first} of {len(SEEDS)} seeds, {NAMES[b]} in"
        f" {second}.",
        f"不分胜负：{len(SEEDS)} 个种子里，{NAMES[a]} 在 {first} 个上更低，"
        f"{NAMES[b]} 在 {second} 个上更低。",
        lang,
    )
