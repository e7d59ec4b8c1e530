"""What keeps gradients in step where every rank holds everything, without numbers:
parallel/data_parallel.py, line by line.

`zero_grad`, `finish`, `gather_parameters` and `wrap` are called where the engine calls
their namesakes. What is there between steps is there from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from ....config import TrainConfig
from ....layout.buckets import assign_buckets
from ...program.live import Storage, Value
from ...program.model import Program
from ...program.tape import Leaf


def has_buckets(config: TrainConfig) -> bool:
    """Whether several gradients travel as one."""
    return (
        config.parallel.replicas > 1
        and not config.parallel.zero
        and config.parallel.gradient_sync == "bucketed"
    )


def in_buckets(config: TrainConfig, numels: Mapping[str, int]) -> frozenset[str]:
    """Of all gradients of a rank, those that share a buffer with others."""
    p = config.parallel
    if not has_buckets(config):
        return frozenset()
    shared = (
        bucket.names
        for bucket in assign_buckets(numels, p.bucket_bytes, _width(config))
        if len(bucket.names) > 1
    )
    return frozenset(name for names in shared for name in names)


def small_enough(config: TrainConfig, numels: Mapping[str, int]) -> frozenset[str]:
    """The gradients that share a buffer unless they are left without company in the last bucket."""
    width, most = _width(config), config.parallel.bucket_bytes
    return frozenset(name for name, numel in numels.items() if numel * width < most)


def _width(config: TrainConfig) -> int:
    return 2 if config.precision == "bf16-pure" else 4


class Replicated:
    """Every rank holds everything; the gradients `together` lie in buckets, which travel as one.
    `kept`: all of them stay from step to step."""

    def __init__(self, program: Program, together: frozenset[str]) -> None:
        self.program, self.torch = program, program.torch
        width = next(iter(program.leaves.values())).value.width
        self.kept = self.torch.convention.main_gradients
        width = self.torch.convention.gradient_width(width)
        together = frozenset() if self.kept else together
        numels = {name: prod(leaf.shape) for name, leaf in program.leaves.items()}
        buffer = Storage(self.torch, width * sum(numels[name] for name in together), "gradients")
        self.views = {name: Value(buffer, numels[name], width) for name in together}
        for name, leaf in program.leaves.items():
            if name in self.views:
                leaf.hook = self._into_bucket
                leaf.grad = self.views[name]
            else:
                nbytes = width * leaf.value.numel
                leaf.grad = Value(Storage(self.torch, nbytes, "gradients"), leaf.value.numel, width)
        self.enabled = True

    def _into_bucket(self, leaf: Leaf) -> None:
        leaf.grad = self.views[leaf.name]

    def zero_grad(self) -> None:
        if self.kept:
            return
        for leaf in self.program.leaves.values():
            leaf.grad = None

    def finish(self) -> None:
        """All-reduces are in place."""

    def gather_parameters(self) -> None:
        """All ranks have every weight."""

    def optimizer_numels(self) -> list[int]:
        """Elements of each tensor that the optimizer updates."""
        return [leaf.value.numel for leaf in self.program.leaves.values()]

    def wrap(
        self, parts: list[str], run: Callable[[str, Value | None, int], Value]
    ) -> Callable[[str, Value | None, int], Value]:
        """How a part is run."""
        return run
