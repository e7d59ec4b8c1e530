"""Blocks of numbers that share a scale: a small format is lent the range that it lacks.

MXFP8 and MXFP4: 32 numbers, one scale that is a power of two, 8 bits (e8m0). OCP Microscaling
Formats specification 1.0, section 6.3: the scale is 2 to the power of the largest number's exponent
minus the format's own greatest exponent, so the largest may still be cut off a little; finite
numbers beyond the largest saturate. NVFP4: 16 numbers, a scale in e4m3, and above these one
fp32 scale for the whole tensor, chosen here so that the largest number of all uses the full range
of both (NVIDIA 2025, "Pretraining large language models with NVFP4", appendix).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ldexp
from typing import NamedTuple

from .format import FORMATS, Format, exponent_of
from .rounding import round_to_nearest


class Quantised(NamedTuple):
    """What comes back when a tensor is read again, and the scale of each block."""

    values: list[float]
    scales: list[float]


@dataclass(frozen=True)
class Block:
    """`size` numbers of `element` under one scale: a power of two, or, where `scale` names a
    format, a number of it below an fp32 scale for all."""

    name: str
    element: Format
    size: int
    scale: Format | None = None

    @property
    def bits_per_number(self) -> float:
        """With the share of the block's scale; the one scale of a tensor counts for nothing."""
        return self.element.width + 8 / self.size

    def quantise(self, numbers: Sequence[float]) -> Quantised:
        """Round finite numbers, block by block; the last block may be short."""
        whole = self._whole(numbers)
        values, scales = [], []
        for first in range(0, len(numbers), self.size):
            part = numbers[first : first + self.size]
            scale = self._scale(max(map(abs, part)), whole)
            scales.append(scale)
            values += [
                round_to_nearest(x / scale, self.element, saturate=True).value * scale
                if scale
                else 0.0
                for x in part
            ]
        return Quantised(values, scales)

    def _whole(self, numbers: Sequence[float]) -> float:
        """The scale of the whole tensor."""
        largest = max(map(abs, numbers), default=0.0)
        if self.scale is None or largest == 0:
            return 1.0
        return round_to_nearest(
            largest / (self.scale.largest * self.element.largest), FORMATS["fp32"]
        ).value

    def _scale(self, largest: float, whole: float) -> float:
        if self.scale:
            wanted = largest / self.element.largest / whole
            return round_to_nearest(wanted, self.scale, saturate=True).value * whole
        if largest == 0:
            return 1.0
        power = exponent_of(largest) - self.element.greatest_exponent
        return ldexp(1.0, min(max(power, -127), 127))


BLOCKS = {
    block.name: block
    for block in (
        Block("MXFP8", FORMATS["e4m3"], 32),
        Block("MXFP4", FORMATS["e2m1"], 32),
        Block("NVFP4", FORMATS["e2m1"], 16, FORMATS["e4m3"]),
    )
}
