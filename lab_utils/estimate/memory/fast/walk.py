"""Live bytes along a rank's actions: what each action reaches, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping

from .change import Change
from .standing import Standing


class Walk:
    """Live bytes along a rank's actions."""

    def __init__(self, standing: Standing, optimizer_bytes: int, data: int) -> None:
        self.terms = {
            "parameters": standing.parameters,
            "gradients": standing.kept_gradients + standing.dying,
            "optimizer": optimizer_bytes,
            "gathered": 0,
            "buckets": 0,
            "activations": 0,
            "weight_copies": 0,
            "temporary": data + standing.arriving,
        }
        self.live = sum(self.terms.values())
        self.on_its_way = 0, 0, 0
        self.peak, self.at_peak, self.saved, self.saved_peak, self.copies, self.copies_peak = (
            self.live,
            dict(self.terms),
            0,
            0,
            0,
            0,
        )

    def add(self, term: str, nbytes: int) -> None:
        self.terms[term] += nbytes
        self.live += nbytes
        if self.live > self.peak:
            self.peak, self.at_peak = self.live, dict(self.terms)

    def hold(self, nbytes: int) -> None:
        """So many temporary bytes are saved from now on (fewer than none: no longer)."""
        self.terms["temporary"] -= nbytes
        self.terms["activations"] += nbytes
        self.saved += nbytes
        self.saved_peak = max(self.saved_peak, self.saved)

    def reached(self, rise: int, terms: Mapping[str, int]) -> None:
        """So many bytes more than now were alive for a moment."""
        if self.live + rise > self.peak:
            self.peak, self.at_peak = self.live + rise, dict(self.terms)
            for term, nbytes in terms.items():
                self.at_peak[term] += nbytes

    def collect(self, level: int, terms: Mapping[str, int]) -> None:
        """The sum on its way has arrived, with `level` bytes more than now in use: the ring's room
        goes, the shard comes, the gradient that left goes."""
        room, leaving, shard = self.on_its_way
        self.add_many({"temporary": shard - room})
        self.reached(level, terms)
        self.add_many({"temporary": -shard, "gradients": shard, "buckets": -leaving})
        self.on_its_way = 0, 0, 0

    def add_many(self, terms: Mapping[str, int]) -> None:
        for term, nbytes in terms.items():
            self.terms[term] += nbytes
            self.live += nbytes

    def apply(self, change: Change) -> None:
        """An action: what it reached, and what it leaves."""
        if change.first_sum is not None:
            self.reached(change.first_sum.rise, change.first_sum.at_most)
            self.collect(change.first_sum.level, change.first_sum.terms)
            self.on_its_way = change.on_its_way
        self.reached(change.rise, change.at_most)
        self.saved_peak, self.copies_peak = (
            max(self.saved_peak, self.saved + change.saved_rise),
            max(self.copies_peak, self.copies + change.copies_rise),
        )
        self.add_many(change.after)
        self.saved += change.saved
        self.copies += change.copies
