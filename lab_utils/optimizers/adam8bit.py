"""Adam with both moments in eight bits (Dettmers et al. 2022, "8-bit Optimizers via Block-wise
Quantization"): of every 256 elements the largest is kept in fp32, the others as one of 256 shares
of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from ..layout.optimizer_runs import BLOCK, SMALL

MOMENTS = "first", "second"
CHUNK = 64 * BLOCK  # elements that are in fp32 at one time


@cache
def codebook(signed: bool) -> Tensor:
    """The 256 shares, ascending from −1 or 0 to 1: seven powers of ten, each cut twice as fine as
    the one below it (section 2.3; a dynamic tree's bits say power and place)."""
    shares = [0.0, 1.0]
    for power in range(7):
        edges = torch.linspace(0.1, 1, 2 ** (power + (not signed)) + 1)
        places = ((edges[:-1] + edges[1:]) / 2.0 * 10.0 ** (power - 6)).tolist()
        shares += places + [-place for place in places] * signed
    return torch.tensor(sorted(shares))


def quantise(
    numbers: Tensor, signed: bool, lead: int = 0, at_least: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(nearest code of every element, uint8; the largest magnitude of every block, fp32) of fp32
    `numbers` (n,). `lead`: elements of the first block that come before them, on another rank; the
    last block, too, may be cut. `at_least`: what the largest of each block is elsewhere."""
    after = -(lead + numbers.numel()) % BLOCK
    blocks = torch.nn.functional.pad(numbers, (lead, after)).view(-1, BLOCK)
    largest = blocks.abs().amax(1).clamp_(min=1e-12)
    if at_least is not None:
        torch.maximum(largest, at_least, out=largest)
    shares = codebook(signed).to(numbers.device)
    between = (shares[:-1] + shares[1:]) / 2
    codes = torch.bucketize(blocks / largest[:, None], between, out_int32=True, right=True)
    return codes.to(torch.uint8).view(-1)[lead : lead + numbers.numel()], largest


def dequantise(codes: Tensor, largest: Tensor, signed: bool, lead: int = 0) -> Tensor:
    """The fp32 numbers (n,) that `quantise` has kept."""
    shares = codebook(signed).to(codes.device)[codes.int()]
    return shares * largest.repeat_interleave(BLOCK)[lead : lead + codes.numel()]


class Piece(NamedTuple):
    """What a parameter is of its tensor: `lead` elements of its first block come before it. `head`
    and `tail`: the number of its first and of its last block among those that ranks have cut
    between them, or None."""

    lead: int = 0
    head: int | None = None
    tail: int | None = None


class Chunk(NamedTuple):
    """Elements `start` to `end` of a piece, and which of its blocks they are in."""

    start: int
    end: int
    lead: int

    @property
    def blocks(self) -> slice:
        return slice((self.lead + self.start) // BLOCK, -(-(self.lead + self.end) // BLOCK))

    @property
    def before(self) -> int:
        """Elements of its first block that are not its own."""
        return (self.lead + self.start) % BLOCK


class Adam8bit(torch.optim.Optimizer):
    """Adam whose moments are unpacked for the step, chunk by chunk, and packed again. `small`: the
    parameters whose moments stay in fp32 (None: those of fewer than 4,096 elements).

    Blocks are those of the whole tensor, whoever holds it: `pieces` says where each parameter lies
    in its own (None: it is the tensor), and of the `cut` blocks that lie on several ranks `agree`
    makes the largest magnitudes, (2, cut), the largest of any, in place; every rank calls it.

    State of a quantised one: `first`, `second` (uint8, as many as the weights), `first_largest`,
    `second_largest` (fp32, one for each block); of a small one `first` and `second` in fp32.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        small: Sequence[bool] | None = None,
        pieces: Sequence[Piece] | None = None,
        cut: int = 0,
        agree: Callable[[Tensor], None] = lambda largest: None,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        self.weights = [weight for group in self.param_groups for weight in group["params"]]
        self.small = [weight.numel() < SMALL for weight in self.weights] if small is None else small
        self.pieces = [Piece()] * len(self.weights) if pieces is None else pieces
        self.cut, self.agree, self.steps = cut, agree, 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update from the gradients in `.grad`."""
        self.steps += 1
        for weight, small, piece in zip(self.weights, self.small, self.pieces, strict=True):
            if not self.state[weight]:
                self._begin(weight, small, piece.lead)
        elsewhere = self._largest_of_cut_blocks()
        for weight, piece in zip(self.weights, self.pieces, strict=True):
            # chunks end where blocks do
            edges = [0, *range(CHUNK - piece.lead, weight.numel(), CHUNK), weight.numel()]
            for start, end in pairwise(edges):
                here = Chunk(start, end, piece.lead)
                at_least = None
                if elsewhere is not None:
                    at_least = _of_blocks(elsewhere, piece, here, end == weight.numel())
                self._step(weight, here, at_least)

    def _begin(self, weight: Tensor, small: bool, lead: int) -> None:
        state, numel = self.state[weight], weight.numel()
        for moment in MOMENTS:
            state[moment] = weight.new_zeros(numel, dtype=None if small else torch.uint8)
            if not small:
                state[f"{moment}_largest"] = weight.new_zeros(-(-(lead + numel) // BLOCK))

    def _largest_of_cut_blocks(self) -> Tensor | None:
        """Of both moments as they will be after this step, (2, cut)."""
        if not self.cut:
            return None
        found = torch.zeros(2, self.cut, device=self.weights[0].device if self.weights else None)
        for weight, piece in zip(self.weights, self.pieces, strict=True):
            end = weight.numel()
            first_ends = min(BLOCK - piece.lead, end)
            last_begins = max(0, (piece.lead + end) // BLOCK * BLOCK - piece.lead)
            for number, here in (
                (piece.head, Chunk(0, first_ends, piece.lead)),
                (piece.tail, Chunk(last_begins, end, piece.lead)),
            ):
                if number is not None:
                    moments = torch.stack(self._moments(weight, here)).abs().amax(1)
                    found[:, number] = torch.maximum(found[:, number], moments)
        self.agree(found)
        return found

    def _moments(self, weight: Tensor, here: Chunk) -> tuple[Tensor, Tensor]:
        """Both moments of a chunk with this step's gradient, in fp32."""
        state, (group,) = self.state[weight], self.param_groups
        gradient = weight.grad.reshape(-1)[here.start : here.end]
        first_rate, second_rate = group["betas"]
        first = _read(state, "first", here).lerp_(gradient, 1 - first_rate)
        return first, _read(state, "second", here).lerp_(gradient.square(), 1 - second_rate)

    def _step(self, weight: Tensor, here: Chunk, at_least: Tensor | None) -> None:
        state, (group,) = self.state[weight], self.param_groups
        first, second = self._moments(weight, here)
        for i, (moment, numbers) in enumerate(zip(MOMENTS, (first, second), strict=True)):
            _write(state, moment, here, numbers, None if at_least is None else at_least[i])
        # by the moments before they are rounded
        first_rate, second_rate = group["betas"]
        unbiased = (1 - second_rate**self.steps) ** 0.5
        spread = second.sqrt_().div_(unbiased).add_(group["eps"])
        rate = group["lr"] / (1 - first_rate**self.steps)
        weight.view(-1)[here.start : here.end].addcdiv_(first, spread, value=-rate)


def _of_blocks(elsewhere: Tensor, piece: Piece, here: Chunk, last: bool) -> Tensor:
    """What the largest of each of a chunk's blocks is on other ranks, (2, blocks); 0 for those that
    are not cut."""
    found = elsewhere.new_zeros(2, here.blocks.stop - here.blocks.start)
    if piece.head is not None and here.start == 0:
        found[:, 0] = elsewhere[:, piece.head]
    if piece.tail is not None and last:
        found[:, -1] = elsewhere[:, piece.tail]
    return found


def _read(state: dict[str, Tensor], moment: str, here: Chunk) -> Tensor:
    codes = state[moment][here.start : here.end]
    if f"{moment}_largest" not in state:
        return codes.clone()
    largest = state[f"{moment}_largest"][here.blocks]
    return dequantise(codes, largest, moment == "first", here.before)


def _write(
    state: dict[str, Tensor], moment: str, here: Chunk, numbers: Tensor, at_least: Tensor | None
) -> None:
    if f"{moment}_largest" not in state:
        state[moment][here.start : here.end] = numbers
        return
    codes, largest = quantise(numbers, moment == "first", here.before, at_least)
    state[moment][here.start : here.end] = codes
    state[f"{moment}_largest"][here.blocks] = largest
