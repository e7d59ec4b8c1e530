"""A stage with long runs of equal blocks cut down to four, the rest counted and not played.

Each block of a run holds as much more as the one before it, so whatever is highest in the run is at
one of its ends, and what those in between leave behind is so many times what one of them leaves.
Forward, that is noted on the second block, backward on the third: both have a block of their kind
before and after them. Nothing is known of what a block holds but what was counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ....config import TrainConfig
from ....layout.units import Unit
from ...program.kernels import Torch
from ...program.live import Value
from ...program.size import Size
from ..exact.rank import Rank

SHOWN = 4  # blocks that stand for a longer run


class _Mark(NamedTuple):
    """What was alive at a moment."""

    terms: dict[str, int]
    saved: int
    copies: int


def cut_down(parts: Sequence[str], recomputed: set[int]) -> tuple[list[str], dict[str, int]]:
    """A stage's parts without the blocks that are not played, and how many are left out after which
    part."""
    shown: list[str] = []
    left_out: dict[str, int] = {}
    for run in runs_of(parts, recomputed):
        if len(run) <= SHOWN:
            shown += run
        else:
            shown += [*run[:2], *run[-2:]]
            left_out[run[1]] = len(run) - SHOWN
    return shown, left_out


def runs_of(parts: Sequence[str], recomputed: set[int]) -> list[list[str]]:
    """A stage's parts, neighbours that are alike together."""
    runs: list[list[str]] = []
    kinds: list[object] = []
    for part in parts:
        kind = int(part.split(".")[1]) in recomputed if part.startswith("blocks.") else part
        if kinds and kinds[-1] == kind:
            runs[-1].append(part)
        else:
            kinds.append(kind)
            runs.append([part])
    return runs


class ShortRank(Rank):
    """A rank of one stage that shows `parts` of it; `left_out` says how many blocks come after
    which of them and are counted."""

    def __init__(
        self,
        torch: Torch,
        config: TrainConfig,
        parts: list[str],
        left_out: Mapping[str, Size | int],
        shapes: Mapping[str, tuple[int, ...]],
        units: Iterable[Unit],
        together: frozenset[str],
        split_backward: bool,
        cp_rank: int = 0,
    ) -> None:
        super().__init__(
            torch, config, {0: parts}, shapes, units, together, split_backward, cp_rank
        )
        self.left_out = left_out
        # the third of those shown: the second
        self.closing = {parts[parts.index(part) + 1]: part for part in left_out}
        self.marks: dict[str, _Mark] = {}
        self.counted_temporary: Size | int = 0
        self.runs = {stage: self._counting(run) for stage, run in self.runs.items()}
        if getattr(self.program, "weight_grads", None) is not None:
            self.program.weight_grads.next_is = self._next_is

    def _now(self) -> _Mark:
        return _Mark(dict(self.torch.terms), self.torch.saved, self.torch.copies)

    def _more(self, times: Size | int, since: _Mark) -> Size | int:
        """Count `times` what has been added since then once more; returns the temporary bytes among
        it."""
        torch = self.torch
        added = {term: times * (nbytes - since.terms[term]) for term, nbytes in torch.terms.items()}
        saved, copies = times * (torch.saved - since.saved), times * (torch.copies - since.copies)
        torch.shift(added, saved, copies)
        return added["temporary"]

    def _counting(self, run):  # noqa: ANN001, ANN202 - as Rank.runs' values
        def counted(part: str, x: Value | None, micro: int) -> Value:
            if part in self.left_out:
                self.marks[part] = self._now()
            # the second is over, and its input gone if nobody saved it
            elif part in self.closing:
                second = self.closing[part]
                self.counted_temporary += self._more(self.left_out[second], self.marks.pop(second))
            y = run(part, x, micro)
            return self._marker(part, y) if part in self.left_out or part in self.closing else y

        return counted

    def _marker(self, part: str, y: Value) -> Value:
        z = y.detach()

        def backward(saved: list[Value], gradients: list[Value]) -> list[Value]:
            if part in self.closing:
                self.marks[self.closing[part]] = self._now()
            else:
                self._more(self.left_out[part], self.marks.pop(part))
            return [gradients[0]]

        self.torch.record(z, (y,), (), backward)
        return z

    def _next_is(self, weight: str) -> None:
        part = ".".join(weight.split(".")[:2])
        if part in self.closing and self.closing[part] not in self.marks:
            self.marks[self.closing[part]] = self._now()
        elif part in self.marks:
            self._more(self.left_out[part], self.marks.pop(part))

    def through(self, stage: int, x: Value | None, micro: int) -> Value:
        y = super().through(stage, x, micro)
        # casts that only the autocast context kept
        self.torch.shift({"temporary": -self.counted_temporary}, 0, 0)
        self.counted_temporary = 0
        return y
