"""Exercise 2: fp32 master weights in the four bytes of a bf16 weight and a 16-bit rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure

NUMBERS = 4096


@dataclass(frozen=True)
class Case:
    """`steps` updates of about `rate` to weights of about `size`; `ties`: weights that lie in the
    middle between two bf16 numbers."""

    size: float = 0.05
    rate: float = 1e-5
    steps: int = 50
    ties: bool = False
    seed: int = 0

    def __str__(self) -> str:
        where = t(", in the middle of two bf16 numbers", "，位于两个 bf16 数正中间")
        return t(
            f"weights of about {self.size:g}, {self.steps} updates of about {self.rate:g}",
            f"权重约 {self.size:g}，更新 {self.steps} 次，每次约 {self.rate:g}",
        ) + (where if self.ties else "")

    def tensors(self) -> tuple[Tensor, list[Tensor]]:
        """fp32 weights of both signs, and the updates."""
        generator = torch.Generator().manual_seed(self.seed)
        weights = self.size * torch.randn(NUMBERS, generator=generator)
        if self.ties:
            weights = ((weights.view(torch.int32) >> 16 << 16) + 2**15).view(torch.float32)
        return weights, [
            self.rate * torch.randn(NUMBERS, generator=generator) for _ in range(self.steps)
        ]


@dataclass
class Facts:
    """`kind`: dtype of the weight, in words; `held`: bytes a number; shares of the weights that are
    not a nearest bf16 number of what fp32 has, at first and after all updates; `moved`: of those
    that should have."""

    kind: str
    held: float
    wrong_first: float
    wrong_last: float
    moved: float
    infinite: bool


def run(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Add the same updates to the answer and to fp32."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        right, updates = case.tensors()
        master = answer(right.clone())
        first, kind = _weight(master).clone(), str(_weight(master).dtype)
        wrong_first = _wrong(first, right)
        begin = right.bfloat16()
        for update in updates:
            right = right + update
            master.add(update.clone())
        last = _weight(master)
        should = right.bfloat16() != begin
        moved = (last.bfloat16() != begin)[should].float().mean().item() if should.any() else 1.0
        held = sum(_storages(master).values()) / NUMBERS
        infinite = not bool(torch.isfinite(last.float()).all())
        saw(number, Facts(kind, held, wrong_first, _wrong(last, right), moved, infinite))


def _weight(master: Any) -> Tensor:
    weight = master.weight
    if not isinstance(weight, Tensor) or weight.shape != (NUMBERS,):
        raise TypeError(f"weight: {type(weight).__name__}")
    return weight.detach()


def _wrong(weight: Tensor, right: Tensor) -> float:
    """The share of weights that are farther from the right fp32 number than the nearest bf16 one;
    of two that are equally near either will do."""
    off = (weight.double() - right.double()).abs()
    best = (right.bfloat16().double() - right.double()).abs()
    return (~(off <= best)).double().mean().item()


def _storages(thing: Any) -> dict[int, int]:
    """Bytes of every storage that an object holds, whatever it is packed in."""
    found: dict[int, int] = {}
    waiting, seen = [thing], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            found[one.untyped_storage()._cdata] = one.untyped_storage().nbytes()
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple | set):
            waiting += one
        elif hasattr(one, "nbytes"):  # an array of NumPy
            found[id(one)] = one.nbytes
        elif hasattr(one, "__dict__"):
            waiting += vars(one).values()
    return found


def judge(_case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """What is held, then what it is worth."""
    f = facts[0]
    if f.kind != "torch.bfloat16":
        return Failure(
            "master.dtype",
            t("weight is a bf16 tensor: products read it.", "weight 是 bf16 张量：乘法要读它。"),
            f"{f.kind}",
        )
    if f.held > 4:
        return Failure(
            "master.bytes",
            t("4 bytes a number, in all that the object holds.", "对象持有的一切，每个数 4 字节。"),
            t(f"{f.held:g} bytes.", f"{f.held:g} 字节。"),
        )
    if f.infinite or f.wrong_first:
        return Failure(
            "master.nearest",
            t(
                "weight is a bf16 number nearest to the fp32 one.",
                "weight 是离 fp32 值最近的 bf16 数。",
            ),
            t(
                f"at the beginning {100 * f.wrong_first:.3g} % are not.",
                f"一开始就有 {100 * f.wrong_first:.3g}% 不是。",
            ),
        )
    if f.moved < 0.5:
        return Failure(
            "master.swallowed",
            t("small updates add up.", "小的更新量能够累积。"),
            t(
                f"of the weights that fp32 moved {100 * f.moved:.0f} % have moved.",
                f"fp32 下移动了的权重中，只有 {100 * f.moved:.0f}% 移动了。",
            ),
        )
    if f.wrong_last:
        return Failure(
            "master.exact",
            t(
                "after all updates weight is still the nearest to what fp32 has.",
                "全部更新之后，weight 仍是离 fp32 值最近的数。",
            ),
            t(f"{100 * f.wrong_last:.3g} % are not.", f"有 {100 * f.wrong_last:.3g}% 不是。"),
        )
    return None


def draw(random: Random) -> list[Case]:
    """Weights and rates of any size; ties."""
    sizes = [10.0 ** random.uniform(-4, 2) for _ in range(4)]
    cases = [
        Case(
            s,
            s * 10 ** random.uniform(-5, -2),
            random.randint(20, 80),
            seed=random.randint(1, 10**6),
        )
        for s in sizes
    ]
    return [*cases, Case(1.0, 1e-6, 40, ties=True, seed=random.randint(1, 10**6))]


EXERCISE = Exercise(
    check="master_weights",
    answer="Master",
    lab="lab04",
    run=run,
    judge=judge,
    columns=(
        Column("weights about", "权重约", lambda case, _: f"{case.size:g}"),
        Column("updates about", "更新量约", lambda case, _: f"{case.rate:g}"),
        Column("bytes a number", "每个数的字节", lambda _, told: f"{told[0][0].held:g}"),
        Column(
            "as near as fp32 allows",
            "与 fp32 一致",
            lambda _, told: f"{100 * (1 - told[0][0].wrong_last):g} %",
        ),
    ),
    visible=(Case(), Case(1.0, 1e-4), Case(3.0, 1e-6, 200), Case(1.0, 1e-6, 20, ties=True)),
    draw=draw,
)
