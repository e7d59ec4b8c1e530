"""The second panel: a model's layers over four stages, boundaries where the learner puts them, and
the step that comes of it."""

from __future__ import annotations

from collections.abc import Iterator

from ...estimate.time.pipeline import Timeline
from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, axis, handle, line, path, rect, text
from ..frame.units import percent, seconds, time_ticks
from ..frame.words import model_option
from .costs import CUTS, IN_A_BATCH, STAGES, cut, even_seconds, parts

WIDTH, HEIGHT = 760, 396
_X, _LENGTH = 62, 672
_STRIP, _THICK = 96, 34
_LANES, _PITCH, _BAR = 164, 44, 32
_FILLS = ("blue2", "blue4", "blue3", "blue5")  # neighbours differ in luminance


def scene(state: State, lang: str) -> Scene:
    """Figures, the strip of layers, and a lane for each stage."""
    cuts = tuple(state[f"cut{i}"] for i in (1, 2, 3))
    timeline, stage_seconds = cut(state["model"], *cuts)
    over = timeline.seconds / even_seconds(state["model"]) - 1
    items = [
        *_figures(timeline, stage_seconds, over, lang),
        *_strip(state["model"], cuts, lang),
        *_lanes(timeline, stage_seconds),
        *_foot(state["model"], timeline, lang),
    ]
    return {"items": items, "alt": _summary(state["model"], cuts, timeline, over, lang)}


def _figures(
    timeline: Timeline, stage_seconds: tuple[float, ...], over: float, lang: str
) -> Iterator[Item]:
    slowest = max(range(STAGES), key=stage_seconds.__getitem__)
    most, least = seconds(max(stage_seconds)), seconds(min(stage_seconds))
    figures = (
        (
            t("step", "一步", lang),
            seconds(timeline.seconds),
            t(
                f"{percent(over)} above perfectly even stages",
                f"比完全均匀的阶段长 {percent(over)}",
                lang,
            ),
        ),
        (
            t("slowest stage", "最慢的阶段", lang),
            t(f"stage {slowest}", f"阶段 {slowest}", lang),
            t(f"{most} a micro-batch, fastest {least}", f"每个微批次 {most}，最快的 {least}", lang),
        ),
        (
            t("bubble over ideal time", "气泡 ÷ 理想时间", lang),
            percent(timeline.bubble_over_ideal),
            t("of all ranks", "所有 rank 合计", lang),
        ),
    )
    for i, (name, value, detail) in enumerate(figures):
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, size=26, bold=True)
        yield text(f"figure-detail{i}", 256 * i, 66, detail, "soft", 12)


def _strip(model: str, cuts: tuple[int, ...], lang: str) -> Iterator[Item]:
    """The layers and the head, as wide as they take time; boundaries can be pulled."""
    part = parts(model)
    ends, width = (0, *cuts, part.layers), _LENGTH / (part.layers + part.head_in_blocks)
    yield text("strip-name", 0, _STRIP + 22, t("layers", "各层", lang), bold=True)
    for stage, (a, b) in enumerate(zip(ends, ends[1:], strict=False)):
        head = part.head_in_blocks if b == part.layers else 0.0
        x, long = _X + a * width, (b - a + head) * width
        yield rect(f"part{stage}", x, _STRIP, long - 1.5, _THICK, _FILLS[stage])
        words = str(b - a) + (t(" + head", " + 输出头", lang) if head else "")
        yield text(
            f"part-name{stage}",
            x + (b - a) * width / 2 if head else x + long / 2,
            _STRIP + 22,
            words,
            f"on-{_FILLS[stage]}",
            13,
            "middle",
            **{"pointer-events": "none"},
        )
    for i, (at, stands) in enumerate(zip(cuts, CUTS[model], strict=True), start=1):
        spots = [_X + n * width for n in stands]
        yield handle(f"grip{i}", _X + at * width, _STRIP - 5, _THICK + 10, f"cut{i}", spots)
    edge = _X + part.layers * width
    yield line("head-edge", edge, _STRIP - 5, edge, _STRIP + _THICK + 5, "ink", 1.5)


def _lanes(timeline: Timeline, stage_seconds: tuple[float, ...]) -> Iterator[Item]:
    scale = _LENGTH / timeline.seconds
    for rank in range(STAGES):
        top = _LANES + rank * _PITCH
        yield text(f"rank{rank}", 0, top + 21, f"rank {rank}", bold=True)
        yield rect(f"idle{rank}", _X, top, _LENGTH, _BAR, "void")
        for kind, fill in (("F", "blue2"), ("B", "blue4")):
            d = "".join(
                f"M{_X + s.start * scale:.1f} {top}h{(s.end - s.start) * scale - 0.8:.1f}v{_BAR}"
                f"H{_X + s.start * scale:.1f}z"
                for s in timeline.spans
                if s.rank == rank and s.action.kind == kind
            )
            yield path(f"lane{rank}{kind}", d, fill=fill)


def _foot(model: str, timeline: Timeline, lang: str) -> Iterator[Item]:
    yield from axis("time", _X, _LANES + STAGES * _PITCH, _LENGTH, time_ticks(timeline.seconds))
    part = parts(model)
    words = t(
        f"Estimated: H100s, bf16, one sequence a micro-batch, {IN_A_BATCH} micro-batches, 1F1B. The"
        f" head takes as long as {part.head_in_blocks:.1f} layers.",
        f"估算：H100，bf16，每个微批次一条序列，{IN_A_BATCH} 个微批次，1F1B。"
        f"输出头相当于 {part.head_in_blocks:.1f} 层。",
        lang,
    )
    yield text("note", 0, HEIGHT - 6, words, "soft", 12)


def _summary(model: str, cuts: tuple[int, ...], timeline: Timeline, over: float, lang: str) -> str:
    ends = (0, *cuts, parts(model).layers)
    sizes = " + ".join(str(b - a) for a, b in zip(ends, ends[1:], strict=False))
    name = model_option(model)[1]
    name = name if isinstance(name, str) else name[lang == "zh"]
    return t(
        f"{name} as {sizes} layers: a step takes {seconds(timeline.seconds)}, {percent(over)} more"
        " than with perfectly even stages.",
        f"{name}：{sizes} 层，一步 {seconds(timeline.seconds)}，"
        f"比完全均匀的阶段长 {percent(over)}。",
        lang,
    )
