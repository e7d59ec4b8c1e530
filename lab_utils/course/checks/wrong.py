"""What a wrong tensor looks like: the usual mistakes, each by its name, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import torch
from torch import Tensor

from ...i18n import t

ROUNDING = 1e-5  # as a share; a factor so near to 1 is no factor
Kind = Literal["right", "not-finite", "shape", "old", "scale", "not-summed", "value"]


@dataclass(frozen=True)
class Look:
    """A tensor held against the right one. `off`: the norm of the difference as a share of the
    right one's; infinite where that says nothing (nan, another shape), so that it is never the
    smaller one. `times`: how many times the right one it is, if `kind` is "scale"."""

    kind: Kind
    off: float
    times: float = 1.0

    def words(self, ranks: int) -> str:
        """The symptom, as the end of a sentence that began with what is wrong."""
        part = 0 < abs(self.times) < 1
        times = f"1/{1 / self.times:.3g}" if part else f"{self.times:.3g}"
        rounding = t("; so little is rounding: which dtype?", "；差这么一点是舍入：dtype 是什么？")
        return {
            "right": t("right", "正确"),
            "not-finite": t("not finite (nan or inf)", "出现了 nan 或 inf"),
            "shape": t("of another shape", "形状不对"),
            "old": t("what they were before", "仍是原来的值"),
            "scale": t(
                f"{times} × the right ones ({ranks} ranks)",
                f"正确值的 {times}{'' if part else ' 倍'}（{ranks} 个 rank）",
            ),
            "not-summed": t("a single rank's, not all ranks'", "只来自某一个 rank，没有归约"),
            "value": t(f"off by {self.off:.2g} of their norm", f"相对偏差 {self.off:.2g}")
            + (rounding if self.off < ROUNDING else ""),
        }[self.kind]


def look(
    came: Any,
    right: Tensor,
    tolerance: float,
    *,
    before: Tensor | None = None,
    own: Sequence[Tensor] = (),
) -> Look:
    """Hold `came` against `right`, which is finite: up to `tolerance` (of its norm) it is right.

    `before`: what it was; `own`: what single ranks had, whole or as a share of 1/len(own), element
    by element from any of them.
    """
    if not isinstance(came, Tensor) or came.shape != right.shape:
        return Look("shape", inf)
    a, b = came.detach().flatten().double(), right.detach().flatten().double()
    norm = b.norm().item() + 1e-300
    off = (a - b).norm().item() / norm
    if not torch.isfinite(a).all():  # nan compares with nothing
        return Look("not-finite", inf)
    if off <= tolerance:
        return Look("right", off)
    if before is not None and torch.equal(came, before):
        return Look("old", off)
    times = (a @ b).item() / norm**2
    scaled = (a - times * b).norm().item() <= tolerance * (abs(times) * norm)
    if scaled and abs(times - 1) > ROUNDING:
        return Look("scale", off, times)
    if own and _from_single_ranks(a, own):
        return Look("not-summed", off)
    return Look("value", off)


def worst(looks: Iterable[Look]) -> tuple[int, Look]:
    """The index and the look of the one that is furthest off; the first of equals."""
    return max(enumerate(looks), key=lambda entry: (entry[1].off, -entry[0]))


def _from_single_ranks(came: Tensor, own: Sequence[Tensor]) -> bool:
    close = [
        torch.isclose(came, one.detach().flatten().double() * share, rtol=1e-5, atol=1e-12)
        for one in own
        for share in (1, 1 / len(own))
    ]
    return bool(torch.stack(close).any(0).all())
