"""Whether communication really ran under the backward pass, read off a ledger's trace."""

from __future__ import annotations

from typing import NamedTuple

from ..i18n import t


class Overlap(NamedTuple):
    """`ready_at_first_send`: gradients that existed when the first message left, of `gradients` in
    all."""

    gradients: int
    ready_at_first_send: int
    sent_before_last_gradient: bool
    waited_before_last_gradient: bool

    @property
    def real(self) -> bool:
        """The first message left before the last gradient existed, and nothing was waited for until
        then."""
        return self.sent_before_last_gradient and not self.waited_before_last_gradient


def overlap(trace: list[tuple[float, str, str]]) -> Overlap:
    """Judge one step's `Ledger.trace()`: (seconds, kind, name) with kinds "gradient", "issue" and
    "wait".

    Raises ValueError for a trace without gradients or without messages.
    """
    when = {kind: [at for at, k, _ in trace if k == kind] for kind in ("gradient", "issue", "wait")}
    if not when["gradient"] or not when["issue"]:
        raise ValueError(
            t(
                "this trace has no gradients or no messages: it must cover a backward pass on more"
                " than one rank.",
                "这段轨迹里没有梯度或没有消息：它必须包含多个进程上的一次反向传播。",
            )
        )
    last = max(when["gradient"])
    first_send = min(when["issue"])
    return Overlap(
        len(when["gradient"]),
        sum(at < first_send for at in when["gradient"]),
        first_send < last,
        any(at < last for at in when["wait"]),
    )
