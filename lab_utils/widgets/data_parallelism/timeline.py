"""What a data-parallel step costs: compute and wire over time, and the efficiency for every N.
Every figure comes from estimate/; nothing is computed here but positions on the screen."""

from __future__ import annotations

from collections.abc import Iterator

from ...estimate.time import DataParallelStep
from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, axis, line, rect, text
from ..frame.units import nbytes, percent, seconds, time_ticks
from .costs import GPU, RANKS, efficiencies, latency_seconds, step_of

WIDTH, HEIGHT = 760, 418
_X, _LENGTH = 84, 648  # the time axis
_COMPUTE, _WIRE, _BAR, _AXIS = 106, 154, 34, 202
_CURVE = 296  # top of the bars that show the efficiency over N
# up to so many all-reduces, a line leads from where the gradients are ready to where they leave
_FEW = 16
_NARROW = 6  # all-reduces narrower than this are drawn as one


def scene(state: State, lang: str) -> Scene:
    """Figures, the two lines of the step (compute, wire), and the efficiency over N for the same
    settings."""
    step = step_of(state)
    items = [
        *_figures(step, state["ranks"], lang),
        *_lines(step, lang),
        *_curve(state, lang),
        _conditions(state["link"], lang),
    ]
    return {"items": items, "alt": _summary(step, state["ranks"], lang)}


def _figures(step: DataParallelStep, ranks: int, lang: str) -> Iterator[Item]:
    work = ranks * step.scaling_efficiency
    worth = f"{work:,.0f}" if work >= 100 else f"{work:.1f}" if work >= 1 else f"{work:.2f}"
    calls, compute, waiting, gradient = (
        len(step.buckets),
        seconds(step.compute_seconds),
        seconds(step.exposed_seconds),
        nbytes(step.payload_bytes),
    )
    sent = t(
        f"gradient of {gradient}, {calls} all-reduce{'s' * (calls > 1)}",
        f"梯度 {gradient}，{calls} 次 all-reduce",
        lang,
    )
    alone = t("one rank is the yardstick", "单个 rank 就是基准", lang)
    figures = (
        (
            t("step time", "每步耗时", lang),
            seconds(step.step_seconds),
            t(f"compute {compute} + waiting {waiting}", f"计算 {compute} + 等待 {waiting}", lang),
        ),
        (
            t("each rank sends, per step", "每个 rank 每步发送", lang),
            nbytes(step.wire_bytes),
            sent if ranks > 1 else t("nobody to send to", "没有发送对象", lang),
        ),
        (
            t("scaling efficiency", "扩展效率", lang),
            percent(step.scaling_efficiency),
            (
                t(
                    f"{ranks:,} ranks do the work of {worth}",
                    f"{ranks:,} 个 rank 相当于 {worth} 个",
                    lang,
                )
                if ranks > 1
                else alone
            ),
        ),
    )
    for i, (name, value, detail) in enumerate(figures):
        x = 256 * i
        yield text(f"figure-name{i}", x, 18, name, "soft")
        yield text(f"figure{i}", x, 46, value, size=26, bold=True)
        yield text(f"figure-detail{i}", x, 66, detail, "soft", 12)


def _lines(step: DataParallelStep, lang: str) -> Iterator[Item]:
    scale = _LENGTH / step.step_seconds
    backward_end = step.forward_seconds + step.backward_seconds
    update = backward_end + max(0.0, step.exposed_seconds)
    yield text("line-compute", 0, _COMPUTE + 22, t("compute", "计算", lang), bold=True)
    yield text("line-wire", 0, _WIRE + 22, t("wire", "通信", lang), bold=True)

    bars = (
        ("forward", 0.0, step.forward_seconds, "blue2", t("forward", "前向", lang)),
        ("backward", step.forward_seconds, backward_end, "blue4", t("backward", "反向", lang)),
        ("waiting", backward_end, update, "void", t("waiting", "等待", lang)),
        ("update", update, step.step_seconds, "blue5", t("update", "更新", lang)),
    )
    for key, start, end, fill, words in bars:
        if (end - start) * scale >= 0.05:
            yield rect(
                f"bar-{key}",
                _X + start * scale,
                _COMPUTE,
                (end - start) * scale,
                _BAR,
                fill,
                title=f"{words} {seconds(end - start)}",
            )
        if (end - start) * scale >= 60:
            ink = "fire" if key == "waiting" else f"on-{fill}"
            yield text(
                f"bar-name-{key}",
                _X + (start + end) / 2 * scale,
                _COMPUTE + 22,
                words,
                ink,
                13,
                "middle",
                **{"pointer-events": "none"},
            )

    for i, (start, end, calls) in enumerate(_merged(step, scale)):
        for part, a, b, fill in (
            ("hidden", start, min(end, backward_end), "sand"),
            ("exposed", max(start, backward_end), end, "fire"),
        ):
            if b > a:
                gap = 1.0 if (b - a) * scale > 3 and calls == 1 else 0.0
                yield rect(
                    f"{part}{i}",
                    _X + a * scale,
                    _WIRE,
                    (b - a) * scale - gap,
                    _BAR,
                    fill,
                    title=f"{calls} × all-reduce",
                )
    for i, bucket in enumerate(step.buckets if len(step.buckets) <= _FEW else ()):
        ready, start = _X + bucket.ready_seconds * scale, _X + bucket.start_seconds * scale
        yield line(f"ready{i}", ready, _COMPUTE + _BAR, start, _WIRE, "soft", 1.5)
    yield from axis("time", _X, _AXIS, _LENGTH, time_ticks(step.step_seconds))

    alone = _X + step.compute_seconds * scale
    side = "end" if alone > _X + _LENGTH / 2 else "start"
    yield line(
        "alone", alone, _COMPUTE - 14, alone, _AXIS, "ink", 1.5, **{"stroke-dasharray": "4 3"}
    )
    words = t("one rank alone would be done here", "单个 rank 独自计算，到此即完成", lang)
    yield text(
        "alone-name", alone + (-6 if side == "end" else 6), _COMPUTE - 6, words, "ink", 12, side
    )

    for x, fill, words in (
        (
            _X,
            "sand",
            t(
                f"hidden under the backward pass: {seconds(step.hidden_seconds)}",
                f"被反向传播掩盖：{seconds(step.hidden_seconds)}",
                lang,
            ),
        ),
        (
            _X + 290,
            "fire",
            t(
                f"exposed, the ranks wait: {seconds(step.exposed_seconds)}",
                f"暴露在外，rank 空等：{seconds(step.exposed_seconds)}",
                lang,
            ),
        ),
        (_X + 570, "blue5", t("update", "更新", lang)),
    ):
        yield rect(f"key-{fill}", x, _AXIS + 38, 13, 13, fill)
        yield text(f"key-name-{fill}", x + 20, _AXIS + 49, words, size=12)


def _merged(step: DataParallelStep, scale: float) -> Iterator[tuple[float, float, int]]:
    """(start, end, number) of the all-reduces, those that follow without a pause and are narrow on
    the screen joined."""
    start = end = 0.0
    calls = 0
    for bucket in step.buckets:
        joins = (
            calls
            and (bucket.start_seconds - end) * scale < 0.5
            and min(end - start, bucket.end_seconds - bucket.start_seconds) * scale < _NARROW
        )
        if calls and not joins:
            yield start, end, calls
        start, calls = (start, calls + 1) if joins else (bucket.start_seconds, 1)
        end = bucket.end_seconds
    if calls:
        yield start, end, calls


def _curve(state: State, lang: str) -> Iterator[Item]:
    """One bar for each N: the efficiency that the same settings reach there."""
    base, height, pitch = _CURVE + 66, 54, _LENGTH / len(RANKS)
    yield text("curve-name", 0, _CURVE + 30, t("efficiency", "扩展效率", lang), bold=True)
    yield text("curve-detail", 0, _CURVE + 48, t("for every N", "随 N 变化", lang), "soft", 12)
    reached = efficiencies(*(state[name] for name in ("model", "tokens", "sync", "link")))
    for i, (ranks, efficiency) in enumerate(zip(RANKS, reached, strict=True)):
        chosen, x = ranks == state["ranks"], _X + i * pitch
        top, middle, ink = (
            base - height * efficiency,
            x + (pitch - 40) / 2,
            "ink" if chosen else "soft",
        )
        yield rect(f"curve{ranks}", x, top, pitch - 40, base - top, "blue5" if chosen else "blue2")
        yield text(
            f"curve-value{ranks}",
            middle,
            top - 5,
            percent(efficiency),
            ink,
            12,
            "middle",
            bold=chosen,
        )
        yield text(
            f"curve-rank{ranks}",
            middle,
            base + 17,
            f"N = {ranks:,}",
            ink,
            12,
            "middle",
            bold=chosen,
        )


def _conditions(link: str, lang: str) -> Item:
    rate, latency = (
        f"{GPU.flops_per_second / 1e12:g} TFLOP/s",
        f"{1e6 * latency_seconds(link):g} µs",
    )
    words = t(
        f"Estimated: {GPU.name} at {rate} (achieved, not peak), fp32 gradients, ring or trees (the"
        f" faster), {latency} per message.",
        f"估算条件：{GPU.name}，算力 {rate}（实际可达，非峰值）；fp32"
        f" 梯度；环形与树形取较快者；每条消息延迟 {latency}。",
        lang,
    )
    return text("conditions", 0, HEIGHT - 6, words, "soft", 12)


def _summary(step: DataParallelStep, ranks: int, lang: str) -> str:
    if ranks == 1:
        return t(
            f"1 rank: a step takes {seconds(step.step_seconds)} and nothing is sent. This is"
            " 100 %.",
            f"1 个 rank：每步 {seconds(step.step_seconds)}，不发送任何数据，记为 100 %。",
            lang,
        )
    waits = step.exposed_seconds / step.step_seconds
    return t(
        f"{ranks:,} ranks: a step takes {seconds(step.step_seconds)}, of which the ranks wait"
        f" {seconds(step.exposed_seconds)} ({percent(waits)}) for the wire. Each sends"
        f" {nbytes(step.wire_bytes)}. Scaling efficiency {percent(step.scaling_efficiency)}.",
        f"{ranks:,} 个 rank：每步 {seconds(step.step_seconds)}，"
        f"其中 {seconds(step.exposed_seconds)}（占 {percent(waits)}）在空等通信；"
        f"每个 rank 发送 {nbytes(step.wire_bytes)}；扩展效率 {percent(step.scaling_efficiency)}。",
        lang,
    )
