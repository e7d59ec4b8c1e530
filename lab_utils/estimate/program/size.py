"""Sizes with names in place of numbers: sums of products such as 4·b·s·h + 12·v, so that one run of
the model gives its formulas.

Named sizes stand for whole numbers from 2 up (a size of 1 is written as the number). Two formulas
are therefore equal for all shapes or told apart by the program in none, and a formula none of whose
coefficients is negative is nowhere negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Product = tuple[str, ...]  # names in order, as often as they occur; () is 1


class Size:
    """Σ coefficient · product of named sizes. Never a plain number: arithmetic gives an int where
    no name is left."""

    __slots__ = ("terms",)

    def __init__(self, terms: dict[Product, int]) -> None:
        self.terms = terms

    @classmethod
    def named(cls, name: str) -> Size:
        """The size called `name`."""
        return cls({(name,): 1})

    def __add__(self, other: Size | int) -> Size | int:
        return _sum(self.terms, _terms(other), 1)

    __radd__ = __add__

    def __sub__(self, other: Size | int) -> Size | int:
        return _sum(self.terms, _terms(other), -1)

    def __rsub__(self, other: Size | int) -> Size | int:
        return _sum(_terms(other), self.terms, -1)

    def __neg__(self) -> Size:
        return Size({product: -times for product, times in self.terms.items()})

    def __mul__(self, other: Size | int) -> Size | int:
        if type(other) is int:
            return (
                Size({product: times * other for product, times in self.terms.items()})
                if other
                else 0
            )
        found: dict[Product, int] = {}
        for p, x in self.terms.items():
            for q, y in other.terms.items():
                product = tuple(sorted(p + q))
                found[product] = found.get(product, 0) + x * y
        return _made({product: times for product, times in found.items() if times})

    __rmul__ = __mul__

    def __floordiv__(self, other: Size | int) -> Size | int:
        """Only where it leaves no remainder whatever the sizes are. Raises ValueError otherwise."""
        if type(other) is int:
            if any(times % other for times in self.terms.values()):
                raise ValueError(f"{self} is not always a multiple of {other}")
            return _made({product: times // other for product, times in self.terms.items()})
        if len(other.terms) != 1:
            raise ValueError(f"{self} cannot be divided by the sum {other}")
        ((divisor, times),) = other.terms.items()
        return (
            _made({_without(product, divisor): count for product, count in self.terms.items()})
            // times
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return " + ".join(
            "·".join([*[str(times)] * (times != 1 or not product), *product])
            for product, times in self.terms.items()
        ).replace("+ -", "− ")


def _terms(size: Size | int) -> Mapping[Product, int]:
    return size.terms if type(size) is Size else {(): size} if size else {}


def _made(terms: dict[Product, int]) -> Size | int:
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Size(terms)


def _sum(left: Mapping[Product, int], right: Mapping[Product, int], sign: int) -> Size | int:
    found = dict(left)
    for product, times in right.items():
        total = found.get(product, 0) + sign * times
        if total:
            found[product] = total
        else:
            del found[product]
    return _made(found)


def _without(product: Product, divisor: Product) -> Product:
    left = list(product)
    for name in divisor:
        if name not in left:
            raise ValueError(
                f"{'·'.join(product) or 1} is not always a multiple of {'·'.join(divisor)}"
            )
        left.remove(name)
    return tuple(left)


def never_less(left: Size | int, right: Size | int) -> bool:
    """Whether left ≥ right for all shapes (all coefficients of the difference say so; sums that
    need more than that do not count)."""
    if type(left) is int and type(right) is int:
        return left >= right
    more, less = _terms(left), _terms(right)
    for product, times in less.items():
        if more.get(product, 0) < times:
            return False
    return all(times >= 0 or product in less for product, times in more.items())


def coefficients(size: Size | int) -> int:
    """The sum of all coefficients."""
    return sum(size.terms.values()) if type(size) is Size else size


class Shape:
    """Numbers for the named sizes: `shape(size)` is what a formula comes to. Products are
    multiplied out once."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers, self._products = numbers, {(): 1}

    def __call__(self, size: Size | int) -> int:
        if type(size) is int:
            return size
        known, total = self._products, 0
        for product, times in size.terms.items():
            number = known.get(product)
            if number is None:
                number = known[product] = self._product(product)
            total += times * number
        return total

    def _product(self, product: Product) -> int:
        number = 1
        for name in product:
            number *= self.numbers[name]
        return number

    def by_term(self, sizes: Mapping[str, Size | int]) -> dict[str, int]:
        """The same for a dict of formulas."""
        return {term: self(size) for term, size in sizes.items()}

    def largest(self, sizes: Iterable[Size | int]) -> int:
        """The largest of several formulas."""
        return max(map(self, sizes))
