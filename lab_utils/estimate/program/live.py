"""What is alive: storages that count themselves for as long as Python refers to them, as torch's
do, and the tensors in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tape import Leaf, Node

# what saved tensors are not counted under
HELD = ("parameters", "gradients", "optimizer", "gathered", "buckets")
TERMS = (*HELD, "activations", "weight_copies", "temporary")


class Memory:
    """Live bytes by term, and saved bytes.

    `peak`, `at_peak`: most live bytes, and of what. `saved_peak`: most bytes saved for backward at
    one moment, weight copies apart (`copies_peak`). `temporary_peak`: most bytes that are nothing
    else.
    """

    def __init__(self) -> None:
        self.live = self.saved = self.copies = 0
        self.terms: dict[str, int] = dict.fromkeys(TERMS, 0)
        self.begin_peaks()

    def begin_peaks(self) -> None:
        """The highest from now on."""
        self.peak, self.at_peak, self.temporary_peak = (
            self.live,
            dict(self.terms),
            self.terms["temporary"],
        )
        self.saved_peak, self.copies_peak = self.saved, self.copies

    def _grown(self) -> None:
        if self.live > self.peak:
            self.peak, self.at_peak = self.live, dict(self.terms)
        if self.terms["temporary"] > self.temporary_peak:
            self.temporary_peak = self.terms["temporary"]

    def _saved_more(self) -> None:
        if self.saved > self.saved_peak:
            self.saved_peak = self.saved
        if self.copies > self.copies_peak:
            self.copies_peak = self.copies

    def grow(self, term: str, nbytes: int) -> None:
        """So many bytes more are alive."""
        self.terms[term] += nbytes
        self.live += nbytes
        self._grown()

    def shrink(self, term: str, nbytes: int) -> None:
        """And so many fewer."""
        self.terms[term] -= nbytes
        self.live -= nbytes

    def rename(self, term: str, other: str, nbytes: int) -> None:
        """So many bytes count under another term."""
        self.terms[term] -= nbytes
        self.terms[other] += nbytes

    def shift(self, terms: Mapping[str, int], saved: int, copies: int) -> None:
        """Count so many bytes more (or fewer) that no storage here stands for."""
        for term, nbytes in terms.items():
            self.terms[term] += nbytes
            self.live += nbytes
        self.saved += saved
        self.copies += copies
        self._grown()
        self._saved_more()

    def hold(self, storage: Storage) -> None:
        """Somebody keeps `storage` for the backward pass."""
        if storage.term in HELD:
            return
        storage.holders += 1
        if storage.holders > 1:
            return
        storage.become("weight_copies" if storage.weight_copy else "activations")
        if storage.weight_copy:
            self.copies += storage.nbytes
        else:
            self.saved += storage.nbytes
        self._saved_more()

    def release(self, storage: Storage) -> None:
        """And no longer."""
        if storage.term in HELD:
            return
        storage.holders -= 1
        if storage.holders:
            return
        if storage.weight_copy:
            self.copies -= storage.nbytes
        else:
            self.saved -= storage.nbytes
        storage.become("temporary")


class Storage:
    """`nbytes` of memory from now until nobody refers to it. `holders`: how often it is saved for
    backward."""

    __slots__ = ("memory", "nbytes", "term", "holders", "weight_copy")

    def __init__(
        self, memory: Memory, nbytes: int, term: str = "temporary", weight_copy: bool = False
    ) -> None:
        self.memory, self.nbytes, self.term, self.holders, self.weight_copy = (
            memory,
            nbytes,
            term,
            0,
            weight_copy,
        )
        memory.grow(term, nbytes)

    def __del__(self) -> None:
        self.memory.shrink(self.term, self.nbytes)

    def become(self, term: str) -> None:
        """Count under another term from now on."""
        self.memory.rename(self.term, term, self.nbytes)
        self.term = term

    def resize(self, nbytes: int) -> None:
        """Have another size from now on."""
        self.memory.shrink(self.term, self.nbytes)
        self.nbytes = nbytes
        self.memory.grow(self.term, nbytes)


class Value:
    """A tensor: `numel` elements of `width` bytes in a storage. `node`, `slot`: where its gradient
    goes, None: nowhere.

    `nbytes`: what a kernel reads or writes for it. `layout` says how a (b, a, s, d) tensor lies in
    memory where that decides whether a reshape copies: "" as written, "bsad" or "bads".
    """

    __slots__ = ("storage", "numel", "width", "nbytes", "node", "slot", "layout")

    def __init__(
        self,
        storage: Storage,
        numel: int,
        width: int,
        node: Node | Leaf | None = None,
        slot: int = 0,
        layout: str = "",
    ) -> None:
        self.storage, self.numel, self.width, self.nbytes = storage, numel, width, numel * width
        self.node, self.slot, self.layout = node, slot, layout

    def detach(self) -> Value:
        """The same memory, off the tape."""
        return Value(self.storage, self.numel, self.width, None, 0, self.layout)

    def view(self, layout: str = "") -> Value:
        """The same memory and the same place on the tape, seen in another shape."""
        return Value(self.storage, self.numel, self.width, self.node, self.slot, layout)
