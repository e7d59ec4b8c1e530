"""Exercise 1: AdamW by hand, with groups for weight decay, judged on every weight against float64
and named by the mistake that would give the very same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure
from .adamw_rule import MISTAKES, STEPS, Case, decays, draw, weights
from .by_hand import ByHand

TOLERANCE = 1e-6  # of how far the parameter should have moved in the step
KEYS = {"params", "lr", "weight_decay"}


@dataclass
class Facts:
    """After a step: every parameter of the model, or in words what is wrong with the groups."""

    weights: dict[str, Tensor]
    form: str = ""


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """Four steps for each case, until one is wrong."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        for step, found in enumerate(_train(answer, case)):
            saw(STEPS * number + step, found)
            if judge(case, [found], step):
                return
            begin_case(number, patience)  # each step has its time


def _train(answer: Callable[..., Any], case: Case) -> Any:
    model = case.model()
    parameters = dict(model.named_parameters())
    with ByHand():
        optimizer = answer(
            model, lr=case.lr, weight_decay=case.weight_decay, betas=case.betas, eps=case.eps
        )
    for step in range(STEPS):
        for name, gradient in case.gradients(step).items():
            parameters[name].grad = gradient
        form = _set_rates(optimizer, case, step)
        if not form:
            with ByHand():
                optimizer.step()
        yield Facts({name: p.detach().clone() for name, p in parameters.items()}, form)


def _set_rates(optimizer: Any, case: Case, step: int) -> str:
    """Give each group its rate, as a schedule does; what is wrong with the groups, in words."""
    groups = getattr(optimizer, "groups", None)
    if not isinstance(groups, list) or not all(
        isinstance(group, dict) and set(group) >= KEYS for group in groups
    ):
        return t(f"groups is {type(groups).__name__}", f"groups 是 {type(groups).__name__}")
    for group in groups:
        group["lr"] = case.rate(step, group["weight_decay"] > 0)
    return ""


def judge(case: Case, facts: list[Facts], step: int) -> Failure | None:
    """Every parameter after this step, then which mistake explains those that are wrong."""
    found = facts[0]
    if found.form:
        words = t(
            "optimizer.groups is a list of dicts with params, lr and weight_decay.",
            "optimizer.groups 是字典的列表，每个字典含 params、lr 和 weight_decay。",
        )
        return Failure("adamw.form", words, found.form)
    right = weights(case)
    wrong = _off(found.weights, right, step)
    if not wrong:
        return None
    expected = t(
        f"after step {step + 1} every weight is that of AdamW, computed in float64.",
        f"第 {step + 1} 步之后，每个权重都与 float64 算出的 AdamW 一致。",
    )
    names = t(", ", "、").join(list(wrong)[:3]) + (t(" …", "……") if len(wrong) > 3 else "")
    came = t(
        f"{len(wrong)} of {len(found.weights)} parameters are not: {names}.",
        f"{len(found.weights)} 个参数中有 {len(wrong)} 个不对：{names}。",
    )
    return Failure(_named(case, found.weights, wrong, step), expected, came)


def _off(
    came: Mapping[str, Tensor], by_step: Sequence[Mapping[str, Tensor]], step: int
) -> list[str]:
    """Names of the parameters that are not where `by_step` has them."""
    before, after = by_step[step], by_step[step + 1]
    found = []
    for name, want in after.items():
        way = (want - before[name]).abs().max().item() or 1.0
        if not (came[name] - want).abs().max().item() <= TOLERANCE * way:  # nan compares with none
            found.append(name)
    return found


def _named(case: Case, came: Mapping[str, Tensor], wrong: list[str], step: int) -> str:
    """The criterion: by who is wrong, else by the mistake that comes to the same weights."""
    special = {
        "adamw.frozen": set(case.frozen_names),
        "adamw.missing": set(case.late_names),
        "adamw.tied": {case.tied_name},
    }
    for criterion, names in special.items():
        if set(wrong) <= names:
            return criterion
    if step == 0 and not any(came[name].isfinite().all() for name in wrong):
        return "adamw.counter"  # divided by 1 − β⁰
    if not set(wrong) & set(_off(came, weights(case, toggled=True), step)):
        return "adamw.groups"
    for mistake, criterion in MISTAKES.items():
        if not _off(came, weights(case, mistake), step):
            return criterion
    for mistake, criterion in MISTAKES.items():  # and wrong groups besides
        as_meant, toggled = (_off(came, weights(case, mistake, to), step) for to in (False, True))
        if not set(as_meant) & set(toggled):
            return criterion
    return "adamw.shared" if _first_of_each_shape_are_right(case, wrong) else "adamw.value"


def _first_of_each_shape_are_right(case: Case, wrong: Sequence[str]) -> bool:
    """In the order of the groups."""
    first = weights(case)[0]
    seen = set()
    for name in sorted(first, key=lambda name: not decays(case, name)):
        if first[name].shape not in seen and name in wrong:
            return False
        seen.add(first[name].shape)
    return True


def _furthest(case: Case, told: Any) -> str:
    right, last = weights(case)[-1], told[-1][0].weights
    off = max((last[name] - want).abs().max().item() for name, want in right.items())
    return f"{off:.0e}"


def _decayed(case: Case, wanted: bool) -> int:
    names = [name for name in weights(case)[0] if name not in case.frozen_names]
    return sum(decays(case, name) is wanted for name in names)


EXERCISE = Exercise(
    check="adamw",
    answer="AdamW",
    lab="lab12",
    run=run,
    judge=judge,
    columns=(
        Column("model", "模型", lambda case, _: case),
        Column("parameters that decay", "衰减的参数", lambda case, _: _decayed(case, True)),
        Column("that do not", "不衰减的参数", lambda case, _: _decayed(case, False)),
        Column("steps", "步数", lambda *_: STEPS),
        Column("furthest from float64", "与 float64 的最大偏差", _furthest),
    ),
    visible=(
        Case(),
        Case(tied=True, seed=1),
        Case(frozen=True, seed=2),
        Case(late=True, seed=3),
        Case(rates=True, seed=4),
    ),
    draw=draw,
    moments=STEPS,
    moment=lambda step: t(f", step {step + 1}", f"、第 {step + 1} 步"),
)
