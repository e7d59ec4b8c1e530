"""One step of training as data: its moments, what is saved when each begins and ends, and what runs
twice."""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import NamedTuple

from ...i18n import t
from ..frame.controls import Option, State
from .costs import ATTENTION, LAYERS, Point, curve, recomputed


class Moment(NamedTuple):
    """What runs: "forward" or "backward" of a part ("embed", a layer's number, "head_loss")."""

    phase: str
    part: int | str


FORWARD: tuple[int | str, ...] = ("embed", *range(LAYERS), "head_loss")
MOMENTS = (
    *(Moment("forward", part) for part in FORWARD),
    *(Moment("backward", part) for part in reversed(FORWARD)),
)


def options() -> list[Option]:
    """The moments of a step as the options of a slider."""
    phases = {"forward": ("forward pass", "前向传播"), "backward": ("backward pass", "反向传播")}
    return [
        (
            moment,
            tuple(
                f"{phase}{colon}{part}"
                for phase, colon, part in zip(
                    phases[moment.phase], (": ", "："), part_words(moment.part), strict=True
                )
            ),
        )
        for moment in MOMENTS
    ]


def part_words(part: int | str) -> tuple[str, str]:
    """A part's name; blocks are counted from 0, as TrainConfig.recompute counts them."""
    return {"embed": ("embedding", "嵌入层"), "head_loss": ("head and loss", "输出层与损失")}.get(
        part
    ) or (f"block {part}", f"第 {part} 层")


def policy_of(state: State) -> str:
    """What a state recomputes, as TrainConfig.recompute."""
    if state["what"] == ATTENTION:
        return ATTENTION
    return ",".join(str(layer) for layer in range(LAYERS) if state[f"layer{layer}"]) or "none"


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
    return t(
        f"{en} {', '.join(map(str, layers))} recomputed",
        f"重计算第 {'、'.join(map(str, layers))} 层",
        lang,
    )


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
    return max(
        zip(MOMENTS, columns_of(policy), strict=True),
        key=lambda pair: max(point.saved for point in pair[1]),
    )[0]


def saved_at(policy: str, moment: Moment) -> tuple[int, int, int]:
    """Saved bytes when a moment begins, at its most, and when it is over."""
    saved = [point.saved for point in columns_of(policy)[MOMENTS.index(moment)]]
    return saved[0], max(saved), saved[-1]


def comes_back(policy: str, moment: Moment) -> int:
    """Bytes that recomputation saves anew within a moment."""
    saved = [point.saved for point in columns_of(policy)[MOMENTS.index(moment)]]
    return max(now - least for now, least in zip(saved, accumulate(saved, min), strict=True))


def shown(policy: str, moment: Moment) -> int:
    """Saved bytes that stand for a moment: at its most where something comes and goes within it,
    else when it is over."""
    before, most, after = saved_at(policy, moment)
    return most if most > max(before, after) else after


def runs_twice(policy: str, part: int | str) -> bool:
    return part in recomputed(policy) or policy == ATTENTION and isinstance(part, int)
