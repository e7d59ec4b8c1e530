"""What every ZeRO stage holds on one rank, for one setting: stacked bars against the memory of real GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

from ..i18n import t
from ..text import columns
from .controls import State, say
from .scene import Item, Scene, axis, line, path, rect, text
from .units import NO_BREAK, nbytes, percent
from .zero_costs import BETWEEN_STEPS, GPUS_GB, WHILE_RUNNING, Setting, fits, memory, on_gpu
from .zero_measured import TERMS, conditions, measured_memory
from .zero_walk import STAGES, stage_words
from .zero_walk_scene import capital

WIDTH, HEIGHT = 760, 392
_X, _LENGTH, _TOTAL = 118, 500, 628     # the bars, and the column of totals
_TOP, _ROW, _BAR = 106, 36, 24
_AXIS = _TOP + len(STAGES) * _ROW + 2
_KEY = _AXIS + 44
FILLS = {"parameters": "blue5", "gradients": "blue3", "optimizer": "blue2", "gathered": "sand", "buckets": "sand"}


def words(term: str, lang: str) -> str:
    """A term's name."""
    return t(*{
        "parameters": ("parameters", "参数"), "gradients": ("gradients", "梯度"), "optimizer": ("optimizer states", "优化器状态"),
        "gathered": ("gathered parameters", "聚合的参数"), "buckets": ("gradient buffers", "梯度缓冲区"), "offloaded": ("in the host's memory", "主机内存中"),
    }[term], lang)  # fmt: skip


def row_name(stage: str, lang: str) -> str:
    """What stands beside a stage's bar."""
    return {"0": t("0 · plain DP", "0 · 普通 DP", lang), "offload": t("3 + offload", "3 + 卸载", lang)}.get(stage, f"ZeRO-{stage}")


def scene(state: State, lang: str) -> Scene:
    """The chosen stage in figures, then all stages as bars."""
    setting, stage = Setting.of(state), state["stage"]
    items = [*_figures(setting, stage, lang), _chosen(stage), *_common(setting, lang), *_names(setting, stage, lang), *_key(setting, stage, lang)]
    return {"items": items, "alt": _summary(setting, stage, lang)}


@lru_cache(maxsize=2)       # the chosen stage runs fastest
def _common(setting: Setting, lang: str) -> tuple[Item, ...]:
    """What does not depend on the chosen stage."""
    scale = _scale(setting)
    return *_bars(setting, scale, lang), *_gpus(scale), _footnote(setting, lang)


def _scale(setting: Setting) -> float:
    """Bytes at the end of the axis: a little more than a GPU that matters here, or than plain data parallelism if all are far larger."""
    most = on_gpu(memory(setting, "0"))
    if most > 30e9:
        return 100e9
    return 30e9 if most > 7e9 else 1.02 * most


def verdict(setting: Setting, stage: str, lang: str) -> str:
    """Which of the GPUs it fits into."""
    fitting = [gigabytes for gigabytes in GPUS_GB if fits(setting, stage, gigabytes)]
    if not fitting:
        return t(f"too much for {GPUS_GB[-1]} GB", f"{GPUS_GB[-1]} GB 也放不下", lang).replace(" GB", f"{NO_BREAK}GB")
    return t(f"fits in {fitting[0]} GB", f"{fitting[0]} GB 放得下", lang).replace(" GB", f"{NO_BREAK}GB")


def _figures(setting: Setting, stage: str, lang: str) -> Iterator[Item]:
    held, plain = memory(setting, stage), on_gpu(memory(setting, "0"))
    states, buffers = on_gpu(held, BETWEEN_STEPS), on_gpu(held, WHILE_RUNNING)
    total = states + buffers
    parts = t(f"{nbytes(states)} + at most {nbytes(buffers)} of buffers", f"常驻 {nbytes(states)} + 缓冲区至多 {nbytes(buffers)}", lang)
    host = nbytes(held["offloaded"])
    figures = (
        (t("each rank holds, at most", "每个 rank 至多占用", lang), nbytes(total),
         parts if buffers else t("model states, no buffers besides", "模型状态，没有额外的缓冲区", lang)),
        (t("does it fit?", "放得下吗？", lang), verdict(setting, stage, lang),
         t(f"and {host} in the host's memory", f"另有 {host} 在主机内存中", lang) if held["offloaded"] else t("activations come on top", "激活值另算", lang)),
        (t("of what plain data parallelism holds", "与普通数据并行相比", lang), percent(total / plain),
         t(f"of {nbytes(plain)}", f"普通数据并行为 {nbytes(plain)}", lang)),
    )  # fmt: skip
    for i, (name, value, detail) in enumerate(figures):
        x = 256 * i
        yield text(f"figure-name{i}", x, 18, name, "soft")
        yield text(f"figure{i}", x, 46, value, size=26 if i != 1 else 22, bold=True)
        yield text(f"figure-detail{i}", x, 66, detail, "soft", 12)


def _chosen(stage: str) -> Item:
    return rect("chosen", 0, _TOP + STAGES.index(stage) * _ROW - 4, WIDTH, _ROW - 2, "void", rx=4, stroke="soft")


def _bars(setting: Setting, scale: float, lang: str) -> Iterator[Item]:
    for i, stage in enumerate(STAGES):
        y = _TOP + i * _ROW
        yield from _stack(f"{stage}-", memory(setting, stage), y, scale, lang)
        measured = measured_memory(setting, stage)
        if measured:
            yield from _ticks(f"{stage}-", measured, y + _BAR, scale)


def _stack(key: str, held: Mapping[str, int], y: float, scale: float, lang: str) -> Iterator[Item]:
    """One bar, and where it is longer than the axis a mark that says so."""
    before = 0
    for term, fill in FILLS.items():
        start, end = (min(1.0, x / scale) * _LENGTH for x in (before, before + held[term]))
        before += held[term]
        if end - start < 0.05:
            continue
        gap = 1.0 if end - start > 3 else 0.0
        yield rect(f"{key}{term}", _X + start, y, end - start - gap, _BAR, fill, title=words(term, lang) + t(": ", "：", lang) + nbytes(held[term]))
        names = [words(term, lang), *([t("optimizer", "优化器", lang)] if term == "optimizer" else [])]
        yield from label(f"{key}{term}-name", _X + start, _X + end - gap, y + 16.5, names, f"on-{fill}", [x for _, x in _lines(scale)])
    if before > scale:
        cut = _X + _LENGTH - 14
        yield path(f"{key}cut", f"M{cut} {y + _BAR + 2}l6 -{_BAR / 2 + 2}l-4 0l6 -{_BAR / 2 + 2}", "paper", width=3)


def label(key: str, start: float, end: float, y: float, names: list[str], ink: str, lines: list[float]) -> Iterator[Item]:
    """The first name that fits between start and end, beside the vertical lines that cross there; or nothing."""
    edges = [start, *(x for x in lines if start < x < end), end]
    room, middle = max((b - a, (a + b) / 2) for a, b in pairwise(edges))
    for name in names:
        if room > 7.3 * columns(name) + 4:
            yield text(key, middle, y, name, ink, 12, "middle", **{"pointer-events": "none"})
            return


def _lines(scale: float) -> list[tuple[int, float]]:
    """(gigabytes, x) of the GPUs whose memory lies on the axis."""
    return [(gigabytes, _X + gigabytes * 1e9 / scale * _LENGTH) for gigabytes in GPUS_GB if gigabytes * 1e9 <= scale]


def _ticks(key: str, measured: Mapping[str, int], y: float, scale: float) -> Iterator[Item]:
    """A mark under the end of each term, where the measured bytes put it."""
    before = 0
    for term in FILLS:
        before += measured[term]
        if measured[term]:
            x = _X + before / scale * _LENGTH
            yield path(f"{key}tick-{term}", f"M{x - 4:.1f} {y + 6}h8l-4 -6z", fill="ink")


def _gpus(scale: float) -> Iterator[Item]:
    yield from axis("bytes", _X, _AXIS, _LENGTH, _byte_ticks(scale))
    for gigabytes, x in _lines(scale):
        yield line(f"gpu{gigabytes}", x, _TOP - 10, x, _AXIS, "fire", 2, **{"stroke-dasharray": "5 3"})
        yield text(f"gpu-name{gigabytes}", x, _TOP - 14, f"{gigabytes}{NO_BREAK}GB", "fire", 12, "middle", bold=True)


def _byte_ticks(scale: float) -> list[tuple[float, str]]:
    """At most six round ticks from 0 to the end of the axis."""
    unit, name = next((u, n) for u, n in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if scale >= u)
    end = scale / unit
    magnitude = 10 ** math.floor(math.log10(end / 6))
    step = next(m * magnitude for m in (1, 2, 5, 10, 20) if end / (m * magnitude) < 6)
    return [(i * step / end, f"{i * step:.4g}{NO_BREAK}{name}") for i in range(math.floor(end / step) + 1)]


def _names(setting: Setting, chosen: str, lang: str) -> Iterator[Item]:
    for i, stage in enumerate(STAGES):
        y, held, bold = _TOP + i * _ROW + 17, memory(setting, stage), stage == chosen
        yield text(f"row{stage}", 8, y, row_name(stage, lang), "ink", 13, bold=bold)
        yield text(f"total{stage}", _TOTAL, y - 6 * (held["offloaded"] > 0), nbytes(on_gpu(held)), "ink", 13, bold=bold)
        if held["offloaded"]:
            yield text("host", _TOTAL, y + 9, t(f"+ {nbytes(held['offloaded'])} in the host", f"+ 主机 {nbytes(held['offloaded'])}", lang), "soft", 11)


def _key(setting: Setting, stage: str, lang: str) -> Iterator[Item]:
    """The chosen stage's terms in figures."""
    held = memory(setting, stage)
    for i, term in enumerate(TERMS):
        x, y = 256 * (i % 3), _KEY + 20 * (i // 3)
        amount = nbytes(held[term])
        shown = f"≤ {amount}" if term in WHILE_RUNNING and held[term] else amount
        yield rect(f"key-{term}", x, y - 11, 13, 13, FILLS.get(term, "paper"), **({} if term in FILLS else {"stroke": "blue4"}))
        yield text(f"key-name-{term}", x + 20, y, f"{words(term, lang)}{t(': ', '：', lang)}{shown}", size=12)


def agrees(setting: Setting, stage: str) -> bool | None:
    """Whether what was measured is what is estimated, in every term; None where nothing was measured."""
    measured = measured_memory(setting, stage)
    return measured and all(measured[term] == memory(setting, stage)[term] for term in TERMS)


def _footnote(setting: Setting, lang: str) -> Item:
    verdicts = [agrees(setting, stage) for stage in STAGES]
    about = f"torch {conditions()['torch']}, {conditions()['device'].split(',')[0]}, {conditions()['date']}"
    if any(verdict is not None for verdict in verdicts):
        equal = t("measured = estimated, to the byte", "实测 = 估算，逐字节相等", lang) if all(verdicts) else t("measured ≠ estimated", "实测 ≠ 估算", lang)
        note = t(f"▲ measured in real runs ({about}): {equal}.", f"▲ 真实运行的实测值（{about.replace(', ', '，')}）：{equal}。", lang)
    else:
        note = t("Estimated; checked to the byte against real runs of tiny on 2 and 4 ranks. Without activations. 1 GB is 10⁹ bytes.",
                 "估算值，估算方法已用 tiny 在 2 个和 4 个 rank 上的真实运行逐字节核对。不含激活值。1 GB = 10⁹ 字节。", lang)  # fmt: skip
    return text("note", 0, HEIGHT - 8, note, "soft", 12)


def _summary(setting: Setting, stage: str, lang: str) -> str:
    held, ranks = memory(setting, stage), setting.ranks
    terms = [f"{words(term, lang)} {nbytes(held[term])}" for term in TERMS if held[term]]
    name = capital(say(stage_words(stage), lang))
    said = t(f"{name} on {ranks:,} ranks: at most {nbytes(on_gpu(held))} each, {verdict(setting, stage, lang)}: {', '.join(terms)}.",
             f"{ranks:,} 个 rank，{name}：每个 rank 至多 {nbytes(on_gpu(held))}，{verdict(setting, stage, lang)}。其中{'、'.join(terms)}。", lang)  # fmt: skip
    if agrees(setting, stage):
        said += t(" Measured in a real run: the same to the byte.", "真实运行的实测值与此逐字节相等。", lang)
    return said
