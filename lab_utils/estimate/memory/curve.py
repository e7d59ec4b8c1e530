"""The memory of a step over its course: what is alive at every op, forward, recomputed and
backward. For figures and tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from ...config import TrainConfig
from .exact.lifetimes import Step
from .terms import model_state_bytes


@dataclass(frozen=True)
class Moment:
    """One op, or one block, while it runs.

    `label`: the op ("blocks.3.attention.core"), the block ("blocks.3") or an end of the model.
    `phase`: "forward", "recompute", "backward" or "update". `layer`: its block, None for the ends.
    `live`: bytes by term when it is over; `highest`: by term at its highest moment, which adds up
    to `peak_bytes`. `saved_peak_bytes`: the most saved for the backward pass meanwhile.
    """

    label: str
    phase: str
    layer: int | None
    live: dict[str, int]
    highest: dict[str, int]
    saved_peak_bytes: int

    @property
    def live_bytes(self) -> int:
        """All that is alive when it is over."""
        return sum(self.live.values())

    @property
    def peak_bytes(self) -> int:
        """All that is alive at its highest moment."""
        return sum(self.highest.values())


def step_curve(
    config: TrainConfig, pp_rank: int = 0, tp_rank: int = 0, convention: str = "cpu"
) -> list[Moment]:
    """Every op of one optimizer step of a rank, in the order in which it really runs; the highest
    of them is the estimate's peak.

    The step is played through op by op, about a millisecond for each block and micro-batch: for
    drawing, not for planning.
    """
    step = Step(
        config,
        pp_rank,
        tp_rank,
        model_state_bytes(config, pp_rank, tp_rank)["optimizer"],
        convention,
    )
    torch = step.torch
    moments: list[Moment] = []
    now = ["begin", "forward"]

    def close() -> None:
        moments.append(
            Moment(
                now[0],
                now[1],
                _layer(now[0]),
                dict(torch.terms),
                dict(torch.at_peak),
                torch.saved_peak,
            )
        )
        torch.begin_peaks()

    def entered(scope: str) -> None:
        if now != [scope, torch.phase]:
            close()
            now[:] = scope, torch.phase

    torch.watcher = entered
    step.run()
    close()
    return moments


def by_block(moments: Iterable[Moment]) -> list[Moment]:
    """The same with the ops of each pass through a block, or an end of the model, taken
    together."""
    found = []
    for (label, phase), group in groupby(
        moments, key=lambda moment: (_part(moment.label), moment.phase)
    ):
        ops = list(group)
        found.append(
            Moment(
                label,
                phase,
                ops[0].layer,
                ops[-1].live,
                max(ops, key=lambda op: op.peak_bytes).highest,
                max(op.saved_peak_bytes for op in ops),
            )
        )
    return found


def _layer(label: str) -> int | None:
    return int(label.split(".")[1]) if label.startswith("blocks.") else None


def _part(label: str) -> str:
    if label.startswith("blocks."):
        return ".".join(label.split(".")[:2])
    return {
        "token_embedding": "embed",
        "position_embedding": "embed",
        "final_norm": "head_loss",
        "head": "head_loss",
        "loss": "head_loss",
    }.get(label, label)
