"""The machine whose sizes have names: every peak it reports is a list of formulas, of which the
shape decides which is the highest."""

from __future__ import annotations

from collections.abc import Mapping

from .conventions import Convention
from .kernels import Torch
from .live import Storage
from .size import Size, coefficients, never_less


class Highest:
    """Levels, each with what it is made of, in the order in which they were reached; none is beaten
    by another for all shapes."""

    __slots__ = ("rows", "_sums")

    def __init__(self, level: Size | int, terms: Mapping[str, Size | int]) -> None:
        self.rows: list[tuple[Size | int, dict[str, Size | int]]] = [(level, dict(terms))]
        self._sums = [coefficients(level)]

    def note(self, level: Size | int, terms: Mapping[str, Size | int]) -> None:
        """This level was reached."""
        # nowhere less means no smaller sum of coefficients, which is quickly looked up
        total = coefficients(level)
        if any(
            known_sum >= total and never_less(known, level)
            for known_sum, (known, _) in zip(self._sums, self.rows, strict=True)
        ):
            return
        left = [
            i
            for i, row in enumerate(self.rows)
            if self._sums[i] > total or not never_less(level, row[0])
        ]
        self.rows, self._sums = (
            [*(self.rows[i] for i in left), (level, dict(terms))],
            [*(self._sums[i] for i in left), total],
        )


class Formulas(Torch):
    """torch over named sizes. A level counts when it falls again: what came before on the way up
    was lower whatever the shape."""

    live: Size | int  # these are made where the peaks begin
    highest: Highest
    most_saved: Highest
    most_copies: Highest

    def __init__(self, convention: Convention) -> None:
        self._rising = self._saving = False
        super().__init__(convention)

    def begin_peaks(self) -> None:
        """The highest from now on; what is alive is counted from here."""
        self.live = 0
        self.highest = Highest(self.live, self.terms)
        self.most_saved, self.most_copies = Highest(self.saved, {}), Highest(self.copies, {})
        self._rising = self._saving = False

    def _grown(self) -> None:
        self._rising = True

    def _saved_more(self) -> None:
        self._saving = True

    def settle(self) -> None:
        """Note where things stand: something is about to fall, or somebody asks."""
        if self._rising:
            self.highest.note(self.live, self.terms)
            self._rising = False
        if self._saving:
            self.most_saved.note(self.saved, {})
            self.most_copies.note(self.copies, {})
            self._saving = False

    def shrink(self, term: str, nbytes: Size | int) -> None:
        self.settle()
        super().shrink(term, nbytes)

    def rename(self, term: str, other: str, nbytes: Size | int) -> None:
        self.settle()
        super().rename(term, other, nbytes)

    def shift(self, terms: Mapping[str, Size | int], saved: Size | int, copies: Size | int) -> None:
        self.settle()
        super().shift(terms, saved, copies)

    def release(self, storage: Storage) -> None:
        self.settle()
        super().release(storage)
