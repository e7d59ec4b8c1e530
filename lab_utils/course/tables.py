"""Pictures made of numbers that lessons print: what each rank holds, place by place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def print_by_rank(results: Sequence[Sequence[Any]], *names: str) -> None:
    """Under each name a line per rank: `results[rank]` holds a tensor for every name."""
    for name, of_ranks in zip(names, zip(*results, strict=True), strict=True):
        print(name)
        for rank, tensor in enumerate(of_ranks):
            print(f"   rank {rank}: {tensor.tolist()}")


def print_side_by_side(title: str, held: Iterable[Sequence[Any]]) -> None:
    """One line: the short lists of all ranks beside each other."""
    print(f"{title:8}", " | ".join(" ".join(f"{number:>4}" for number in sheet) for sheet in held))


def print_places(title: str, held: Sequence[Mapping[int, Any]], places: int) -> None:
    """A line per rank, `held[rank]` being place → number: what it holds at each of `places` places,
    a dot where it has nothing."""
    for rank, numbers in enumerate(held):
        shown = "".join(f"{numbers.get(place, '·'):>8}" for place in range(places))
        print(f"{title if rank == 0 else '':16} rank {rank} {shown}")
