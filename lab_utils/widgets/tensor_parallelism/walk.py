"""One transformer block as a walk over tp ranks: which tensor exists at each moment, in which part
a rank has it, and what travels.

The order is parallel/tensor.py's: a region is entered and left once in each direction. Columns are
tensors, from left to right in the order of the forward pass; the backward pass walks them back.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# "whole": alike on all ranks; "tokens": this rank's 1/N of them; "features": this rank's 1/N of
# the width; "summand": of full size, to be added up over the ranks
Part = Literal["whole", "tokens", "features", "summand"]
Op = Literal["identity", "all-reduce", "all-gather", "reduce-scatter"]

RESIDUALS, NORMS = (0, 7, 14), (1, 8)
ENTERS, LEAVES, SUMMANDS = (2, 9), (6, 13), (5, 12)
COLUMNS = 15
WEIGHTS = {"qkv": 3, "out": 5, "up": 10, "down": 12}  # the column that each one makes
CUT = {"qkv": "columns", "out": "rows", "up": "columns", "down": "rows"}


class Moment(NamedTuple):
    """A moment of the walk: the pass, and the tensor (or its gradient) that has just been made."""

    phase: Literal["forward", "backward"]
    column: int


MOMENTS = (
    *(Moment("forward", column) for column in range(COLUMNS)),
    *(Moment("backward", column) for column in reversed(range(COLUMNS))),
)


def part_of_tensor(column: int, sequence: bool) -> Part:
    """How a rank has the tensor of a column in the forward pass."""
    if column in SUMMANDS:
        return "summand"
    if column in ENTERS:
        return "whole"
    if column in (*RESIDUALS, *NORMS, *LEAVES):
        return "tokens" if sequence else "whole"
    return "features"


def part_of_gradient(column: int, sequence: bool) -> Part:
    """How a rank has its gradient: where the forward pass summed it is whole, and the other way
    round."""
    if column in SUMMANDS:
        return "whole"
    if column in ENTERS:
        return "summand"
    return part_of_tensor(column, sequence)


def travels(moment: Moment, sequence: bool) -> Op | None:
    """What stands between this moment and the one before: a region's operator, or nothing."""
    phase, column = moment
    if phase == "forward":
        if column in ENTERS:
            return "all-gather" if sequence else "identity"
        if column in LEAVES:
            return "reduce-scatter" if sequence else "all-reduce"
        return None
    if column in SUMMANDS:
        return "all-gather" if sequence else "identity"
    if column in NORMS:
        return "reduce-scatter" if sequence else "all-reduce"
    return None


def gathers_again(moment: Moment, sequence: bool) -> bool:
    """Whether the input of a region is gathered a second time, for the weights' gradients."""
    return sequence and moment.phase == "backward" and moment.column in ENTERS


def calls_until(moment: Moment, sequence: bool) -> dict[str, int]:
    """Collectives of the block up to this moment, by op."""
    found: dict[str, int] = {}
    for one in MOMENTS[: MOMENTS.index(moment) + 1]:
        op = travels(one, sequence)
        ops = [op] if op and op != "identity" else []
        ops += ["all-gather"] * gathers_again(one, sequence)
        for name in ops:
            found[name] = found.get(name, 0) + 1
    return found


def at_work(moment: Moment) -> str | None:
    """The weight that is multiplied with at this moment."""
    phase, column = moment
    if phase == "forward":
        return next((name for name, made in WEIGHTS.items() if made == column), None)
    reads = {"qkv": 2, "out": 4, "up": 9, "down": 11}  # whose gradient its backward product makes
    return next((name for name, made in reads.items() if made == column), None)


def alive(column: int, moment: Moment, sequence: bool) -> bool:
    """Whether the tensor of a column is there: it has been made, and is kept for the backward pass
    or still in use."""
    now = moment.column
    if moment.phase == "forward":
        if column > now:
            return False
        if column in SUMMANDS:
            return column == now
        if column in ENTERS:
            return not sequence or now - column in (0, 1)
        return True
    if column in SUMMANDS:
        return False
    if column in ENTERS:
        return now == column or not sequence and now > column
    return now > column
