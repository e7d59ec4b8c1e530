"""One step of training, moment by moment: what every layer has saved, what runs twice, and the curve of saved bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from ..i18n import t
from .checkpoint_costs import ATTENTION, LAYERS, Point, curve, extra_work, flops, recomputed
from .checkpoint_measured import about, measured
from .controls import Option, State
from .scene import Item, Scene, line, path, rect, text
from .units import NO_BREAK, nbytes, percent

WIDTH, HEIGHT = 760, 448
_X, _COLUMN = 96, 41                            # the first moment's column, and the width of each
_ROWS, _ROW = 108, 17                           # the layers, the head below them
_BASE, _CURVE = 404, 150                        # the curve's zero line and height
_SCALE = 160e6                                  # bytes at the curve's top; a test holds that no choice saves more


class Moment(NamedTuple):
    """What runs: "forward" or "backward" of a part ("embed", a layer's number, "predict")."""

    phase: str
    part: int | str


_FORWARD: tuple[int | str, ...] = ("embed", *range(LAYERS), "predict")
MOMENTS = (*(Moment("forward", part) for part in _FORWARD), *(Moment("backward", part) for part in reversed(_FORWARD)))


def options() -> list[Option]:
    """The moments of a step as the options of a slider."""
    phases = {"forward": ("forward pass", "前向传播"), "backward": ("backward pass", "反向传播")}
    return [(moment, tuple(f"{phase}{colon}{part}" for phase, colon, part in zip(phases[moment.phase], (": ", "："), part_words(moment.part), strict=True)))
            for moment in MOMENTS]  # fmt: skip


def part_words(part: int | str) -> tuple[str, str]:
    """A part's name; blocks are counted from 0, as TrainConfig.recompute counts them."""
    return {"embed": ("embedding", "嵌入层"), "predict": ("head and loss", "输出层与损失")}.get(part) or (f"block {part}", f"第 {part} 层")


def policy_of(state: State) -> str:
    """What a state recomputes, as TrainConfig.recompute."""
    if state["what"] == ATTENTION:
        return ATTENTION
    return ",".join(str(layer) for layer in range(LAYERS) if state[f"layer{layer}"]) or "none"


def scene(state: State, lang: str) -> Scene:
    """The chosen moment in figures, the timeline of every layer, the curve."""
    policy, moment = policy_of(state), state["moment"]
    figures = _figures(policy, moment, lang)
    items = [*_figure_items(figures), _cursor(moment), *_timeline(policy, lang), *_curve(policy, lang), *_marker(policy, moment)]
    return {"items": items, "alt": _summary(policy, figures, lang)}


def policy_words(policy: str, lang: str) -> str:
    """What is recomputed, in words."""
    if policy == ATTENTION:
        return t("only the attention is recomputed, in every block", "每层只重计算注意力部分", lang)
    layers = sorted(recomputed(policy))
    if not layers:
        return t("nothing is recomputed", "不做重计算", lang)
    if len(layers) == LAYERS:
        return t("every block is recomputed", "所有层都重计算", lang)
    en = "block" if len(layers) == 1 else "blocks"
    return t(f"{en} {', '.join(map(str, layers))} recomputed", f"重计算第 {'、'.join(map(str, layers))} 层", lang)


@cache
def columns_of(policy: str) -> tuple[tuple[Point, ...], ...]:
    """The curve's points in the column of each moment, closed by the first of the next."""
    found: list[list[Point]] = [[] for _ in MOMENTS]
    for point in curve(policy).points:
        phase = "forward" if point.phase == "forward" else "backward"
        found[MOMENTS.index(Moment(phase, point.part))].append(point)
    for column, following in zip(reversed(found[:-1]), reversed(found[1:]), strict=True):
        column.append(following[0])
    return tuple(map(tuple, found))


def peak_moment(policy: str) -> Moment:
    """When most is saved."""
    return max(zip(MOMENTS, columns_of(policy), strict=True), key=lambda pair: max(point.saved for point in pair[1]))[0]


def _now(policy: str, moment: Moment) -> tuple[int, int, int]:
    """Saved bytes when a moment begins, at its most, and when it is over."""
    saved = [point.saved for point in columns_of(policy)[MOMENTS.index(moment)]]
    return saved[0], max(saved), saved[-1]


def _comes_back(policy: str, moment: Moment) -> int:
    """Bytes that recomputation saves anew within a moment."""
    saved = [point.saved for point in columns_of(policy)[MOMENTS.index(moment)]]
    return max(now - least for now, least in zip(saved, accumulate(saved, min), strict=True))


def _figures(policy: str, moment: Moment, lang: str) -> list[tuple[str, str, str]]:
    before, most, after = _now(policy, moment)
    name = t(*part_words(moment.part), lang)
    whole = nbytes(curve("none").peak)
    if moment.phase == "forward":
        doing = t(f"{name}, forward: {nbytes(after - before)} saved", f"{name}前向：保存 {nbytes(after - before)}", lang)
    elif _runs_twice(policy, moment.part):
        back = nbytes(_comes_back(policy, moment))
        doing = t(f"{name}: forward again +{back}, then freed", f"{name}：再次前向 +{back}，随后释放", lang)
    else:
        doing = t(f"{name}, backward: {nbytes(before - after)} freed", f"{name}反向：释放 {nbytes(before - after)}", lang)
    extra = extra_work(policy)
    return [
        (t("saved at once, at most", "同时保存的激活值，最多", lang), nbytes(curve(policy).peak),
         t(f"{whole} without recomputation", f"不做重计算时为 {whole}", lang)),
        (t("extra work", "额外计算", lang), f"+{percent(extra)}" if extra else percent(0),
         t("FLOPs done twice, of a plain step's", "重复的浮点运算占普通一步的比例", lang)),
        (t("saved now", "此刻保存的激活值", lang), nbytes(_shown(policy, moment)), doing),
    ]  # fmt: skip


def _shown(policy: str, moment: Moment) -> int:
    """Saved bytes that stand for a moment: at its most where something comes and goes within it, else when it is over."""
    before, most, after = _now(policy, moment)
    return most if most > max(before, after) else after


def _runs_twice(policy: str, part: int | str) -> bool:
    return part in recomputed(policy) or policy == ATTENTION and isinstance(part, int)


def _figure_items(figures: list[tuple[str, str, str]]) -> Iterator[Item]:
    for i, (name, value, detail) in enumerate(figures):
        x = (0, 232, 464)[i]
        yield text(f"figure-name{i}", x, 18, name, "soft")
        yield text(f"figure{i}", x, 46, value, size=26, bold=True)
        yield text(f"figure-detail{i}", x, 66, detail, "soft", 12)


def _left(index: int) -> int:
    return _X + index * _COLUMN


def _cursor(moment: Moment) -> Item:
    return rect("cursor", _left(MOMENTS.index(moment)), _ROWS - 20, _COLUMN, _BASE - _ROWS + 20, "void", rx=4, stroke="soft")


@cache
def _timeline(policy: str, lang: str) -> tuple[Item, ...]:
    """From its forward to its backward pass: thick where a layer keeps all it saved, thin where only its input, sand where it is back."""
    items = [text("forward", _left(0) + 4, _ROWS - 8, t("forward pass →", "前向传播 →", lang), "soft", 12),
             text("backward", _left(len(_FORWARD)) + 4, _ROWS - 8, t("backward pass →", "反向传播 →", lang), "soft", 12)]
    for row, part in enumerate((*range(LAYERS), "predict")):
        y = _ROWS + row * _ROW
        start, end = MOMENTS.index(Moment("forward", part)), MOMENTS.index(Moment("backward", part))
        name = t(*part_words(part), lang)
        saved = _now(policy, MOMENTS[start])
        held = t(f"{name}: {nbytes(saved[2] - saved[0])} saved", f"{name}：保存 {nbytes(saved[2] - saved[0])}", lang)
        items.append(text(f"row-{part}", 0, y + 12, name, size=12))
        twice = part in recomputed(policy)
        height = 3 if twice else 8 if _runs_twice(policy, part) else 12
        items.append(rect(f"kept-{part}", _left(start), y + 7.5 - height / 2, _left(end + (not twice)) - _left(start) - 2, height, "blue3", rx=1.5, title=held))
        if _runs_twice(policy, part):
            back = nbytes(_comes_back(policy, MOMENTS[end]))
            words = t(f"{name}: forward again, +{back}", f"{name}：再次前向，+{back}", lang)
            items.append(rect(f"again-{part}", _left(end), y + 1.5, _COLUMN - 2, 12, "sand", rx=1.5, title=words))
    return tuple(items)


def _y(saved: float) -> float:
    return _BASE - saved / _SCALE * _CURVE


def _corners(column: tuple[Point, ...], index: int) -> Iterator[tuple[float, int]]:
    """(x, saved bytes) of the points of one column, evenly spread over it."""
    for i, point in enumerate(column):
        yield _left(index) + i * _COLUMN / max(1, len(column) - 1), point.saved


@cache
def _curve(policy: str, lang: str) -> tuple[Item, ...]:
    columns = columns_of(policy)
    outline = [corner for i, column in enumerate(columns) for corner in _corners(column, i)]
    area = f"M{_X} {_BASE}" + "".join(f"L{x:.0f} {_y(saved):.1f}" for x, saved in outline) + f"L{_left(len(columns))} {_BASE}Z"
    items = [path("area", area, fill="blue2")]
    for i, column in enumerate(columns):
        if MOMENTS[i].phase == "backward" and _runs_twice(policy, MOMENTS[i].part):
            above = list(_corners(column, i))
            below = zip((x for x, _ in above), accumulate((saved for _, saved in above), min), strict=True)      # what was never away
            corners = [f"{x:.0f} {_y(saved):.1f}" for x, saved in (*above, *reversed(list(below)))]
            items.append(path(f"bump{i}", f"M{'L'.join(corners)}Z", fill="sand"))
    for saved in (0, 50, 100, 150):
        y = _y(saved * 1e6)
        items += [line(f"grid{saved}", _X, y, _left(len(MOMENTS)), y), text(f"grid-name{saved}", _X - 12, y + 4, f"{saved}{NO_BREAK}MB", "soft", 12, "end")]
    run, peak = measured(policy), curve(policy).peak
    end = _left(len(MOMENTS))
    items.append(line("peak", _X, _y(peak), end, _y(peak), "fire", 1.5, **{"stroke-dasharray": "5 3"}))
    items.append(text("peak-name", end - 4, _y(peak) - 5, t(f"peak {nbytes(peak)}", f"峰值 {nbytes(peak)}", lang), "fire", 12, "end", bold=True))
    if run:
        items.append(path("measured", f"M{_X - 6} {_y(run.activations) - 4:.1f}v8l6 -4z", fill="ink"))
    items.append(text("note", 0, HEIGHT - 8, _note(policy, lang), "soft", 12))
    return tuple(items)


def _marker(policy: str, moment: Moment) -> Iterator[Item]:
    index = MOMENTS.index(moment)
    x, saved = next(corner for corner in reversed(list(_corners(columns_of(policy)[index], index))) if corner[1] == _shown(policy, moment))
    yield line("now", x, _y(saved), x, _BASE, "ink", 2)


def agrees(policy: str) -> bool | None:
    """Whether the real run showed what is estimated; None where there was none."""
    run = measured(policy)
    return None if run is None else run.activations == curve(policy).peak and run.flops == flops(policy)


def _note(policy: str, lang: str) -> str:
    key = t("Blue: kept; sand: computed again. ", "蓝色：保留；沙色：重新计算得到。", lang)
    match agrees(policy):
        case None:
            return key + t("Estimated; the presets were measured to the byte.", "估算值；各预设已逐字节实测。", lang)
        case True:
            conditions = about().replace(", ", t(", ", "，", lang))
            return key + t(f"▶ Measured ({conditions}): the same, to the byte and FLOP.", f"▶ 实测（{conditions}）：逐字节、逐次运算均相等。", lang)
        case _:
            return key + t("▶ Measured: not the same.", "▶ 实测：不相等。", lang)


def _summary(policy: str, figures: list[tuple[str, str, str]], lang: str) -> str:
    peak = t(*part_words(peak_moment(policy).part), lang)
    phase = t(peak_moment(policy).phase, {"forward": "前向", "backward": "反向"}[peak_moment(policy).phase], lang)
    said = policy_words(policy, lang)
    said = said[0].upper() + said[1:]
    return t(f"{said}: at most {figures[0][1]} saved at once ({peak}, {phase}), extra work {figures[1][1]}. Now {figures[2][1]}; {figures[2][2]}.",
             f"{said}：同时最多保存 {figures[0][1]}（{peak}，{phase}），额外计算 {figures[1][1]}。此刻 {figures[2][1]}：{figures[2][2]}。", lang)  # fmt: skip

