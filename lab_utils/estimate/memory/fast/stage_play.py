"""A stage of one kind played through, for three micro-batches at most: what each action changes, in
bytes or as formulas of the sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from ...program.conventions import CONVENTIONS
from ...program.formulas import Formulas, Highest
from ...program.kinds import Kind, Sizes, filled_in, names_of, shapes_of, units_of
from ...program.size import Size
from ...program.tape import Leaf
from ..exact.sharded import Sharded
from .change import ChangeFormulas, Context, Reached, Terms
from .short import ShortRank


class Played(NamedTuple):
    """A stage of a kind: long runs of blocks are cut down to `parts`, with a number of its own for
    those left out after each."""

    kind: Kind
    parts: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    rows: bool
    together: frozenset[str]
    split_backward: bool
    convention: str


@lru_cache(maxsize=2048)
def stage_formulas(played: Played) -> Mapping[Context, ChangeFormulas]:
    """Every change as formulas, for all shapes of the kind; as long as playing ten shapes."""
    own = {name: Size.named(name) for name in ("rows", *(name for _, name in played.left_out))}
    return play_stage(played, {**names_of(played.kind), **own})


def play_stage(played: Played, sizes: Sizes) -> dict[Context, ChangeFormulas]:
    """Every change for these sizes. Where they are numbers, so is what comes out."""
    found: dict[Context, ChangeFormulas] = {}
    for rows in (False, True) if played.rows else (False,):
        found.update(_play(played, sizes, rows))
    return found


def _stage(played: Played, sizes: Sizes) -> ShortRank:
    kind, parts = played.kind, list(played.parts)
    left_out = {part: sizes[name] for part, name in played.left_out}
    units = units_of(kind, parts, sizes) if kind.zero else []
    torch = Formulas(CONVENTIONS[played.convention])
    return ShortRank(
        torch,
        filled_in(kind, sizes),
        parts,
        left_out,
        shapes_of(kind, parts, sizes),
        units,
        played.together,
        played.split_backward,
        kind.share.cp_rank,
    )


def _play(played: Played, sizes: Sizes, rows: bool) -> Iterator[tuple[Context, ChangeFormulas]]:
    stage, zero = _stage(played, sizes), played.kind.zero
    torch, sync, m = stage.torch, stage.sync, played.kind.micro_batches
    embed, head_loss = played.parts[0] == "embed", played.parts[-1] == "head_loss"
    if played.rows:
        stage.tokens[0].storage.resize(sizes["rows"])
    note = _Note(stage)
    sync.zero_grad()
    if rows:
        torch.hold(stage.tokens[0].storage)
    for micro in range(m):
        first, last = micro == 0, micro == m - 1 and zero == 1
        sync.enabled = micro == m - 1
        x = None if embed else stage.boundary()
        leaf = None if x is None else Leaf(x)
        if x is not None:
            torch.hold(x.storage)
        gradient = None if head_loss else stage.boundary()
        note.begin()
        outputs = [stage.through(0, x, micro)]
        yield Context("F", rows=rows), note.end(0 if head_loss else outputs[0].nbytes)
        root = outputs[0].node, outputs[0].slot
        if gradient is not None:
            outputs.clear()
        if played.split_backward:
            stage.program.weight_grads.open((micro, 0))
        note.begin_alone()
        if gradient is None:
            scaled = torch.scale(outputs.pop())
            torch.go_back([(scaled.node, scaled.slot, torch.new(1, 4))])
            del scaled
        else:
            torch.go_back([(*root, gradient)])
        change, message, before = (
            note.end(0 if leaf is None else leaf.grad.nbytes),
            gradient is not None,
            torch.live,
        )
        gradient = None
        yield (
            Context("B", first, last, rows),
            replace(change, keeps_message=message and torch.live == before),
        )
        if played.split_backward:
            note.begin_alone()
            stage.program.weight_grads.compute((micro, 0))
            yield Context("W", first, last), note.end(0)
        if x is not None:
            torch.release(x.storage)
            leaf.take()


class _Note:
    """Notes what is added between `begin` and `end`."""

    def __init__(self, stage: ShortRank) -> None:
        self.torch, self.sync = stage.torch, stage.sync
        self.first_sum: Reached | None = None
        self.terms, self.saved, self.copies = dict(stage.torch.terms), 0, 0
        if isinstance(self.sync, Sharded):
            self.sync.before_reduce = self._sum

    def begin(self) -> None:
        torch, self.first_sum = self.torch, None
        self.terms, self.saved, self.copies = dict(torch.terms), torch.saved, torch.copies
        torch.begin_peaks()

    def begin_alone(self) -> None:
        """Begin with nothing on its way."""
        if isinstance(self.sync, Sharded):
            self.sync.collect()
        self.begin()

    def _added(self, terms: Mapping[str, Size | int]) -> Terms:
        return {
            term: nbytes - self.terms[term]
            for term, nbytes in terms.items()
            if nbytes != self.terms[term]
        }

    def _so_far(self, highest: Highest) -> list[tuple[Size | int, Terms]]:
        return [(level, self._added(terms)) for level, terms in highest.rows]

    def _sum(self) -> None:
        if self.first_sum is None:
            torch = self.torch
            torch.settle()
            self.first_sum = Reached(
                self._so_far(torch.highest), torch.live, self._added(torch.terms)
            )

    def end(self, handed_on: Size | int) -> ChangeFormulas:
        """`handed_on`: temporary bytes of what goes to another stage; whoever plays the change
        accounts for them."""
        torch = self.torch
        torch.settle()
        after = self._added(torch.terms)
        after["temporary"] = after.get("temporary", 0) - handed_on
        on_its_way = (
            self.sync.on_its_way()
            if isinstance(self.sync, Sharded) and self.first_sum is not None
            else (0, 0, 0)
        )
        return ChangeFormulas(
            self._so_far(torch.highest),
            after,
            [level - self.saved for level, _ in torch.most_saved.rows],
            torch.saved - self.saved,
            [level - self.copies for level, _ in torch.most_copies.rows],
            torch.copies - self.copies,
            self.first_sum,
            on_its_way,
        )
