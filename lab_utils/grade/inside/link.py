"""A room's end of its line to the grader: frames there and back, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..frames import Frame, read_frame, write_frame


class Link:
    """`tell` says something, `ask` says it and stands still until the grader answers."""

    def __init__(self, line: int) -> None:
        self._line = line

    def tell(self, words: Any, tensors: Sequence[Tensor] = ()) -> None:
        """Send words and tensors."""
        write_frame(self._line, Frame(words, [plain(x).numpy() for x in tensors]))

    def ask(self, words: Any, tensors: Sequence[Tensor] = ()) -> tuple[Any, list[Tensor]]:
        """Send them, and wait for words and tensors."""
        self.tell(words, tensors)
        return self.hear()

    def hear(self) -> tuple[Any, list[Tensor]]:
        """What the grader says next. Raises EOFError when it is through with us."""
        frame = read_frame(self._line)
        return frame.words, [torch.from_numpy(array.copy()) for array in frame.arrays]


def plain(tensor: Tensor) -> Tensor:
    """Its numbers, as they lie one after the other. Raises TypeError for what only looks like a
    tensor."""
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        raise TypeError(f"a tensor was expected, not {type(tensor).__name__}")
    # a copy: what NumPy has looked at cannot be emptied in place any more
    return tensor.detach().clone(memory_format=torch.contiguous_format)
