"""Bytes that optimizers keep between steps, from the shapes of the tensors that they update.

sgd, adamw and adafactor are torch.optim's and measured in the tests. lion is its paper's one moment
(Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"), adam8bit bitsandbytes'
specification (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"; its Adam8bit
keeps tensors below 4,096 elements in fp32): both are specification, not measured here.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

FP32 = 4
# adam8bit: elements that share one fp32 constant; below this many a tensor is not quantised
BLOCK, SMALL = 256, 4096

Shape = tuple[int, ...]


def optimizer_state_bytes(kind: str, shapes: Iterable[tuple[Shape, int]]) -> int:
    """Bytes of the states of `kind` (a TrainConfig's optimizer) for tensors of these shapes,
    (shape, how many) each.

    Raises KeyError for a name that TrainConfig does not know.
    """
    per_tensor = {
        "sgd": _sgd,
        "adamw": _adamw,
        "adafactor": _adafactor,
        "lion": _sgd,
        "adam8bit": _adam8bit,
    }[kind]
    return sum(count * per_tensor(shape) for shape, count in shapes)


def update_temporary_bytes(kind: str, way: str, shapes: Iterable[tuple[Shape, int]]) -> int:
    """The most bytes that torch's step of `kind` ("sgd" or "adamw") needs for a moment, in fp32.

    `way`: "fused", one kernel, as our engine runs it: nothing. "foreach", torch's default on a GPU:
    AdamW's square roots of all second moments at once, the parameters once more. "for-loop": the
    same of one tensor at a time, twice. Steps' counts of 4 bytes are left out. Raises KeyError for
    other names.
    """
    sizes = [(FP32 * prod(shape), count) for shape, count in shapes]
    roots = {"sgd": 0, "adamw": 1}[kind]
    return (
        roots
        * {
            "fused": 0,
            "foreach": sum(size * count for size, count in sizes),
            "for-loop": 2 * max(size for size, _ in sizes),
        }[way]
    )


def _sgd(shape: Shape) -> int:
    return FP32 * prod(shape)  # one moment


def _adamw(shape: Shape) -> int:
    return 2 * FP32 * prod(shape) + FP32  # two, and a count of steps for every tensor


def _adafactor(shape: Shape) -> int:
    """The second moment as its rows' and columns' means (Shazeer and Stern 2018); a vector's in
    full; and the count of steps."""
    if len(shape) < 2:
        return FP32 * prod(shape) + FP32
    rows, columns = prod(shape[:-1]), prod(shape[:-2]) * shape[-1]
    return FP32 * (rows + columns) + FP32


def _adam8bit(shape: Shape) -> int:
    numel = prod(shape)
    return 2 * FP32 * numel if numel < SMALL else 2 * (numel + FP32 * -(-numel // BLOCK))
