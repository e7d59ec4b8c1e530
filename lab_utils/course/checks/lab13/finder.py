"""Exercise 3: a learning-rate range test in the middle of a run, on one rank and on three."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import torch

from ...notebook import Todo
from ..exercise import Column, Exercise
from ..ranks import BrokenRule, begin_case, saw
from ..transfers import Transfers
from ..waited_axis import Sent, see, waited_axis
from .curves import Case, WatchedModel
from .finder_judge import Facts, judge, judge_updates
from .small import Data, Log, WatchedSGD, pull

FIRST_RATE, BEFORE = 0.05, 3  # the run that the test interrupts: its rate, its updates


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """A run on every rank, interrupted for a range test."""
    plain, axis = waited_axis("all_reduce")
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        torch.manual_seed(case.seed + axis.rank)
        model, rates = WatchedModel(case, axis.rank), Log()
        optimizer = WatchedSGD([{"params": list(model.parameters()), "lr": FIRST_RATE}], rates)
        data = Data(case.seed, axis.rank)
        for _ in range(BEFORE):
            optimizer.zero_grad()
            model(*data.next()).backward()
            flat = torch.cat([p.grad.flatten() for p in model.parameters()])
            plain.all_reduce(flat, purpose="gradient").wait()
            torch.nn.utils.vector_to_parameters(flat, [p.grad for p in model.parameters()])
            optimizer.step()
        optimizer.zero_grad()
        right_pull = _first_pull(case, model, data, plain)
        rates.clear()
        optimizer.pulls.clear()
        model.given.clear()
        before = _state(model, optimizer, data)
        axis.begin()
        call = (model, optimizer, data, case.group, axis, case.low, case.high, case.updates)
        try:
            with Transfers() as transfers:
                returned = answer(*call)
        except (Todo, BrokenRule):
            raise
        except Exception:
            # what went wrong before it says more than an exception at the end
            if case.ranks == 1 and _before_the_end(number, case, model, rates):
                return
            raise
        changed = _changed(before, _state(model, optimizer, data))
        left = [p.grad for p in model.parameters() if p.grad is not None and p.grad.any()]
        facts = Facts(
            [rate for (rate,) in rates],
            list(model.given),
            *_numbers(returned),
            [*changed, "gradients"] if left else changed,
            see(axis, transfers),
            (optimizer.pulls or [0.0])[0] / right_pull,
        )
        saw(number, facts)


def _first_pull(case: Case, model: WatchedModel, data: Data, axis: Any) -> float:
    """Of the gradient that the first update should have: the mean over micro-batches and ranks."""
    random, model, data = torch.get_rng_state(), deepcopy(model), deepcopy(data)
    for _ in range(case.group):
        (model(*data.next()) / case.group).backward()
    torch.set_rng_state(random)
    found = torch.tensor([pull(next(model.parameters()))], dtype=torch.float64)
    axis.all_reduce(found, purpose="control").wait()
    return found.item() / case.ranks


def _before_the_end(number: int, case: Case, model: WatchedModel, rates: list[Any]) -> bool:
    """Whether updates were wrong already when an exception ended the answer; then tells them."""
    moved, nothing = [rate for (rate,) in rates], Sent({}, {}, [], False)
    facts = Facts(moved, list(model.given), [], [], 0.0, [], nothing)
    wrong = judge_updates(case, facts)
    if wrong:
        saw(number, facts)
    return wrong is not None


def _state(model: WatchedModel, optimizer: WatchedSGD, data: Data) -> dict[str, Any]:
    """A copy of all that must be as it was."""
    [group] = optimizer.param_groups
    moments = [optimizer.state[p].get("momentum_buffer") for p in group["params"]]
    return deepcopy(
        {
            "restored": list(model.state_dict().values()),
            "optimizer": [*moments, torch.tensor(group["lr"])],
            "rng": [torch.get_rng_state()],
            "data": [torch.tensor(data.position)],
        }
    )


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        part
        for part, values in before.items()
        if not all(
            b is not None and torch.equal(a, b) for a, b in zip(values, after[part], strict=True)
        )
    ]


def _numbers(returned: Any) -> tuple[list[float], list[float], float]:
    """What the answer returned as numbers: rates, smoothed losses, the suggestion."""
    rates, smoothed, suggestion = returned
    return [float(r) for r in rates], [float(s) for s in smoothed], float(suggestion)


def draw(random: Random) -> list[Case]:
    """Every kind of curve, with other sizes."""

    def case(ranks: int, curve: str | None, criterion: str | None = None) -> Case:
        updates, group = random.randint(17, 21), random.randint(1, 2 if ranks > 1 else 3)
        at = random.randint(updates * 2 // 3, updates - 4)
        low = 10 ** random.uniform(-4, -2)
        high, seed = low * 10 ** random.uniform(4, 5), random.randint(1, 10**6)
        return Case(ranks, group, updates, low, high, curve, at, seed, criterion)

    alone = [case(1, kind) for kind in (None, "spike", "nan")]
    # a bias that is not corrected, and a rate per micro-batch, need more than one to show
    alone[0] = alone[0]._replace(group=2)
    kinds = (None, "explodes", "one-explodes", "one-nan")
    together = [case(3, kind, "finder.agree") for kind in kinds]
    return [*alone, *together, case(1, "early")]


EXERCISE = Exercise(
    check="find_rate",
    answer="find_rate",
    lab="lab13",
    run=run,
    judge=judge,
    columns=(
        Column("ranks", "rank 数", lambda case, _: case.ranks),
        Column("updates made", "更新次数", lambda _, told: len(told[0][0].moved)),
        Column("first rate", "第一个学习率", lambda _, told: f"{told[0][0].moved[0]:.3g}"),
        Column("last rate", "最后一个学习率", lambda _, told: f"{told[0][0].moved[-1]:.3g}"),
        Column("lowest loss", "最低损失", lambda _, told: f"{min(told[0][0].smoothed):.3f}"),
        Column("suggestion", "建议", lambda _, told: f"{told[0][0].suggestion:.3g}"),
        Column("bytes from rank 0", "rank 0 发送（字节）", lambda _, told: _bytes(told[0][0].sent)),
    ),
    visible=(
        Case(),
        Case(curve="spike", at=13, seed=1),
        Case(curve="explodes", at=14, seed=2),
        Case(curve="nan", at=15, seed=3),
        Case(curve="early", seed=7),
        Case(3, updates=16, seed=4, criterion="finder.agree"),
        Case(3, 1, curve="one-explodes", at=13, seed=5, criterion="finder.agree"),
        Case(3, 1, curve="one-nan", at=14, seed=6, criterion="finder.agree"),
    ),
    draw=draw,
)


def _bytes(sent: Sent) -> int:
    return sum(sent.bytes.values())
