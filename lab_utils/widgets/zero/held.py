"""What every ZeRO stage holds on one rank, for one setting: stacked bars against the memory of real
GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, axis, line, rect, text
from ..frame.units import NO_BREAK, nbytes
from .bars import LEFT, LENGTH, TOTAL, Rows, Segment, figures
from .colours import FILLS, OUTLINED
from .costs import BETWEEN_STEPS, GPUS_GB, WHILE_RUNNING, Setting, memory, on_gpu
from .held_words import figures_of, footnote, row_name, summary, words
from .measured import TERMS, measured_memory
from .walk import STAGES

HEIGHT = 392
_TOP, _ROW, _BAR = 106, 36, 24
_AXIS = _TOP + len(STAGES) * _ROW + 2
_KEY = _AXIS + 44
_TERMS = BETWEEN_STEPS + WHILE_RUNNING


def scene(state: State, lang: str) -> Scene:
    """The chosen stage in figures, then all stages as bars."""
    setting, stage = Setting.of(state), state["stage"]
    items = [
        *figures(figures_of(setting, stage, lang), middle_size=22),
        _rows(_scale(setting)).chosen(STAGES.index(stage)),
        *_common(setting, lang),
        *_names(setting, stage, lang),
        *_key(setting, stage, lang),
    ]
    return {"items": items, "alt": summary(setting, stage, lang)}


@lru_cache(maxsize=2)  # the chosen stage runs fastest
def _common(setting: Setting, lang: str) -> tuple[Item, ...]:
    """What does not depend on the chosen stage."""
    scale = _scale(setting)
    return (
        *_bars(setting, scale, lang),
        *_gpus(scale),
        text("note", 0, HEIGHT - 8, footnote(setting, lang), "soft", 12),
    )


def _scale(setting: Setting) -> float:
    """Bytes at the end of the axis: a little more than a GPU that matters here, or than plain data
    parallelism if all are far larger."""
    most = on_gpu(memory(setting, "0"))
    if most > 30e9:
        return 100e9
    return 30e9 if most > 7e9 else 1.02 * most


def _rows(scale: float) -> Rows:
    return Rows(_TOP, _ROW, _BAR, scale, tuple(x for _, x in _lines(scale)))


def _bars(setting: Setting, scale: float, lang: str) -> Iterator[Item]:
    rows = _rows(scale)
    for i, stage in enumerate(STAGES):
        held, measured = memory(setting, stage), measured_memory(setting, stage)
        segments = [
            Segment(term, FILLS[term], held[term], _names_of(term, lang)) for term in _TERMS
        ]
        yield from rows.stack(f"{stage}-", i, segments, lang)
        if measured:
            yield from rows.ticks(f"{stage}-", i, {term: measured[term] for term in _TERMS})


def _names_of(term: str, lang: str) -> tuple[str, ...]:
    short = {"optimizer": (t("optimizer", "优化器", lang),)}
    return words(term, lang), *short.get(term, ())


def _lines(scale: float) -> list[tuple[int, float]]:
    """(gigabytes, x) of the GPUs whose memory lies on the axis."""
    return [
        (gigabytes, LEFT + gigabytes * 1e9 / scale * LENGTH)
        for gigabytes in GPUS_GB
        if gigabytes * 1e9 <= scale
    ]


def _gpus(scale: float) -> Iterator[Item]:
    yield from axis("bytes", LEFT, _AXIS, LENGTH, _byte_ticks(scale))
    for gigabytes, x in _lines(scale):
        yield line(
            f"gpu{gigabytes}", x, _TOP - 10, x, _AXIS, "fire", 2, **{"stroke-dasharray": "5 3"}
        )
        yield text(
            f"gpu-name{gigabytes}",
            x,
            _TOP - 14,
            f"{gigabytes}{NO_BREAK}GB",
            "fire",
            12,
            "middle",
            bold=True,
        )


def _byte_ticks(scale: float) -> list[tuple[float, str]]:
    """At most six round ticks from 0 to the end of the axis."""
    unit, name = next((u, n) for u, n in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if scale >= u)
    end = scale / unit
    magnitude = 10 ** math.floor(math.log10(end / 6))
    step = next(m * magnitude for m in (1, 2, 5, 10, 20) if end / (m * magnitude) < 6)
    return [
        (i * step / end, f"{i * step:.4g}{NO_BREAK}{name}")
        for i in range(math.floor(end / step) + 1)
    ]


def _names(setting: Setting, chosen: str, lang: str) -> Iterator[Item]:
    for i, stage in enumerate(STAGES):
        y, held, bold = _TOP + i * _ROW + 17, memory(setting, stage), stage == chosen
        yield text(f"row{stage}", 8, y, row_name(stage, lang), "ink", 13, bold=bold)
        yield text(
            f"total{stage}",
            TOTAL,
            y - 6 * (held["offloaded"] > 0),
            nbytes(on_gpu(held)),
            "ink",
            13,
            bold=bold,
        )
        if held["offloaded"]:
            yield text(
                "host",
                TOTAL,
                y + 9,
                t(
                    f"+ {nbytes(held['offloaded'])} in the host",
                    f"+ 主机 {nbytes(held['offloaded'])}",
                    lang,
                ),
                "soft",
                11,
            )


def _key(setting: Setting, stage: str, lang: str) -> Iterator[Item]:
    """The chosen stage's terms in figures."""
    held = memory(setting, stage)
    for i, term in enumerate(TERMS):
        x, y = 256 * (i % 3), _KEY + 20 * (i // 3)
        amount = nbytes(held[term])
        shown = f"≤ {amount}" if term in WHILE_RUNNING and held[term] else amount
        yield rect(
            f"key-{term}",
            x,
            y - 11,
            13,
            13,
            FILLS[term],
            **(OUTLINED if term == "offloaded" else {}),
        )
        yield text(
            f"key-name-{term}",
            x + 20,
            y,
            f"{words(term, lang)}{t(': ', '：', lang)}{shown}",
            size=12,
        )
