"""Pipeline schedules, as data: which rank does what in which order. One executor runs them, one
simulator times them.

Every schedule keeps two promises. On each stage the backward passes come in the order of the
micro-batches, so that gradients are summed in the same order whatever the schedule; and the last
contribution to a stage's gradients is always that of micro-batch m−1, which is where their
reduction over the data-parallel axis may start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from ..config import ConfigError, Schedule
from ..i18n import t


class Action(NamedTuple):
    """One piece of work: one micro-batch on one virtual stage.

    `kind` F is the forward pass and B the backward pass; in a schedule with W, B computes the
    gradient of the stage's input only and W that of its weights. `stage` counts through the whole
    model, 0 … p·v−1: it lives on rank `stage % p` as that rank's chunk `stage // p`.
    """

    kind: Literal["F", "B", "W"]
    micro: int
    stage: int


# schedule[r]: the actions of pipeline rank r, in order
PipelineSchedule = tuple[tuple[Action, ...], ...]


def make_schedule(
    name: Schedule, ranks: int, micro_batches: int, virtual_stages: int = 1
) -> PipelineSchedule:
    """The schedule of one optimizer step: `micro_batches` (m) through `ranks` (p) times
    `virtual_stages` (v) stages.

    gpipe: all forwards, then all backwards (Huang et al. 2019). 1f1b: PipeDream-flush, the default
    schedule of Narayanan et al. 2021 (SC21), section 2.2.1. interleaved: their section 2.2.2, v
    chunks a rank; m must be a multiple of p. zero-bubble: ZB-H1 of Qi et al. 2023, "Zero Bubble
    Pipeline Parallelism", section 2.1. Raises ConfigError (a ValueError) with what works instead.
    """
    refuse_schedule(name, ranks, micro_batches, virtual_stages)
    return tuple(
        rank_schedule(name, rank, ranks, micro_batches, virtual_stages) for rank in range(ranks)
    )


def rank_schedule(
    name: Schedule, rank: int, ranks: int, micro_batches: int, virtual_stages: int = 1
) -> tuple[Action, ...]:
    """One rank's part of `make_schedule`'s schedule, unchecked."""
    if name == "interleaved":
        return _interleaved(rank, ranks, micro_batches, virtual_stages)
    return {"gpipe": _gpipe, "1f1b": _one_forward_one_backward, "zero-bubble": _zero_bubble}[name](
        rank, ranks, micro_batches
    )


def refuse_schedule(name: str, ranks: int, micro_batches: int, virtual_stages: int = 1) -> None:
    """Raise ConfigError, with the nearest that works, for what `make_schedule` cannot make; else
    return at once."""
    if name not in get_args(Schedule):
        known = get_args(Schedule)
        raise ConfigError(
            t(
                f"there is no schedule {name!r}; choose {', '.join(known)}.",
                f"没有名为 {name!r} 的流水线调度，可选：{'、'.join(known)}。",
            )
        )
    for what, zh, value in (
        ("ranks", "进程数", ranks),
        ("micro-batches", "微批次数", micro_batches),
        ("virtual stages", "虚拟阶段数", virtual_stages),
    ):
        if not isinstance(value, int) or value < 1:
            raise ConfigError(
                t(
                    f"a pipeline needs a whole number of {what} from 1 up, not {value!r}.",
                    f"流水线的{zh}应为不小于 1 的整数，而不是 {value!r}。",
                )
            )
    if name != "interleaved" and virtual_stages > 1:
        raise ConfigError(
            t(
                f"--schedule {name} gives each rank one stage: use --virtual-stages 1, or"
                " --schedule interleaved.",
                f"--schedule {name} 下每个进程只有一个阶段：请用 --virtual-stages 1，或改用"
                " --schedule interleaved。",
            )
        )
    if name == "interleaved" and virtual_stages == 1:
        raise ConfigError(
            t(
                "--schedule interleaved needs --virtual-stages 2 or more; with 1 it is --schedule"
                " 1f1b.",
                "--schedule interleaved 需要 --virtual-stages 2 或更多；取 1 时就是 --schedule"
                " 1f1b。",
            )
        )
    if name == "interleaved" and micro_batches % ranks:
        below = micro_batches // ranks * ranks
        nearest = [str(m) for m in (below, below + ranks) if m]
        raise ConfigError(
            t(
                f"--schedule interleaved sends micro-batches in groups of --pp {ranks}, and"
                f" {micro_batches} is no multiple of it; nearest that works: {' or '.join(nearest)}"
                " micro-batches.",
                f"--schedule interleaved 以 --pp {ranks} 个微批次为一组，"
                f"而微批次数 {micro_batches} 不是它的倍数；"
                f"最接近的可用值：{' 或 '.join(nearest)}。",
            )
        )


def splits_backward(schedule: PipelineSchedule) -> bool:
    """Whether the schedule computes the gradients of weights in actions of their own (W)."""
    return any(action.kind == "W" for actions in schedule for action in actions)


def _gpipe(rank: int, ranks: int, micro_batches: int) -> tuple[Action, ...]:
    """Every rank holds all m micro-batches' activations when the first backward begins.

    Backwards start at micro-batch 0 for the promises above; from the last to the first they take as
    long and hold as much.
    """
    return tuple(Action(kind, micro, rank) for kind in ("F", "B") for micro in range(micro_batches))


def _one_forward_one_backward(rank: int, ranks: int, micro_batches: int) -> tuple[Action, ...]:
    """As many forwards ahead as there are ranks behind this one, so that rank r holds at most p−r
    micro-batches."""
    forwards, backwards = (
        [Action(kind, micro, rank) for micro in range(micro_batches)] for kind in ("F", "B")
    )
    return tuple(_alternate(forwards, backwards, ahead=ranks - 1 - rank))


def _zero_bubble(rank: int, ranks: int, micro_batches: int) -> tuple[Action, ...]:
    """1F1B with half-length backwards; rank r does its weight gradients r micro-batches late.

    The p−r micro-batches that 1F1B has in flight plus the r that wait for their W make p on every
    rank: what 1F1B's first rank holds. A backward sent on without its weight gradients reaches rank
    0 earlier, and the W's that were put off fill the end of the step, where 1F1B idles.
    """
    return tuple(
        _weights_behind(_one_forward_one_backward(rank, ranks, micro_batches), behind=rank)
    )


def _interleaved(rank: int, ranks: int, micro_batches: int, chunks: int) -> tuple[Action, ...]:
    """1F1B over v·m pieces: p micro-batches pass through chunk 0, then through chunk 1 …, then the
    next p follow.

    Rank r runs (v−1)p + 2(p−1−r) forwards ahead: p micro-batches through every chunk but the last,
    then one forward for each step that the first micro-batch takes from here to the last rank and
    back. At m = p rank 0 does all its forwards first.
    """

    def pieces(kind: Literal["F", "B"], order: Iterable[int]) -> list[Action]:
        order = list(order)
        return [
            Action(kind, first + i, chunk * ranks + rank)
            for first in range(0, micro_batches, ranks)
            for chunk in order
            for i in range(ranks)
        ]

    ahead = 2 * (ranks - 1 - rank) + (chunks - 1) * ranks
    return tuple(
        _alternate(pieces("F", range(chunks)), pieces("B", reversed(range(chunks))), ahead)
    )


def _alternate(forwards: list[Action], backwards: list[Action], ahead: int) -> Iterator[Action]:
    """Warm-up: `ahead` forwards. Steady: one forward, one backward. Cool-down: the backwards that
    are left."""
    yield from forwards[:ahead]
    for i, backward in enumerate(backwards):
        if ahead + i < len(forwards):
            yield forwards[ahead + i]
        yield backward


def _weights_behind(actions: Iterable[Action], behind: int) -> Iterator[Action]:
    """The same actions with a W for each B, put off until `behind` later backwards are done (or
    none are left)."""
    waiting: list[Action] = []
    for action in actions:
        yield action
        if action.kind == "B":
            waiting.append(action._replace(kind="W"))
            if len(waiting) > behind:
                yield waiting.pop(0)
    yield from waiting
