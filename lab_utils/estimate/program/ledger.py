"""A block and the model's two ends run once for a kind, kernel by kernel: what every op costs, as
formulas of the sizes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .conventions import CONVENTIONS
from .formulas import Formulas
from .kernels import INDEX
from .kinds import Kind, filled_in, names_of, shapes_of
from .live import Storage, Value
from .messages import Message
from .model import Program
from .size import Shape, Size
from .tensor import program_of

PARTS = ("embed", "blocks.0", "head_loss")
_PRODUCTS = ("query", "key", "value", "output", "gate", "up", "down", "head")


class Visit(NamedTuple):
    """An op while it runs: alive when it is over, and at its highest moments, beyond what was alive
    before; and what it saved."""

    phase: str
    highest: tuple[Size | int, ...]
    after: Size | int
    saved: Size | int
    copies: Size | int

    def temporary(self, shape: Shape) -> int:
        """Bytes that it needs for a moment, beyond what is alive before or after it."""
        return shape.largest(self.highest) - max(0, shape(self.after))


class Entry(NamedTuple):
    """One op. `work`: (FLOPs, HBM bytes) by phase; `product`: (m, k, n) of a matrix product;
    `parameters`: those it has itself."""

    name: str
    part: str
    kind: str
    work: dict[str, tuple[Size | int, Size | int]]
    visits: tuple[Visit, ...]
    product: tuple[Size | int, ...] | None
    messages: tuple[Message, ...]
    parameters: tuple[str, ...]


@lru_cache(maxsize=512)
def ledger_of(kind: Kind, convention: str) -> tuple[Entry, ...]:
    """The ops of one micro-batch through a model of one block, in the order of the forward pass."""
    names = names_of(kind)
    torch, config = Formulas(CONVENTIONS[convention]), filled_in(kind, names)
    shapes = shapes_of(kind, PARTS, names)
    program = program_of(torch, config, shapes, cp_rank=kind.share.cp_rank)
    tokens = config.micro_batch * config.rank_seq
    batch, targets = (Value(Storage(torch, tokens * INDEX), tokens, INDEX) for _ in range(2))
    visits = _Visits(torch)
    with torch.casting(program.inside):
        x = program.head_loss(program.run_block(0, program.embed(batch)), targets)
    loss = torch.scale(x)
    del x
    torch.go_back([(loss.node, loss.slot, torch.new(1, 4))])
    visits.close()
    scopes = [scope for scope, phase in torch.rows if phase == "forward" and scope]
    return tuple(_entry(scope, torch, program, tokens, visits) for scope in scopes)


class _Visits:
    """Notes what is alive and saved between one op and the next."""

    def __init__(self, torch: Formulas) -> None:
        self.torch, self.of = torch, {}
        torch.watcher = self.entered
        self._begin(torch.scope)

    def _begin(self, scope: str) -> None:
        torch = self.torch
        self.now, self.saved, self.copies = (scope, torch.phase), torch.saved, torch.copies
        torch.begin_peaks()

    def entered(self, scope: str) -> None:
        """Another op begins."""
        if self.now != (scope, self.torch.phase):
            self.close()
            self._begin(scope)

    def close(self) -> None:
        """The op is over."""
        torch, (scope, phase) = self.torch, self.now
        torch.settle()
        levels = tuple(level for level, _ in torch.highest.rows)
        visit = Visit(
            phase, levels, torch.live, torch.saved - self.saved, torch.copies - self.copies
        )
        self.of.setdefault(scope, []).append(visit)
        self._begin(scope)


def _entry(
    scope: str, torch: Formulas, program: Program, tokens: Size | int, visits: _Visits
) -> Entry:
    last, tied = scope.split(".")[-1], program.model.tied
    kind = (
        "matmul"
        if last in _PRODUCTS
        else (
            "attention"
            if last == "core"
            else "lookup"
            if last.endswith("_embedding")
            else "elementwise"
        )
    )
    part = (
        "embed"
        if last.endswith("_embedding")
        else "blocks.0"
        if scope.startswith("blocks.")
        else "head_loss"
    )
    work = {
        phase: tuple(torch.rows.get((scope, phase), (0, 0)))
        for phase in ("forward", "backward", "recompute")
    }
    names = tuple(
        name
        for name in (f"{scope}.weight", f"{scope}.bias")
        if name in program.leaves and not (tied and last == "token_embedding")
    )
    product = None
    if kind == "matmul":
        out, inner = program.leaves[
            "token_embedding.weight" if last == "head" and tied else f"{scope}.weight"
        ].shape
        product = tokens, inner, out
    messages = tuple(m for at, m in program.messages if at == scope)
    return Entry(scope, part, kind, work, tuple(visits.of.get(scope, ())), product, messages, names)
