"""A floating-point format as data: how its bits make a number.

A number is (-1)^sign · 2^(exponent - bias) · 1.mantissa; where the exponent bits are all zero it
is *subnormal*, (-1)^sign · 2^(1 - bias) · 0.mantissa, so that the spacing stays what it was and
numbers go down to zero in even steps. Sources: IEEE 754-2019 (fp32, fp16); Kalamkar et al. 2019
(bf16); Micikevicius et al. 2022, "FP8 formats for deep learning" (e4m3, e5m2); OCP Microscaling
Formats specification 1.0, 2023 (e2m1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, inf, isnan, ldexp, nan
from typing import Literal

Top = Literal["ieee", "nan", "numbers"]


@dataclass(frozen=True)
class Format:
    """A format of 1 + `exponent` + `mantissa` bits.

    `top`: what the largest exponent is kept for. "ieee": infinities and NaN; "nan": numbers, but
    all ones is NaN and there is no infinity; "numbers": numbers only.
    """

    name: str
    exponent: int
    mantissa: int
    top: Top = "ieee"

    @property
    def width(self) -> int:
        """Bits that carry something. tf32's 19 travel in a 32-bit word."""
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        """What is subtracted from the exponent bits."""
        return 2 ** (self.exponent - 1) - 1

    @property
    def least_exponent(self) -> int:
        """Of a normal number, as a power of two; subnormal numbers are spaced as there."""
        return 1 - self.bias

    @property
    def greatest_exponent(self) -> int:
        """Of the largest finite number, as a power of two."""
        return 2**self.exponent - 1 - self.bias - (self.top == "ieee")

    @property
    def largest(self) -> float:
        """The largest finite number."""
        missing = 2 if self.top == "nan" else 1  # in steps of the last mantissa bit
        return ldexp(2 ** (self.mantissa + 1) - missing, self.greatest_exponent - self.mantissa)

    @property
    def smallest_normal(self) -> float:
        """Below it the mantissa begins to lose bits."""
        return ldexp(1.0, self.least_exponent)

    @property
    def smallest(self) -> float:
        """The smallest number above zero."""
        return ldexp(1.0, self.least_exponent - self.mantissa)

    def spacing(self, x: float) -> float:
        """From one number to the next in the binade of x; below the normal numbers it stays the
        same."""
        return ldexp(1.0, max(exponent_of(x), self.least_exponent) - self.mantissa)

    def value(self, bits: int) -> float:
        """The number that a pattern of `width` bits stands for."""
        mantissa = bits & (2**self.mantissa - 1)
        exponent = (bits >> self.mantissa) & (2**self.exponent - 1)
        sign = -1.0 if bits >> (self.exponent + self.mantissa) else 1.0
        ones = exponent == 2**self.exponent - 1
        if ones and self.top == "ieee":
            return nan if mantissa else sign * inf
        if ones and self.top == "nan" and mantissa == 2**self.mantissa - 1:
            return nan
        if exponent == 0:
            return sign * ldexp(mantissa, self.least_exponent - self.mantissa)
        whole = 2**self.mantissa + mantissa
        return sign * ldexp(whole, exponent - self.bias - self.mantissa)

    def bits(self, x: float) -> int:
        """The pattern of a number that the format has. Raises ValueError for any other."""
        sign = int(copysign(1.0, x) < 0) << (self.exponent + self.mantissa)
        all_ones = (2**self.exponent - 1) << self.mantissa
        if isnan(x) and self.top != "numbers":
            return all_ones | (2**self.mantissa - 1)
        if abs(x) == inf and self.top == "ieee":
            return sign | all_ones
        if not abs(x) <= self.largest:
            raise ValueError(f"{self.name} has no {x!r}.")
        steps = abs(x) / self.spacing(x)
        if steps != int(steps):
            raise ValueError(f"{self.name} has no {x!r}.")
        if abs(x) < self.smallest_normal:
            return sign | int(steps)
        exponent = exponent_of(x) + self.bias
        return sign | exponent << self.mantissa | (int(steps) - 2**self.mantissa)

    def fields(self, x: float) -> tuple[str, str, str]:
        """Sign, exponent and mantissa of a number that the format has, as zeros and ones."""
        word = f"{self.bits(x):0{self.width}b}"
        return word[0], word[1 : 1 + self.exponent], word[1 + self.exponent :]


def exponent_of(x: float) -> int:
    """The power of two below |x|, exactly; of zero that of the smallest double."""
    if x == 0:
        return -1074
    return int(abs(x).hex().split("p")[1]) if abs(x) >= 2.0**-1022 else _of_subnormal(abs(x))


def _of_subnormal(x: float) -> int:
    return exponent_of(x * 2.0**200) - 200


FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 8, 23),
        Format("tf32", 8, 10),
        Format("bf16", 8, 7),
        Format("fp16", 5, 10),
        Format("e5m2", 5, 2),
        Format("e4m3", 4, 3, "nan"),
        Format("e2m1", 2, 1, "numbers"),
    )
}
