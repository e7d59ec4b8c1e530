"""What the three exercises share: an answer at work in one process, the way it ended, how far off a
tensor is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ..ranks import Observation, crash
from ..verdict import Failure

SLACK_BYTES = 8192  # scalars, and the state of the random generator: 5,056 bytes
TOLERANCE = 1e-5  # of the norm, fp32: another order of adding changes less than a tenth of it


def judged(
    judge: Callable[[Any, Any], Failure | None],
) -> Callable[[Any, list[Any], int], Failure | None]:
    """An exercise's judge out of judge(case, facts) of the one process; a case that is there to
    show one thing gives its failures that name."""

    def verdict(case: Any, facts: list[Any], _: int) -> Failure | None:
        failure = judge(case, facts[0])
        return failure._replace(criterion=case.criterion) if failure and case.criterion else failure

    return verdict


def ended(seen: Observation, case: Any, _: int) -> Failure:
    """The failure of a case that did not come to its end."""
    failure = crash(seen, "", case.criterion)
    if seen.broken:
        return failure
    return failure._replace(
        expected=t("your code returns, without an exception.", "代码正常返回，不抛异常。")
    )


def worst(errors: Iterable[float]) -> float:
    """The largest; infinite where one is not a number, which compares with nothing."""
    return max((inf if isnan(error) else error for error in errors), default=0.0)


def off(came: Any, want: Tensor) -> float:
    """The norm of the difference, as a share of the norm of `want`; infinite for anything of
    another shape, or not finite."""
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
        return t(
            f"a tensor of shape {tuple(value.shape)}, {value.dtype}",
            f"形状为 {tuple(value.shape)} 的 {value.dtype} 张量",
        )
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"
