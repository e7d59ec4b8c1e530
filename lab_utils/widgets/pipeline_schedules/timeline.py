"""The first panel: a schedule on the clock, rank by rank, with what each rank holds, and where one
was recorded, the same step on real ranks."""

from __future__ import annotations

from collections.abc import Iterator

from ...estimate.time.pipeline import Span, Timeline
from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, axis, rect, text
from ..frame.units import NO_BREAK, digits
from .costs import Played, played
from .recorded import UNIT_SECONDS, recorded

WIDTH, HEIGHT = 760, 470
_X, _LENGTH, _TOP = 62, 540, 96
_HELD_X, _HELD_LENGTH, _MOST = 640, 90, 16
_AREA = 300  # of all lanes
_FILLS = {"F": "blue2", "B": "blue4", "W": "sand"}


def scene(state: State, lang: str) -> Scene:
    """Figures, lanes, axis and key."""
    setting = state["schedule"], state["ranks"], state["micro"]
    found = played(*setting)
    if found is None:
        words = t(
            f"Interleaved sends micro-batches in groups of {state['ranks']}: {state['micro']} is no"
            " multiple of it.",
            f"interleaved 以 {state['ranks']} 个微批次为一组，而 {state['micro']} 不是它的倍数。",
            lang,
        )
        return {"items": [text("refused", 0, 46, words, "fire", 15, bold=True)], "alt": words}
    real = recorded(*setting)
    items = [
        *_figures(found, real, lang),
        *_lanes(found, real, lang),
        *_axis(found.timeline),
        *_key(found.timeline, real, lang),
    ]
    return {"items": items, "alt": _summary(state, found, real, lang)}


def share(part: float) -> str:
    """A bubble, to three digits: simulated and measured differ in the third."""
    return f"{digits(100 * part)}{NO_BREAK}%"


def _figures(found: Played, real: Timeline | None, lang: str) -> Iterator[Item]:
    timeline = found.timeline
    over_total = share(timeline.bubble_over_total)
    measured = (
        t("not recorded on real ranks", "没有真实 rank 的记录", lang)
        if real is None
        else t(
            f"measured on real ranks: {share(real.bubble_over_ideal)}",
            f"真实 rank 上实测：{share(real.bubble_over_ideal)}",
            lang,
        )
    )
    figures = (
        (
            t("bubble over ideal time", "气泡 ÷ 理想时间", lang),
            share(timeline.bubble_over_ideal),
            measured,
        ),
        (
            t("step", "一步", lang),
            f"{digits(timeline.seconds)}",
            t(f"units; bubble over this: {over_total}", f"个单位；气泡占其中 {over_total}", lang),
        ),
        (
            t("held at once, at most", "同时持有，最多", lang),
            f"{max(found.held):g}",
            t(
                f"micro-batch{'es' * (max(found.held) != 1)} on a rank",
                "个微批次（单个 rank）",
                lang,
            ),
        ),
    )
    for i, (name, value, detail) in enumerate(figures):
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, size=26, bold=True)
        yield text(f"figure-detail{i}", 256 * i, 66, detail, "soft", 12)


def _lanes(found: Played, real: Timeline | None, lang: str) -> Iterator[Item]:
    ranks = len(found.timeline.schedule)
    pitch = _AREA / ranks
    bar = min(56.0, pitch - 8)
    yield text("held-name", _HELD_X, _TOP - 10, t("held", "持有", lang), "soft", 12)
    scale = _LENGTH / found.timeline.seconds
    upper = bar * 0.66 if real else bar
    for rank in range(ranks):
        top = _TOP + rank * pitch
        yield text(f"rank{rank}", 0, top + bar / 2 + 5, f"rank {rank}", bold=True, size=13)
        yield rect(f"idle{rank}", _X, top, _LENGTH, bar, "void")
        held = found.held[rank]
        width = _HELD_LENGTH * held / _MOST
        yield rect(f"held{rank}", _HELD_X, top, width, bar, "blue3")
        yield text(f"held-number{rank}", _HELD_X + width + 6, top + bar / 2 + 5, f"{held:g}")
    for span in found.timeline.spans:
        top = _TOP + span.rank * pitch
        yield from _bar(span, _X + span.start * scale, top, scale, upper)
    for span in real.spans if real else ():
        # what real ranks took in its own scale: their unit is a sleep
        at = scale / UNIT_SECONDS
        start = min(_X + span.start * at, _X + _LENGTH)
        width = max(0.0, min((span.end - span.start) * at, _X + _LENGTH - start) - 0.4)
        kind, micro, stage = span.action
        yield rect(
            f"real-{kind}{micro}-{stage}",
            start,
            _TOP + span.rank * pitch + bar * 0.72,
            width,
            bar * 0.28,
            _FILLS[kind],
        )


def _bar(span: Span, x: float, top: float, scale: float, height: float) -> Iterator[Item]:
    kind, micro, stage = span.action
    width = (span.end - span.start) * scale
    fill = _FILLS[kind]
    gap = 0.8 if width > 4 else 0.3
    yield rect(
        f"{kind}{micro}-{stage}",
        x,
        top,
        width - gap,
        height,
        fill,
        title=f"{kind}{micro} · {stage}",
    )
    if width >= 13 and height >= 12:
        yield text(
            f"n-{kind}{micro}-{stage}",
            x + width / 2,
            top + height / 2 + 4,
            str(micro),
            f"on-{fill}",
            11,
            "middle",
            **{"pointer-events": "none"},
        )


def _axis(timeline: Timeline) -> Iterator[Item]:
    end = timeline.seconds
    step = next(s for s in (1, 2, 5, 10, 20) if end / s <= 12)
    ticks = [(at / end, str(at)) for at in range(0, int(end) + 1, step)]
    yield from axis("time", _X, _TOP + _AREA + 4, _LENGTH, ticks)


def _key(timeline: Timeline, real: Timeline | None, lang: str) -> Iterator[Item]:
    words = {
        "F": t("forward", "前向", lang),
        "B": t("backward", "反向", lang),
        "W": t("weight gradients", "权重梯度", lang),
        "idle": t("bubble", "气泡", lang),
    }
    present = {span.action.kind for span in timeline.spans}
    x = float(_X)
    for name, fill in (*_FILLS.items(), ("idle", "void")):
        if name != "idle" and name not in present:
            continue
        yield rect(f"key-{name}", x, _TOP + _AREA + 36, 13, 13, fill, stroke="rule")
        yield text(f"key-name-{name}", x + 19, _TOP + _AREA + 47, words[name], size=12)
        x += 34 + 8.0 * len(words[name]) * (1.7 if lang == "zh" else 1)
    note = (
        t("Thick bars: simulated. Thin bars: real ranks.", "粗条：模拟。细条：真实 rank。", lang)
        if real
        else t("Simulated.", "模拟结果。", lang)
    )
    unit = t(
        f"One unit: the forward of one micro-batch on one rank; a whole backward takes 2. {note}",
        f"一个单位：一个微批次在一个 rank 上的前向；完整的反向为 2。{note}",
        lang,
    )
    yield text("note", 0, HEIGHT - 6, unit, "soft", 12)


def _summary(state: State, found: Played, real: Timeline | None, lang: str) -> str:
    timeline, held = found.timeline, max(found.held)
    name, ranks, micro = state["schedule"], state["ranks"], state["micro"]
    bubble, measured = (
        share(timeline.bubble_over_ideal),
        (share(real.bubble_over_ideal) if real else ""),
    )
    words = t(
        f"{name}, {ranks} ranks, m = {micro}: a step takes"
        f" {digits(timeline.seconds)} units, the bubble is {bubble} of the ideal time, and a rank"
        f" holds at most {held:g} micro-batch{'es' * (held != 1)}.",
        f"{name}，{ranks} 个 rank，{micro} 个微批次：一步 {digits(timeline.seconds)} 个单位，"
        f"气泡为理想时间的 {bubble}，单个 rank 最多持有 {held:g} 个微批次。",
        lang,
    )
    return words + (
        t(f" Measured on real ranks: {measured}.", f"真实 rank 上实测：{measured}。", lang)
        if real
        else ""
    )
