"""What one action of a pipeline stage does to a rank's memory, whatever else the rank holds at that moment.

The passes of a stage differ only in whether they are the step's first (gradients come into being) or its last (they are sent
away), so a stage is played through for three micro-batches at most, and what each action added is noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from ...config import TrainConfig
from ..program.tape import Leaf, Value
from .short import ShortStep
from .sync import Sharded


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


@lru_cache(maxsize=2048)
def stage_changes(config: TrainConfig, pattern: Pattern, tp_rank: int, owed: bool, convention: str) -> dict[Context, Change]:
    """The changes by context. `config`: of `harvest_config`."""
    found: dict[Context, Change] = {}
    for rows in (False, True) if pattern.rows else (False,):
        found.update(_play(config, pattern, tp_rank, owed, convention, rows))
    return found


def harvest_config(config: TrainConfig, pattern: Pattern) -> TrainConfig:
    """A run of the stage alone, as short as it can be and still show every context."""
    p, layers = config.parallel, sum(count for count, _ in pattern.runs)
    micro_batches = min(config.micro_batches, 3 if p.zero == 1 else 2)
    blocks, again = 0, []
    for count, recomputed in pattern.runs:
        again += range(blocks, blocks + count) if recomputed else ()
        blocks += count
    recompute = ",".join(map(str, again)) or ("selective" if config.recompute == "selective" else "none")
    return TrainConfig(
        model=replace(config.model, layers=max(layers, 1)), precision=config.precision, recompute=recompute, micro_batch=config.micro_batch,
        global_batch=p.dp * config.micro_batch * micro_batches, parallel=replace(p, pp=1, schedule="1f1b", virtual_stages=1),
    )  # fmt: skip


def _play(config: TrainConfig, pattern: Pattern, tp_rank: int, owed: bool, convention: str, rows: bool) -> Iterator[tuple[Context, Change]]:
    layers = sum(count for count, _ in pattern.runs)
    parts = [*["embed"] * pattern.embed, *(f"blocks.{i}" for i in range(layers)), *["predict"] * pattern.predict]
    step = ShortStep(config, 0, tp_rank, 0, convention, parts={0: parts}, owed=owed, alone=pattern.alone)
    torch, sync, m = step.torch, step.sync, config.micro_batches
    if pattern.rows:
        step.tokens[0].storage.resize(pattern.rows)
    note = _Note(step)
    sync.zero_grad()
    if rows:
        torch.hold(step.tokens[0].storage)
    for micro in range(m):
        first, last = micro == 0, micro == m - 1 and config.parallel.zero == 1
        sync.enabled = micro == m - 1
        x = None if pattern.embed else _boundary(step)
        leaf = None if x is None else Leaf(x)
        if x is not None:
            torch.hold(x.storage)
        gradient = None if pattern.predict else _boundary(step)
        note.begin()
        outputs = [step._through(0, x, micro)]
        yield Context("F", rows=rows), note.end(0 if pattern.predict else outputs[0].nbytes)
        root = outputs[0].node, outputs[0].slot
        if gradient is not None:
            outputs.clear()
        if owed:
            step.program.owed.open((micro, 0))
        note.begin_alone()
        if gradient is None:
            scaled = torch.scale(outputs.pop())
            torch.go_back([(scaled.node, scaled.slot, torch.new(1, 4))])
            del scaled
        else:
            torch.go_back([(*root, gradient)])
        change, message = note.end(0 if leaf is None else leaf.grad.nbytes), None if gradient is None else gradient.storage.nbytes
        before, gradient = torch.live, None
        yield Context("B", first, last, rows), replace(change, keeps_message=message is not None and torch.live == before)
        if owed:
            note.begin_alone()
            step.program.owed.work_off((micro, 0))
            yield Context("W", first, last), note.end(0)
        if x is not None:
            torch.release(x.storage)
            leaf.take()


class _Note:
    """Notes what is added between `begin` and `end`."""

    def __init__(self, step: ShortStep) -> None:
        self.torch, self.sync = step.torch, step.sync
        self.first_sum: Moment | None = None
        if isinstance(self.sync, Sharded):
            self.sync.before_reduce = self._sum

    def begin(self) -> None:
        torch, self.first_sum = self.torch, None
        self.live, self.terms, self.saved, self.copies = torch.live, dict(torch.terms), torch.saved, torch.copies
        torch.peak, torch.at_peak, torch.saved_peak, torch.copies_peak = torch.live, dict(torch.terms), torch.saved, torch.copies

    def begin_alone(self) -> None:
        """Begin with nothing on its way."""
        if isinstance(self.sync, Sharded):
            self.sync.collect()
        self.begin()

    def _added(self, terms: dict[str, int]) -> dict[str, int]:
        return {term: nbytes - self.terms[term] for term, nbytes in terms.items() if nbytes != self.terms[term]}

    def _sum(self) -> None:
        if self.first_sum is None:
            torch = self.torch
            self.first_sum = Moment(torch.peak - self.live, self._added(torch.at_peak), torch.live - self.live, self._added(torch.terms))

    def end(self, handed_on: int) -> Change:
        """`handed_on`: temporary bytes of what goes to another stage; whoever plays the change accounts for them."""
        torch, after = self.torch, self._added(self.torch.terms)
        after["temporary"] = after.get("temporary", 0) - handed_on
        on_its_way = self.sync.on_its_way() if isinstance(self.sync, Sharded) and self.first_sum is not None else (0, 0, 0)
        return Change(torch.peak - self.live, self._added(torch.at_peak), after, torch.saved_peak - self.saved, torch.saved - self.saved,
                      torch.copies_peak - self.copies, torch.copies - self.copies, self.first_sum, on_its_way)


def _boundary(step: ShortStep) -> Value:
    p, config = step.config.parallel, step.config
    tokens = config.micro_batch * config.model.seq // (p.tp if p.sequence_parallel else 1)
    return step.torch.new(tokens * config.model.hidden, 2 if config.precision == "bf16-pure" else 4)
