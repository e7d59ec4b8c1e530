"""The whole model's gradient, put together from what each rank has of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ..layout.placement import Placement


class Fragment(NamedTuple):
    """A run of a local parameter's values (fp32) from element `offset`; `place` says which part of
    the parameter is local."""

    place: Placement
    offset: int
    values: np.ndarray


def assemble(
    fragments: Iterable[Fragment], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Every parameter's values (fp32) by name.

    Raises ValueError unless each element was brought exactly once.
    """
    whole = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    times = {name: np.zeros(shape, np.uint8) for name, shape in shapes.items()}
    for place, offset, values in fragments:
        index = (
            np.arange(place.numel).reshape(place.local_shape).ravel()[offset : offset + values.size]
        )
        where = list(np.unravel_index(index, place.local_shape))
        if place.dim is not None:
            where[place.dim] = where[place.dim] + place.start
        whole[place.name][tuple(where)] = values.ravel()
        times[place.name][tuple(where)] += 1
    wrong = [name for name, count in times.items() if not (count == 1).all()]
    if wrong:
        raise ValueError(f"not brought exactly once: {', '.join(wrong)}")
    return whole
