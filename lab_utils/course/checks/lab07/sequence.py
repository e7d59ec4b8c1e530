"""Exercise 3: an MLP under sequence parallelism, and the gradients that its ranks have to sum: the
cases and the verdict."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from ..waited_axis import judge_sent
from ..wrong import Look, look
from .sequence_ranks import CUT, WHOLE, Case, Facts, right, run

TOLERANCE = 1e-10
ITEM = 8  # bytes of a float64


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """Transfers, what is held, the output, gradients of what is cut and of what is not, bytes."""
    failure = judge_sent([s for f in facts for s in (f.forward, f.backward, f.finish)])
    tests = (_held, _output, _normed, _cut, _whole, _sent)
    return failure or next((found for test in tests if (found := test(case, facts))), None)


def _held(case: Case, facts: list[Facts]) -> Failure | None:
    most = -(-case.wide // case.ranks) * (2 * case.width + 1) + 3 * case.width
    held = max(f.held for f in facts)
    if held <= most:
        return None
    return Failure(
        "mlp.whole",
        t(
            f"a rank holds its part of up and down: at most {most} numbers.",
            f"每个 rank 只持有 up 和 down 的一部分：至多 {most} 个数。",
        ),
        t(f"parameters of {held} numbers.", f"参数共有 {held} 个数。"),
    )


def _joined(tensors: list[Any], dim: int = 0) -> Any:
    try:
        return torch.cat(tensors, dim)
    except (TypeError, RuntimeError, IndexError):
        return None


def _output(case: Case, facts: list[Facts]) -> Failure | None:
    expected = t(
        "each rank has its tokens of one process's output.",
        "每个 rank 得到单进程输出中自己的那些词元。",
    )
    want, y = right(case), _joined([f.y for f in facts])
    seen = look(y, want.y, TOLERANCE)
    if seen.kind == "right":
        return None
    if isinstance(y, Tensor) and y.shape == want.y.shape:
        times = ((y - want.y) / want.bias).mean()
        if torch.allclose(y - want.y, times * want.bias.expand_as(y)):
            came = t(
                f"it has the bias of down {times.item() + 1:.3g} times.",
                f"down 的偏置加了 {times.item() + 1:.3g} 次。",
            )
            return Failure("mlp.bias", expected, came)
    came = t(f"the output is {seen.words(case.ranks)}.", f"输出：{seen.words(case.ranks)}。")
    return Failure(case.criterion or "mlp.value", expected, came)


def _normed(case: Case, facts: list[Facts]) -> Failure | None:
    mine, most = case.tokens // case.ranks, max(f.normed for f in facts)
    if most <= mine:
        return None
    return Failure(
        "mlp.norm",
        t(f"norm sees this rank's {mine} tokens.", f"norm 只处理本 rank 的 {mine} 个词元。"),
        t(f"it saw {most}.", f"它处理了 {most} 个。"),
    )


def _of_cut(facts: list[Facts], name: str, after: bool, case: Case) -> Look:
    parts = [(f.after if after else f.before)[name] for f in facts]
    return look(_joined(parts, CUT[name]), right(case).gradients[name], TOLERANCE)


def _cut(case: Case, facts: list[Facts]) -> Failure | None:
    expected = t(
        "the gradients of x, and of every rank's part of up and down, are one process's.",
        "x 的梯度，以及每个 rank 那部分 up、down 的梯度，都与单进程一致。",
    )
    named = {name: _of_cut(facts, name, False, case) for name in CUT}
    named["x"] = look(_joined([f.x for f in facts]), right(case).x, TOLERANCE)
    for name, seen in named.items():
        if seen.kind != "right":
            came = t(
                f"the gradient of {name} is {seen.words(case.ranks)}.",
                f"{name} 的梯度：{seen.words(case.ranks)}。",
            )
            return Failure(case.criterion or "mlp.gradient", expected, came)
    for name in CUT:
        seen = _of_cut(facts, name, True, case)
        if seen.kind != "right":
            came = t(
                f"{name} was right before finish(); after it, it is {seen.words(case.ranks)}.",
                f"finish() 之前 {name} 的梯度正确；之后：{seen.words(case.ranks)}。",
            )
            return Failure("norms.cut", expected, came)
    return None


def _whole(case: Case, facts: list[Facts]) -> Failure | None:
    expected = t(
        "after finish() the gradients of norm and of down's bias are one process's, on every rank.",
        "finish() 之后，norm 与 down 的偏置的梯度在每个 rank 上都与单进程一致。",
    )
    for name in WHOLE:
        want = right(case).gradients[name]
        for rank, f in enumerate(facts):
            seen = look(f.after[name], want, TOLERANCE, before=f.before[name])
            if seen.kind == "right":
                continue
            kind = {"old": "norms.not-summed", "scale": "norms.scale"}.get(seen.kind, "norms.value")
            came = (
                t(
                    f"on rank {rank}, {name} still has the gradient of its own tokens alone.",
                    f"rank {rank} 上，{name} 的梯度仍然只来自自己的词元。",
                )
                if seen.kind == "old"
                else t(
                    f"on rank {rank}, that of {name} is {seen.words(case.ranks)}.",
                    f"rank {rank} 上，{name} 的梯度：{seen.words(case.ranks)}。",
                )
            )
            return Failure(kind, expected, came)
    return None


def _sent(case: Case, facts: list[Facts]) -> Failure | None:
    """Halves of an all-reduce of all tokens: two forward, three backward (the input gathered
    again), and the whole parameters' gradients once."""
    whole = ITEM * case.tokens * case.width
    for f in facts:
        forward, backward = (
            sum(nbytes * (2 if op == "all_reduce" else 1) for op, nbytes in sent.bytes.items())
            for sent in (f.forward, f.backward)
        )
        finish = sum(f.finish.bytes.values())
        if forward > 2 * whole or backward > 3 * whole:
            return Failure(
                "mlp.bytes",
                t(
                    f"halves of an all-reduce of {whole} bytes: 2 forward, at most 3 backward.",
                    f"以 {whole} 字节的半个 all-reduce 为单位：前向 2 个，反向至多 3 个。",
                ),
                t(
                    f"{forward / whole:g} forward and {backward / whole:g} backward.",
                    f"前向 {forward / whole:g} 个，反向 {backward / whole:g} 个。",
                ),
            )
        if finish > 3 * ITEM * case.width:
            return Failure(
                "norms.bytes",
                t(
                    f"finish() sums three gradients of {case.width} numbers:"
                    f" {3 * ITEM * case.width} bytes.",
                    f"finish() 只求和三个长 {case.width} 的梯度：{3 * ITEM * case.width} 字节。",
                ),
                t(f"it handed over {finish} bytes.", f"它交出了 {finish} 字节。"),
            )
    return None


def draw(random: Random) -> list[Case]:
    """For each number of ranks a plain case, then one whose features N does not divide."""
    cases = []
    for n in (3, 4):
        for criterion, more in ((None, 0), ("uneven", random.randint(1, n - 1))):
            tokens, wide = n * random.randint(1, 4), n * random.randint(1, 3) + more
            seed = random.randint(1, 10**6)
            cases.append(Case(n, tokens, wide, random.randint(3, 6), criterion, seed))
    return cases


def _halves(which: str) -> Any:
    def words(_: Case, told: list[list[Facts]]) -> str:
        calls = getattr(told[0][0], which).calls
        return " + ".join(f"{n} {op}" for op, n in calls.items()) or "–"

    return words


EXERCISE = Exercise(
    check="sequence_mlp",
    answer="SequenceMLP",
    lab="lab07",
    run=run,
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("tokens", "词元数", lambda case, _: case.tokens),
        Column("features inside", "内部特征数", lambda case, _: case.wide),
        Column("numbers held", "持有的参数", lambda _, told: [f.held for f in told[0]]),
        Column("forward", "前向", _halves("forward")),
        Column("backward", "反向", _halves("backward")),
        Column("finish", "finish", _halves("finish")),
    ),
    visible=(
        Case(4, 8, 12),
        Case(4, 8, 10, criterion="uneven"),
        Case(3, 6, 6),
        Case(3, 3, 7, criterion="uneven"),
    ),
    draw=draw,
)
