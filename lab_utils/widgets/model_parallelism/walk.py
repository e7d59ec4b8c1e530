"""The first panel: one batch walks through the devices and back; what each has done so far."""

from __future__ import annotations

from collections.abc import Iterator

from ...estimate.time.pipeline import Span
from ...i18n import t
from ..frame.controls import Option, State
from ..frame.scene import Item, Scene, axis, circle, rect, text
from ..frame.units import nbytes, percent, seconds, time_ticks
from .costs import equal_sizes, held, one_batch

WIDTH, HEIGHT = 760, 410
_X, _LENGTH, _TOP, _AREA = 170, 560, 96, 256
_FILLS = {"F": "blue2", "B": "blue4"}


def moments(devices: int) -> list[Option]:
    """Before the step, and after each device's forward and backward."""
    words: list[Option] = [(0, ("before the step", "开始之前"))]
    for number, span in enumerate(_walk(devices), start=1):
        way = ("forward", "前向") if span.action.kind == "F" else ("backward", "反向")
        words.append((number, (f"{way[0]} on device {span.rank}", f"设备 {span.rank} 的{way[1]}")))
    return words


def _walk(devices: int) -> list[Span]:
    return sorted(one_batch(devices).spans, key=lambda span: span.start)


def scene(state: State, lang: str) -> Scene:
    """Figures, a lane for each device, and where the batch is."""
    devices, done = state["devices"], _walk(state["devices"])[: state["moment"]]
    now, whole = (done[-1].end if done else 0.0), one_batch(devices).seconds
    busy = sum(span.end - span.start for span in done)
    idle = 1 - busy / (devices * now) if now else None
    items = [
        *_figures(devices, now, idle, lang),
        *_lanes(devices, done, now, whole, lang),
        *axis("time", _X, _TOP + _AREA + 6, _LENGTH, time_ticks(whole)),
        text("note", 0, HEIGHT - 6, _note(lang), "soft", 12),
    ]
    return {"items": items, "alt": _summary(devices, now, idle, len(done), lang)}


def _figures(devices: int, now: float, idle: float | None, lang: str) -> Iterator[Item]:
    most = max(sum(terms.values()) for terms in held(equal_sizes(devices)))
    paid = devices * now
    figures = (
        (
            t("so far", "到目前为止", lang),
            seconds(now),
            t(f"paid: {seconds(paid)} of devices", f"付费：{seconds(paid)} 的设备时间", lang),
        ),
        (
            t("idle so far", "到目前为止闲置", lang),
            "–" if idle is None else percent(idle),
            t("of the time of all devices", "占所有设备的时间", lang),
        ),
        (
            t("the fullest device holds", "最满的设备持有", lang),
            nbytes(most),
            t("states and activations", "模型状态与激活值", lang),
        ),
    )
    for i, (name, value, detail) in enumerate(figures):
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, size=26, bold=True)
        yield text(f"figure-detail{i}", 256 * i, 66, detail, "soft", 12)


def _lanes(devices: int, done: list[Span], now: float, whole: float, lang: str) -> Iterator[Item]:
    pitch = _AREA / devices
    bar, scale = min(34.0, pitch - 6), _LENGTH / whole
    for device, layers in enumerate(equal_sizes(devices)):
        top = _TOP + device * pitch
        words = t(f"device {device}", f"设备 {device}", lang)
        detail = t(f"{layers} layers", f"{layers} 层", lang)
        yield text(f"device{device}", 0, top + bar / 2 + 5, words, bold=True)
        yield text(f"layers{device}", 84, top + bar / 2 + 5, detail, "soft", 12)
        yield rect(f"idle{device}", _X, top, now * scale, bar, "void", stroke="rule")
    for span in done:
        kind, top = span.action.kind, _TOP + span.rank * pitch
        width = (span.end - span.start) * scale
        yield rect(f"{kind}{span.rank}", _X + span.start * scale, top, width, bar, _FILLS[kind])
        words = t("forward", "前向", lang) if kind == "F" else t("backward", "反向", lang)
        if width > 58:
            yield text(
                f"{kind}{span.rank}-name",
                _X + span.start * scale + width / 2,
                top + bar / 2 + 5,
                words,
                f"on-{_FILLS[kind]}",
                12,
                "middle",
                **{"pointer-events": "none"},
            )
    at = done[-1].rank if done else 0
    yield circle("batch", _X - 16, _TOP + at * pitch + bar / 2, 8, "fire")


def _note(lang: str) -> str:
    return t(
        "Estimated: Llama 3 8B, one sequence of 8,192 tokens, bf16, H100s. The dot is the batch.",
        "估算：Llama 3 8B，一条 8,192 个词元的序列，bf16，H100。圆点就是那个批次。",
        lang,
    )


def _summary(devices: int, now: float, idle: float | None, done: int, lang: str) -> str:
    if idle is None:
        return t(
            f"{devices} devices: the batch waits before device 0.",
            f"{devices} 个设备：批次还在设备 0 之前。",
            lang,
        )
    return t(
        f"{devices} devices, {done} of {2 * devices} passes done in {seconds(now)}:"
        f" {percent(idle)} of all device time was idle.",
        f"{devices} 个设备，{2 * devices} 次计算完成了 {done} 次，用时 {seconds(now)}："
        f"全部设备时间的 {percent(idle)} 在闲置。",
        lang,
    )
