"""What the three exercises share: an answer at work in one process, the way it ended, how far off a tensor is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ...hints import Ladder
from ..cases import first_failure
from ..ranks import Observation, crash
from ..verdict import Failure

SLACK_BYTES = 8192      # scalars, and the state of the random generator: 5,056 bytes
TOLERANCE = 1e-5        # of the norm, fp32: another order of adding changes less than a tenth of it


def examine_alone(body: Callable[..., None], answer: Any, cases: Sequence[Any], judge: Callable[[Any, Any], Failure | None]) -> Failure | list[tuple[Any, Any]]:
    """Run the cases in one process; judge(case, facts) says what is wrong. The first failure, or every (case, facts)."""

    def verdict(case: Any, _: int, facts: list[Any] | None, seen: Observation) -> Failure | None:
        if facts is None:
            return ended_early(seen, str(case), case.criterion)
        failure = judge(case, facts[0])
        return failure._replace(criterion=case.criterion) if failure and case.criterion else failure

    found = first_failure(body, answer, cases, verdict)
    return found if isinstance(found, Failure) else [(case, told[0][0]) for case, told in found]


def ended_early(seen: Observation, where: str, criterion: str | None) -> Failure:
    """The failure of a case that did not come to its end."""
    failure = crash(seen, where, criterion)
    if seen.broken:
        return failure
    return failure._replace(expected=t("your code returns, without an exception.", "代码正常返回，不抛异常。"))


def off(came: Any, want: Tensor) -> float:
    """The norm of the difference, as a share of the norm of `want`; infinite for anything of another shape, or not finite."""
    if not isinstance(came, Tensor) or came.shape != want.shape:
        return inf
    error = (came.detach().double() - want.double()).norm() / (want.double().norm() + 1e-300)
    return error.item() if torch.isfinite(error) else inf


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """A copy, end to end."""
    return torch.cat([x.detach().flatten() for x in tensors])


def told(value: Any) -> str:
    """A value that a learner returned, in few words."""
    if isinstance(value, Tensor):
        return t(f"a tensor of shape {tuple(value.shape)}, {value.dtype}", f"形状为 {tuple(value.shape)} 的 {value.dtype} 张量")
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"


SHARED: dict[str, Ladder] = {
    "raised": (
        ("Your code raised an exception; it is quoted above.",
         "你的代码抛出了异常，见上面的引文。"),
        ("The check calls it as the exercise says, on other models and other sizes than those of the notebook.",
         "自动检查按练习里写的方式调用它，只是换了模型和大小。"),
        ("Read the quoted line, and print the shapes and None-ness of what it uses just before it.",
         "看引文的那一行，在它前面打印所用变量的形状，看看是不是有 None。"),
    ),
    "hung": (
        ("Your code did not return.",
         "你的代码一直没有返回。"),
        ("The models here are tiny: everything together takes milliseconds.",
         "这里的模型都很小，全部算完也只要几毫秒。"),
        ("Look for a loop whose condition never changes, or a search that tries the same thing again and again.",
         "找一找条件永远不变的循环，或者反复尝试同一件事的搜索。"),
    ),
}
