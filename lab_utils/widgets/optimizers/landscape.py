"""A valley small enough to compute while one looks: a linear layer of two inputs, one much larger
than the other, and each optimizer's rule in a few lines of plain numbers.

The layer's 2 × 2 weights W are counted from the best ones: loss = ½ Σ over both outputs of
(WCWᵀ)ᵢᵢ, C the inputs' mean products. Straight, C is diagonal; mixed, the inputs are turned by
TURN, as if each were measured as a blend of both. The loss, and a rule that treats W as a matrix,
do not care how the inputs are turned; a rule that goes weight by weight does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

Matrix = tuple[float, float, float, float]  # rows after one another
Step = Callable[[Matrix, float], Matrix]  # (gradient, learning rate) → what is subtracted

LARGE, SMALL = 100.0, 1.0  # mean squares of the two inputs
TURN = math.radians(30)
START = 0.9, 1.3, -0.5, 1.1  # each output's weights along the steep and the flat direction
STEPS = 60
QUINTIC = 3.4445, -4.7750, 2.0315


def product(a: Matrix, b: Matrix) -> Matrix:
    """a @ b."""
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )


def turned(mixed: bool) -> Matrix:
    """How the inputs are turned: the columns are the steep and the flat direction."""
    angle = TURN if mixed else 0.0
    c, s = math.cos(angle), math.sin(angle)
    return c, -s, s, c


def gradient(weights: Matrix, mixed: bool) -> Matrix:
    """WC."""
    a, b, c, d = turned(mixed)
    covariance = product((a * LARGE, b * SMALL, c * LARGE, d * SMALL), (a, c, b, d))
    return product(weights, covariance)


def place(weights: Matrix, mixed: bool) -> Matrix:
    """The same weights, with columns along the steep and the flat direction."""
    return product(weights, turned(mixed))


def loss(weights: Matrix, mixed: bool) -> float:
    """Half the mean square of what the layer's outputs are off by."""
    a, b, c, d = place(weights, mixed)
    return (LARGE * (a * a + c * c) + SMALL * (b * b + d * d)) / 2


def rate_of(rate: float, number: int) -> float:
    """The rate of step `number`: it falls in a straight line, and would be 0 after the last."""
    return rate * (1 - number / STEPS)


def descent(rule: str, rate: float, mixed: bool) -> Iterator[Matrix]:
    """The weights before the first step and after each."""
    a, b, c, d = turned(mixed)
    weights = product(START, (a, c, b, d))
    step = RULES[rule]()
    yield weights
    for number in range(STEPS):
        moved = step(gradient(weights, mixed), rate_of(rate, number))
        weights = tuple(w - m for w, m in zip(weights, moved, strict=True))
        yield weights


def sgd() -> Step:
    """Straight downhill."""
    return lambda g, rate: tuple(rate * x for x in g)


def momentum(keep: float = 0.9) -> Step:
    """What is left of all gradients so far, as torch.optim.SGD keeps it."""
    kept = [0.0] * 4

    def step(g: Matrix, rate: float) -> Matrix:
        kept[:] = [keep * k + x for k, x in zip(kept, g, strict=True)]
        return tuple(rate * k for k in kept)

    return step


def adam(first: float = 0.9, second: float = 0.95) -> Step:
    """Mean gradient over the root of the mean square, each unbiased, weight by weight."""
    mean, square, count = [0.0] * 4, [0.0] * 4, 0

    def step(g: Matrix, rate: float) -> Matrix:
        nonlocal count
        count += 1
        mean[:] = [first * m + (1 - first) * x for m, x in zip(mean, g, strict=True)]
        square[:] = [second * v + (1 - second) * x * x for v, x in zip(square, g, strict=True)]
        a, b = 1 - first**count, 1 - second**count
        return tuple(
            rate * (m / a) / (math.sqrt(v / b) + 1e-8) for m, v in zip(mean, square, strict=True)
        )

    return step


def lion(mix: float = 0.9, keep: float = 0.99) -> Step:
    """The sign of gradient and momentum mixed."""
    kept = [0.0] * 4

    def step(g: Matrix, rate: float) -> Matrix:
        mixed = [mix * k + (1 - mix) * x for k, x in zip(kept, g, strict=True)]
        kept[:] = [keep * k + (1 - keep) * x for k, x in zip(kept, g, strict=True)]
        return tuple(rate * ((m > 0) - (m < 0)) for m in mixed)

    return step


def muon(keep: float = 0.95) -> Step:
    """Nesterov momentum with both singular values brought near one, 0.2 · √2 times."""
    kept = [0.0] * 4

    def step(g: Matrix, rate: float) -> Matrix:
        kept[:] = [keep * k + (1 - keep) * x for k, x in zip(kept, g, strict=True)]
        ahead = tuple(keep * k + (1 - keep) * x for k, x in zip(kept, g, strict=True))
        return tuple(rate * 0.2 * math.sqrt(2) * x for x in orthogonal(ahead))

    return step


def orthogonal(x: Matrix) -> Matrix:
    """Five Newton–Schulz steps from x ÷ its length."""
    length = max(math.sqrt(sum(v * v for v in x)), 1e-7)
    x = tuple(v / length for v in x)
    one, three, five = QUINTIC
    for _ in range(5):
        gram = product(x, (x[0], x[2], x[1], x[3]))
        squared = product(gram, gram)
        mixed = tuple(three * g + five * s for g, s in zip(gram, squared, strict=True))
        x = tuple(one * v + m for v, m in zip(x, product(mixed, x), strict=True))
    return x


RULES: dict[str, Callable[[], Step]] = {
    "sgd": sgd,
    "momentum": momentum,
    "adam": adam,
    "lion": lion,
    "muon": muon,
}
