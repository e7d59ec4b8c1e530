"""What one action of a pipeline stage does to a rank's memory, whatever else the rank holds at that moment.

The passes of a stage differ only in whether they are the step's first (gradients come into being) or its last (they are sent
away), so a stage of each kind is played through once, for three micro-batches at most and with names in place of sizes. What
each action added are formulas; a shape of that kind puts its numbers into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from ...config import TrainConfig
from ..program.conventions import CONVENTIONS
from ..program.formulas import Formulas, Highest
from ..program.kinds import Kind, kind_of, named_shapes, named_units, numbers_of, shard_name, with_names
from ..program.rank_shape import held_placements, held_units
from ..program.size import Shape, Size
from ..program.tape import Leaf
from .short import SHOWN, ShortRank
from .sync import Sharded, has_buckets, in_buckets

Terms = dict[str, Size | int]


class Pattern(NamedTuple):
    """A stage: whether it has the model's ends, and its runs of equal blocks, (how many, recomputed). `rows`: bytes of the tensor
    in which the tokens of all micro-batches lie, where they share one. `alone`: the parameter whose gradient is left without
    company in the last bucket."""

    embed: bool
    runs: tuple[tuple[int, bool], ...]
    predict: bool
    rows: int
    alone: str | None = None


class Moment(NamedTuple):
    """Inside an action: the highest so far above its beginning, of what, and what is there now, of what."""

    rise: int
    at_most: dict[str, int]
    level: int
    terms: dict[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """What an action adds to live bytes by term: `at_most` at its highest moment, `rise` in all, `after` when it is over.

    `saved_rise`, `copies_rise`: the most that it adds to what is saved; `saved`, `copies`: what it leaves saved. ZeRO sums a unit
    while the next one is computed: `first_sum` is the moment at which the action sends its first, and waits for the one before;
    `on_its_way` what it leaves behind (Sharded.on_its_way). `keeps_message`: the gradient that came stays for a later W.
    """

    rise: int
    at_most: dict[str, int]
    after: dict[str, int]
    saved_rise: int
    saved: int
    copies_rise: int
    copies: int
    first_sum: Moment | None = None
    on_its_way: tuple[int, int, int] = (0, 0, 0)
    keeps_message: bool = False


class Context(NamedTuple):
    """When an action, "F", "B" or "W", happens: in the first micro-batch, in the last; `rows`: while other micro-batches hold the
    tokens that all of them share."""

    kind: str
    first: bool = False
    last: bool = False
    rows: bool = False


class _Played(NamedTuple):
    """A stage of a kind: long runs of blocks are cut down to `parts`, with a number of its own for those left out after each."""

    kind: Kind
    parts: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    rows: bool
    together: frozenset[str]
    owed: bool
    convention: str


@lru_cache(maxsize=4096)
def stage_changes(config: TrainConfig, pattern: Pattern, tp_rank: int, owed: bool, convention: str) -> dict[Context, Change]:
    """The changes by context, in bytes. Of `config` only the model, the micro-batch, their number and how a rank runs them matter."""
    p, model = config.parallel, config.model
    numbers = numbers_of(model, config.micro_batch, p.tp, tp_rank, p.dp) | {"rows": pattern.rows}
    blocks, again, left_out = 0, [], []
    for i, (count, recomputed) in enumerate(pattern.runs):
        shown = min(count, SHOWN)
        again += range(blocks, blocks + shown) if recomputed else ()
        if count > SHOWN:
            left_out.append((f"blocks.{blocks + 1}", f"blocks left out {i}"))
            numbers[left_out[-1][1]] = count - SHOWN
        blocks += shown
    parts = (*["embed"] * pattern.embed, *(f"blocks.{i}" for i in range(blocks)), *["predict"] * pattern.predict)
    together: frozenset[str] = frozenset()
    if p.zero:
        numbers |= {shard_name(unit): unit.numel // p.dp for unit in held_units(config, parts, tp_rank)}
    elif has_buckets(config):
        together = in_buckets(config, {name: place.numel for name, place in held_placements(config, parts, tp_rank).items()}, pattern.alone)
    kind = kind_of(model, config.precision, numbers, sequence_parallel=p.sequence_parallel, layers=max(blocks, 1), recomputed=tuple(again),
                   selective=config.recompute == "selective", zero=p.zero, micro_batches=min(config.micro_batches, 3 if p.zero == 1 else 2))
    formulas = _formulas(_Played(kind, parts, tuple(left_out), pattern.rows > 0, together, owed, convention))
    shape = Shape(numbers)
    return {context: change.at(shape) for context, change in formulas.items()}


class _Reached(NamedTuple):
    """Formulas of a Moment; the highest is one of `highest`."""

    highest: list[tuple[Size | int, Terms]]
    level: Size | int
    terms: Terms

    def at(self, shape: Shape) -> Moment:
        return Moment(*_highest(self.highest, shape), shape(self.level), shape.by_term(self.terms))


@dataclass(frozen=True, slots=True)
class _Formulas:
    """Formulas of a Change."""

    highest: list[tuple[Size | int, Terms]]
    after: Terms
    saved_highest: list[Size | int]
    saved: Size | int
    copies_highest: list[Size | int]
    copies: Size | int
    first_sum: _Reached | None
    on_its_way: tuple[Size | int, Size | int, Size | int]
    keeps_message: bool = False

    def at(self, shape: Shape) -> Change:
        """The change of this shape."""
        way = tuple(map(shape, self.on_its_way))
        return Change(*_highest(self.highest, shape), shape.by_term(self.after), shape.largest(self.saved_highest), shape(self.saved),
                      shape.largest(self.copies_highest), shape(self.copies), self.first_sum and self.first_sum.at(shape), way, self.keeps_message)


def _highest(rows: list[tuple[Size | int, Terms]], shape: Shape) -> tuple[int, dict[str, int]]:
    rises = [shape(rise) for rise, _ in rows]
    first = max(range(len(rows)), key=rises.__getitem__)
    return rises[first], shape.by_term(rows[first][1])


@lru_cache(maxsize=512)
def _formulas(played: _Played) -> dict[Context, _Formulas]:
    found: dict[Context, _Formulas] = {}
    for rows in (False, True) if played.rows else (False,):
        found.update(_play(played, rows))
    return found


def _stage(played: _Played) -> ShortRank:
    kind, parts = played.kind, list(played.parts)
    left_out = {part: Size.named(name) for part, name in played.left_out}
    units = named_units(kind, parts) if kind.zero else []
    torch = Formulas(CONVENTIONS[played.convention])
    return ShortRank(torch, with_names(kind), parts, left_out, named_shapes(kind, parts), units, played.together, played.owed)


def _play(played: _Played, rows: bool) -> Iterator[tuple[Context, _Formulas]]:
    stage, zero = _stage(played), played.kind.zero
    torch, sync, m = stage.torch, stage.sync, played.kind.micro_batches
    embed, predict = played.parts[0] == "embed", played.parts[-1] == "predict"
    if played.rows:
        stage.tokens[0].storage.resize(Size.named("rows"))
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
        gradient = None if predict else stage.boundary()
        note.begin()
        outputs = [stage.through(0, x, micro)]
        yield Context("F", rows=rows), note.end(0 if predict else outputs[0].nbytes)
        root = outputs[0].node, outputs[0].slot
        if gradient is not None:
            outputs.clear()
        if played.owed:
            stage.program.owed.open((micro, 0))
        note.begin_alone()
        if gradient is None:
            scaled = torch.scale(outputs.pop())
            torch.go_back([(scaled.node, scaled.slot, torch.new(1, 4))])
            del scaled
        else:
            torch.go_back([(*root, gradient)])
        change, message, before = note.end(0 if leaf is None else leaf.grad.nbytes), gradient is not None, torch.live
        gradient = None
        yield Context("B", first, last, rows), replace(change, keeps_message=message and torch.live == before)
        if played.owed:
            note.begin_alone()
            stage.program.owed.work_off((micro, 0))
            yield Context("W", first, last), note.end(0)
        if x is not None:
            torch.release(x.storage)
            leaf.take()


class _Note:
    """Notes what is added between `begin` and `end`."""

    def __init__(self, stage: ShortRank) -> None:
        self.torch, self.sync = stage.torch, stage.sync
        self.first_sum: _Reached | None = None
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
        return {term: nbytes - self.terms[term] for term, nbytes in terms.items() if nbytes != self.terms[term]}

    def _so_far(self, highest: Highest) -> list[tuple[Size | int, Terms]]:
        return [(level, self._added(terms)) for level, terms in highest.rows]

    def _sum(self) -> None:
        if self.first_sum is None:
            torch = self.torch
            torch.settle()
            self.first_sum = _Reached(self._so_far(torch.highest), torch.live, self._added(torch.terms))

    def end(self, handed_on: Size | int) -> _Formulas:
        """`handed_on`: temporary bytes of what goes to another stage; whoever plays the change accounts for them."""
        torch = self.torch
        torch.settle()
        after = self._added(torch.terms)
        after["temporary"] = after.get("temporary", 0) - handed_on
        on_its_way = self.sync.on_its_way() if isinstance(self.sync, Sharded) and self.first_sum is not None else (0, 0, 0)
        return _Formulas(self._so_far(torch.highest), after, [level - self.saved for level, _ in torch.most_saved.rows], torch.saved - self.saved,
                         [level - self.copies for level, _ in torch.most_copies.rows], torch.copies - self.copies, self.first_sum, on_its_way)
