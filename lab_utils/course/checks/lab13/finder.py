"""Exercise 3: a learning-rate range test, judged on the rates that the weights saw, where it
stopped, what it made of the losses that the model gave, and what it left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isclose, isfinite
from random import Random
from typing import Any

import torch

from ....i18n import t
from ...notebook import Todo
from ..exercise import Column, Exercise
from ..ranks import BrokenRule, begin_case, saw
from ..transfers import Transfers
from ..verdict import Failure
from ..waited_axis import Sent, judge_sent, see, waited_axis
from .curves import Case, Right, WatchedModel, grows_linearly, right_outcome, update_means
from .small import Data, Log, WatchedSGD

FIRST_RATE, BEFORE = 0.05, 3  # the run that the test interrupts: its rate, its updates


@dataclass
class Facts:
    """One rank: the rates that moved its weights, the losses that its model gave, what the answer
    returned, what is not as it was before, and what was sent."""

    moved: list[float]
    given: list[float]
    rates: list[float]
    smoothed: list[float]
    suggestion: float
    changed: list[str]
    sent: Sent


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
        rates.clear()
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
        )
        saw(number, facts)


def _before_the_end(number: int, case: Case, model: WatchedModel, rates: list[Any]) -> bool:
    """Whether updates were wrong already when an exception ended the answer; then tells them."""
    facts = Facts(
        [rate for (rate,) in rates], list(model.given), [], [], 0.0, [], Sent({}, {}, [], False)
    )
    means = update_means(facts.given, case.group)
    wrong = _rates(case, facts) or _stop(case, facts, right_outcome(means), len(means))
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


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """Transfers; rates; the smoothed losses; where it stopped; the suggestion; what it left."""
    own = [update_means(found.given, case.group) for found in facts]
    means = [sum(losses) / case.ranks for losses in zip(*own, strict=False)]
    failure = judge_sent([found.sent for found in facts])
    for rank, found in enumerate(facts):
        failure = (
            failure
            or _rates(case, found)
            or _smoothed(found, right_outcome(means), right_outcome(own[rank]), case)
            or _stop(case, found, right_outcome(means), len(means))
            or _returned(found, right_outcome(means))
            or _left(rank, found)
        )
    return failure


def _rates(case: Case, found: Facts) -> Failure | None:
    pairs = enumerate(zip(found.moved, case.rates(), strict=False))
    wrong = next((u for u, (a, b) in pairs if not isclose(a, b, rel_tol=1e-6)), None)
    if wrong is None:
        return None
    return Failure(
        "finder.linear" if grows_linearly(found.moved) else "finder.rates",
        t(
            f"update {wrong} (from 0) moves the weights with a rate of"
            f" {case.rates()[wrong]:.4g}: one factor from update to update.",
            f"第 {wrong} 次更新（从 0 数起）的学习率是 {case.rates()[wrong]:.4g}："
            "每次更新乘以同一个倍数。",
        ),
        f"{found.moved[wrong]:.4g}",
    )


def _smoothed(found: Facts, right: Right, own: Right, case: Case) -> Failure | None:
    came = found.smoothed
    pairs = enumerate(zip(came, right.smoothed, strict=False))
    wrong = next((u for u, (a, b) in pairs if not isclose(a, b, rel_tol=1e-6)), None)
    if wrong is None:
        return None

    def like(values: list[float]) -> bool:
        pairs = zip(came, values, strict=False)
        return bool(values) and all(isclose(a, b, rel_tol=1e-6) for a, b in pairs)

    kind = "finder.smooth"
    if not isfinite(came[wrong]):
        kind = "finder.nan"
    elif case.ranks > 1 and like(own.smoothed):
        kind = "finder.average"
    elif like(right.biased):
        kind = "finder.bias"
    return Failure(
        kind,
        t(
            f"before update {wrong} the smoothed loss is {right.smoothed[wrong]:.4f}.",
            f"第 {wrong} 次更新之前，平滑后的损失是 {right.smoothed[wrong]:.4f}。",
        ),
        f"{came[wrong]:.4f}",
    )


def _stop(case: Case, found: Facts, right: Right, seen: int) -> Failure | None:
    made, wanted = len(found.moved), len(right.smoothed)
    if right.ends and made > wanted:
        return Failure(
            "finder.nan" if right.not_finite else "finder.late",
            t(
                f"{wanted} updates: the loss after them ends the test.",
                f"{wanted} 次更新：再往后的损失应当终止测试。",
            ),
            str(made),
        )
    if not right.ends and (made < case.updates or seen < case.updates):
        # without its correction the mean seems to rise from the beginning
        biased = right.ends_biased == seen
        return Failure(
            "finder.bias" if biased else "finder.early",
            t(
                f"{case.updates} updates: the smoothed loss never exceeds twice its lowest.",
                f"{case.updates} 次更新：平滑后的损失从未超过其最低值的两倍。",
            ),
            str(made),
        )
    if made < wanted:
        return Failure(
            "finder.early", t(f"at least {wanted} updates.", f"至少 {wanted} 次更新。"), str(made)
        )
    return None


def _returned(found: Facts, right: Right) -> Failure | None:
    made = len(found.moved)
    if len(found.rates) != made or len(found.smoothed) != made:
        finite = all(map(isfinite, found.smoothed))
        return Failure(
            "finder.lists" if finite else "finder.nan",
            t(
                f"a rate and a smoothed loss for each of the {made} updates that were made.",
                f"已做的 {made} 次更新，每次一个学习率和一个平滑后的损失。",
            ),
            t(
                f"{len(found.rates)} rates, {len(found.smoothed)} losses.",
                f"{len(found.rates)} 个学习率，{len(found.smoothed)} 个损失。",
            ),
        )
    pairs = zip(found.rates, found.moved, strict=True)
    if not all(isclose(a, b, rel_tol=1e-6) for a, b in pairs):
        words = t("the rates that moved the weights.", "真正移动了权重的学习率。")
        return Failure("finder.lists", words, t("other rates", "别的学习率"))
    want = found.moved[right.steepest]
    if not isclose(found.suggestion, want, rel_tol=1e-6):
        return Failure(
            "finder.suggestion",
            t(
                f"{want:.4g}: update {right.steepest} made the smoothed loss fall most.",
                f"{want:.4g}：第 {right.steepest} 次更新使平滑后的损失下降最多。",
            ),
            f"{found.suggestion:.4g}",
        )
    return None


def _left(rank: int, found: Facts) -> Failure | None:
    if not found.changed:
        return None
    first = found.changed[0]
    what = {
        "restored": t("weights", "权重"),
        "optimizer": t("moments and rate in the optimizer", "优化器里的动量和学习率"),
        "rng": t("state of the random generator", "随机数发生器的状态"),
        "data": t("position in the data", "数据的位置"),
        "gradients": t("gradients", "梯度"),
    }[first]
    return Failure(
        f"finder.{first}",
        t(
            "after the test everything is as it was before, to the bit.",
            "测试之后，一切都与之前逐位相同。",
        ),
        t(f"rank {rank}: not the {what}.", f"rank {rank}：{what}不一样了。"),
    )


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
    return [*alone, *together]


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
        Case(3, updates=16, seed=4, criterion="finder.agree"),
        Case(3, 1, curve="one-explodes", at=13, seed=5, criterion="finder.agree"),
        Case(3, 1, curve="one-nan", at=14, seed=6, criterion="finder.agree"),
    ),
    draw=draw,
)


def _bytes(sent: Sent) -> int:
    return sum(sent.bytes.values())
