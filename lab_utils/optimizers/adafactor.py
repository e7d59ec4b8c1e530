"""Adafactor: the second moment of a matrix from its rows' and columns' means alone (Shazeer and
Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost"), by the rules of
torch.optim.Adafactor, and of matrices that lie in parts on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

EPS = torch.finfo(torch.float32).eps


@dataclass(frozen=True)
class Part:
    """Where a flat run of weights lies in its tensor: from element `offset` on of the `local` part,
    which begins at `start` of the `shape`."""

    shape: tuple[int, ...]
    local: tuple[int, ...]
    start: tuple[int, ...]
    offset: int = 0

    @classmethod
    def whole(cls, weight: Tensor) -> Part:
        """All of a tensor."""
        return cls(tuple(weight.shape), tuple(weight.shape), (0,) * weight.dim())

    def lines(self, numel: int) -> tuple[slice, slice, int]:
        """Rows and columns of the whole matrix that `numel` elements touch, and how many elements
        of the first row are not theirs."""
        width = self.local[1]
        first, last = self.offset // width, (self.offset + numel - 1) // width
        row, column = self.start
        return (
            slice(row + first, row + last + 1),
            slice(column, column + width),
            self.offset - first * width,
        )


def statistics_size(shape: tuple[int, ...]) -> int:
    """Numbers that ranks must add up for one tensor: the weights' squares, and of a matrix those of
    the gradient by row and by column."""
    return 1 + (sum(shape) if len(shape) == 2 else 0)


def _one(shape: tuple[int, ...]) -> int:
    return 1


def _here_alone(numbers: list[Tensor], count: Callable[[tuple[int, ...]], int]) -> None:
    """Every tensor is whole."""


class Adafactor(torch.optim.Optimizer):
    """Steps relative to the weights' own size, no larger than `lr` of it, and clipped where they
    exceed what the second moment expects. `parts`: what each parameter is of which tensor (None: it
    is the tensor). `add_up(numbers, count)`: makes each tensor's numbers, `count(shape)` of them,
    the sum over the ranks that hold it, in place; every rank calls it twice a step.

    State of a matrix: `rows` and `columns`, of the whole matrix on every rank that has a part; of a
    vector `variance`; and `step`, as torch keeps it. The gradients' memory is used up.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-2,
        parts: Sequence[Part] | None = None,
        add_up: Callable[[list[Tensor], Callable[[tuple[int, ...]], int]], None] = _here_alone,
    ) -> None:
        super().__init__(params, {"lr": lr})
        self.weights = [weight for group in self.param_groups for weight in group["params"]]
        self.parts = list(map(Part.whole, self.weights) if parts is None else parts)
        self.add_up = add_up

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update from the gradients in `.grad`."""
        lr, held = self.param_groups[0]["lr"], list(zip(self.weights, self.parts, strict=True))
        seen = [_statistics(weight, part) for weight, part in held]
        self.add_up(seen, statistics_size)
        for (weight, part), numbers in zip(held, seen, strict=True):
            self._normalise(weight, part, numbers)
        sizes = [weight.grad.norm().square().view(1) for weight in self.weights]
        self.add_up(sizes, _one)
        for (weight, part), numbers, size in zip(held, seen, sizes, strict=True):
            count, step = prod(part.shape), self.state[weight]["step"].item()
            relative = max(1e-3, (numbers[0].item() / count) ** 0.5) * min(lr, step**-0.5)
            clipped = max(1.0, (size.item() / count) ** 0.5)
            weight.add_(weight.grad, alpha=-relative / clipped)

    def _normalise(self, weight: Tensor, part: Part, numbers: Tensor) -> None:
        """Take the statistics into the state and divide the gradient by the root of the second
        moment, in place."""
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())
            if len(part.shape) == 2:
                state["rows"], state["columns"] = (weight.new_zeros(n) for n in part.shape)
            else:
                state["variance"] = torch.zeros_like(weight)
        state["step"] += 1
        fresh = state["step"].item() ** -0.8
        if len(part.shape) != 2:
            squares = weight.grad.square()
            state["variance"].lerp_(squares, fresh)
            squares.copy_(state["variance"])
            weight.grad.mul_(squares.clamp_(min=EPS * EPS).rsqrt_())
            return
        rows, columns = state["rows"], state["columns"]
        height, width = part.shape
        rows.lerp_(numbers[1 : 1 + height] / width, fresh)
        columns.lerp_(numbers[1 + height :] / height, fresh)
        mine, across, lead = part.lines(weight.numel())
        expected = torch.outer(rows[mine], columns[across])
        expected.div_(rows.mean().clamp_(min=EPS)).clamp_(min=EPS * EPS).rsqrt_()
        weight.grad.view(-1).mul_(expected.view(-1)[lead : lead + weight.numel()])


def _statistics(weight: Tensor, part: Part) -> Tensor:
    numbers = weight.new_zeros(statistics_size(part.shape))
    numbers[0] = weight.norm().square()
    if len(part.shape) == 2:
        mine, across, lead = part.lines(weight.numel())
        squares = weight.new_zeros(mine.stop - mine.start, part.local[1])
        torch.square(weight.grad.view(-1), out=squares.view(-1)[lead : lead + weight.numel()])
        by_row, by_column = numbers[1:].split(part.shape)
        by_row[mine], by_column[across] = squares.sum(1), squares.sum(0)
    return numbers
