"""Context parallelism with one line made wrong, as mutations.py does it to the rest."""

from __future__ import annotations

from typing import Any


def parts_put_together_as_if_equal() -> None:
    """Ring: two partial results are averaged, whatever they stand for."""
    import torch

    import lab_utils.parallel.context as room

    def halves(out: Any, lse: Any, other: Any, other_lse: Any) -> None:
        lse.copy_(torch.logaddexp(lse, other_lse))
        out.lerp_(other.float(), 0.5)

    room._merge = halves


def weight_of_the_sum_not_kept() -> None:
    """Ring: the log-sum-exp stays that of our own keys, so the backward pass weighs wrongly."""
    import lab_utils.parallel.context as room

    def forgetful(out: Any, lse: Any, other: Any, other_lse: Any) -> None:
        out.lerp_(other.float(), (other_lse - lse).sigmoid_()[..., None])

    room._merge = forgetful


def own_tokens_see_the_future() -> None:
    """Ring: no mask where a rank's queries meet its own keys."""
    _meetings(lambda meeting: meeting._replace(causal=False))


def earlier_and_later_changed_over() -> None:
    """Ring: the late half of the keys is met where the early one is due."""
    import lab_utils.parallel.context as room

    go_round = room._go_round

    def other_half(axis: Any, k: Any, v: Any) -> Any:
        flipped = [x.roll(x.shape[2] // 2, 2) for x in (k, v)]
        for (meeting, keys, values), right in zip(
            go_round(axis, *flipped), go_round(axis, k, v), strict=True
        ):
            yield (meeting, keys, values) if meeting.keys == "earlier" else right

    room._go_round = other_half


def the_same_keys_every_time() -> None:
    """Ring: a rank meets its own keys again instead of those that came."""
    import lab_utils.parallel.context as room

    go_round = room._go_round

    def own(axis: Any, k: Any, v: Any) -> Any:
        for meeting, keys, _ in go_round(axis, k, v):
            part = keys.shape[2]
            yield meeting, k[:, :, :part], v[:, :, :part]

    room._go_round = own


def gradients_of_keys_not_sent_home() -> None:
    """Ring: what other ranks owe our keys is left where it was computed."""
    from lab_utils.parallel.context import _TravellingGradients

    def only_own(self: Any) -> tuple[Any, Any]:
        self.arriving.wait()
        return self.own[0].transpose(1, 2), self.own[1].transpose(1, 2)

    _TravellingGradients.home = only_own


def positions_counted_from_zero() -> None:
    """Every rank takes its tokens for the first of the sequence."""
    import torch

    import lab_utils.parallel.context as room

    room._positions = lambda axis, kind, count, **options: torch.arange(count, **options)


def plain_runs_for_a_zigzag_ring() -> None:
    """The loader cuts sequences into plain runs, attention takes them for a zigzag."""
    import lab_utils.data.loader as room

    runs = room.runs_of_rank
    room.runs_of_rank = lambda seq, ranks, rank, kind: runs(seq, ranks, rank, "all-to-all")


def heads_come_back_in_another_order() -> None:
    """All-to-all: on the way back heads and ranks are interleaved the other way."""
    import lab_utils.parallel.context as room

    def shuffled(x: Any, axis: Any) -> Any:
        arrived = room._exchanged(
            x.transpose(1, 2).unflatten(1, (axis.size, -1)).movedim(1, 0), axis
        )
        return arrived.movedim(0, 3).flatten(2, 3).transpose(1, 2)

    room._all_heads = shuffled


def heads_kept_instead_of_sent() -> None:
    """All-to-all: every rank gets back what it meant for the others."""
    import lab_utils.parallel.context as room

    room._exchanged = lambda parts, axis: parts.contiguous()


def gradients_summed_over_dp_alone() -> None:
    """Ranks that saw other tokens of the same sequences keep their gradients to themselves."""
    import lab_utils.parallel.parallelize as room
    from lab_utils.parallel.gradient_sync import GradientSync

    room.data_parallel = lambda model, axis, **options: GradientSync(model, axis)


def _meetings(change: Any) -> None:
    import lab_utils.parallel.context as room

    meetings = room.meetings
    room.meetings = lambda ranks, rank: tuple(map(change, meetings(ranks, rank)))
