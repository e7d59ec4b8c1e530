"""The second panel: the same model on four devices, boundaries moved by hand; bytes and seconds of
each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, line, rect, text
from ..frame.units import nbytes, seconds
from .costs import TERMS, device_seconds, held, times

WIDTH, HEIGHT = 760, 372
_X, _BYTES, _SECONDS_X, _SECONDS_LENGTH = 150, 270, 540, 150
_TOP, _PITCH, _BAR = 112, 52, 34
_MOST_BYTES, _MOST_SECONDS = 70e9, 0.4
LIMIT_BYTES = 48e9
_FILLS = dict(zip(TERMS, ("blue2", "blue3", "blue4", "sand"), strict=True))


def sizes_of(state: State) -> list[int]:
    """Layers of each device."""
    ends = (0, *(state[f"cut{i}"] for i in (1, 2, 3)), times().layers)
    return [b - a for a, b in zip(ends, ends[1:], strict=False)]


def totals(sizes: Sequence[int]) -> tuple[list[int], list[float]]:
    """Bytes and seconds of each device."""
    return [sum(one.values()) for one in held(sizes)], [sum(s) for s in device_seconds(sizes)]


def scene(state: State, lang: str) -> Scene:
    """Figures, then a bar of bytes and one of seconds for each device."""
    sizes = sizes_of(state)
    nbytes_held, took = totals(sizes)
    items = [
        *_figures(nbytes_held, took, lang),
        *_bars(sizes, nbytes_held, took, lang),
        *_key(lang),
    ]
    words = " + ".join(map(str, sizes))
    alt = t(
        f"{words} layers: the fullest device holds {nbytes(max(nbytes_held))}, the slowest takes"
        f" {seconds(max(took))} for a batch.",
        f"{words} 层：最满的设备持有 {nbytes(max(nbytes_held))}，"
        f"最慢的设备处理一个批次要 {seconds(max(took))}。",
        lang,
    )
    return {"items": items, "alt": alt}


def _figures(nbytes_held: list[int], took: list[float], lang: str) -> Iterator[Item]:
    most, least = max(nbytes_held), min(nbytes_held)
    fits = most <= LIMIT_BYTES
    figures = (
        (
            t("fullest device", "最满的设备", lang),
            nbytes(most),
            t(f"emptiest {nbytes(least)}", f"最空的 {nbytes(least)}", lang),
        ),
        (
            t("slowest device", "最慢的设备", lang),
            seconds(max(took)),
            t(f"fastest {seconds(min(took))}", f"最快的 {seconds(min(took))}", lang),
        ),
        (
            t("one batch, all devices", "一个批次，所有设备", lang),
            seconds(sum(took)),
            t("the same, wherever you cut", "切在哪里都一样", lang),
        ),
    )
    for i, (name, value, detail) in enumerate(figures):
        ink = "fire" if i == 0 and not fits else "ink"
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, ink, 26, bold=True)
        yield text(f"figure-detail{i}", 256 * i, 66, detail, "soft", 12)


def _bars(sizes: list[int], nbytes_held: list[int], took: list[float], lang: str) -> Iterator[Item]:
    yield text("bytes-name", _X, _TOP - 12, t("held", "持有", lang), "soft", 12)
    words = t("seconds for a batch", "一个批次用时", lang)
    yield text("seconds-name", _SECONDS_X, _TOP - 12, words, "soft", 12)
    for device, (layers, terms) in enumerate(zip(sizes, held(sizes), strict=True)):
        top, x = _TOP + device * _PITCH, float(_X)
        ends = {0: t(" + embedding", " + 词嵌入", lang), 3: t(" + head", " + 输出头", lang)}
        name = t(f"{layers} layers", f"{layers} 层", lang) + ends.get(device, "")
        yield text(
            f"device{device}", 0, top + 14, t(f"device {device}", f"设备 {device}", lang), bold=True
        )
        yield text(f"layers{device}", 0, top + 31, name, "soft", 12)
        for term in TERMS:
            width = _BYTES * terms[term] / _MOST_BYTES
            yield rect(f"{term}{device}", x, top, width, _BAR, _FILLS[term])
            x += width
        yield text(f"bytes{device}", _X + _BYTES + 8, top + 22, nbytes(nbytes_held[device]))
        width = _SECONDS_LENGTH * took[device] / _MOST_SECONDS
        yield rect(f"seconds{device}", _SECONDS_X, top, width, _BAR, "blue5")
        yield text(f"took{device}", _SECONDS_X + width + 6, top + 22, seconds(took[device]))
    limit = _X + _BYTES * LIMIT_BYTES / _MOST_BYTES
    end = _TOP + 4 * _PITCH - 12
    yield line("limit", limit, _TOP - 6, limit, end, "fire", 1.5, **{"stroke-dasharray": "4 3"})
    yield text("limit-name", limit, end + 15, nbytes(LIMIT_BYTES), "fire", 12, "middle")


def _key(lang: str) -> Iterator[Item]:
    names = {
        "parameters": t("parameters", "参数", lang),
        "gradients": t("gradients", "梯度", lang),
        "optimizer": t("optimizer states", "优化器状态", lang),
        "activations": t("activations", "激活值", lang),
    }
    x = 0.0
    for term, words in names.items():
        yield rect(f"key-{term}", x, HEIGHT - 40, 13, 13, _FILLS[term])
        yield text(f"key-name-{term}", x + 19, HEIGHT - 29, words, size=12)
        x += 40 + 8 * len(words) * (1.7 if lang == "zh" else 1)
    words = t(
        "Estimated: bf16 with fp32 master weights, AdamW; temporary tensors come on top.",
        "估算：bf16，fp32 主权重，AdamW；临时张量不计在内。",
        lang,
    )
    yield text("note", 0, HEIGHT - 6, words, "soft", 12)
