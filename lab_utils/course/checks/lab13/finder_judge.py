"""What is wrong with a range test: the rates that the weights saw, what it made of the losses that
the model gave, where it stopped, what it suggests, and what it left behind."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose, isfinite

from ....i18n import t
from ..verdict import Failure
from ..waited_axis import Sent, judge_sent
from .curves import Case, Right, grows_linearly, right_outcome, update_means


@dataclass
class Facts:
    """One rank: the rates that moved its weights, the losses that its model gave, what the answer
    returned, what is not as it was before, what was sent, and how large the first update's gradient
    was beside the right one."""

    moved: list[float]
    given: list[float]
    rates: list[float]
    smoothed: list[float]
    suggestion: float
    changed: list[str]
    sent: Sent
    gradient: float = 1.0


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
            or _gradient(found)
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


def _gradient(found: Facts) -> Failure | None:
    if isclose(found.gradient, 1, rel_tol=1e-6):
        return None
    return Failure(
        "finder.mean",
        t(
            "the first update moves the weights by the mean gradient of its micro-batches and of"
            " the ranks.",
            "第一次更新用的梯度，是它的各微批次、各 rank 的平均。",
        ),
        t(
            f"another gradient (projected, {found.gradient:.2f} times the right one).",
            f"别的梯度（投影是应有值的 {found.gradient:.2f} 倍）。",
        ),
    )


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


def judge_updates(case: Case, found: Facts) -> Failure | None:
    """What can be said of one rank's updates if the answer returned nothing."""
    means = update_means(found.given, case.group)
    return _rates(case, found) or _stop(case, found, right_outcome(means), len(means))
