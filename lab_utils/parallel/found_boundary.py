"""What passes between the stages of any model: its shape and dtype are found on the first
micro-batch."""

from __future__ import annotations

import torch
from torch import Tensor

from ..i18n import t
from ..layout.pipeline_events import Channel
from .comm import Axis, Pending

_CHANNEL = len(Channel)  # the next one after the executor's
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_MOST_DIMS = 8


class FoundBoundary:
    """Stands in for pipeline.Boundary. Before the first message into a stage goes a note that says
    what it looks like; from then on all look the same.

    Waiting for a note cannot be waiting in a circle: micro-batch 0 is the first that any stage
    runs, and to get there it needs nothing but itself.
    """

    def __init__(self, axis: Axis, device: torch.device) -> None:
        self.axis, self.device = axis, device
        self.known: dict[int, tuple[torch.Size, torch.dtype]] = {}  # by the stage entered
        self._notes: list[tuple[Pending, Tensor]] = []

    def empty(self, stage: int) -> Tensor:
        """Room for one message: what enters `stage`, or its gradient."""
        if stage not in self.known:
            note = torch.zeros(2 + _MOST_DIMS, dtype=torch.int64, device=self.device)
            self.axis.receive(note, (stage - 1) % self.axis.size, channel=_CHANNEL).wait()
            dtype, dims, *sizes = note.tolist()
            self.known[stage] = torch.Size(sizes[:dims]), _DTYPES[dtype]
        shape, dtype = self.known[stage]
        return torch.empty(shape, dtype=dtype, device=self.device)

    def leave(self, x: Tensor, stage: int) -> None:
        """`x` is about to be sent to `stage`; says so first if it is the first. Raises ValueError
        if it differs from the one before."""
        if stage not in self.known:
            self.known[stage] = x.shape, x.dtype
            note = [_DTYPES.index(x.dtype), x.dim(), *x.shape, *[0] * (_MOST_DIMS - x.dim())]
            tensor = torch.tensor(note, device=self.device)
            to = stage % self.axis.size
            self._notes.append(
                (self.axis.send(tensor, to, purpose="control", channel=_CHANNEL), tensor)
            )
        if (x.shape, x.dtype) != self.known[stage]:
            was, now = tuple(self.known[stage][0]), tuple(x.shape)
            raise ValueError(
                t(
                    f"what enters stage {stage} was {was} and is {now} now: every micro-batch of a"
                    " pipeline has the same shape; leave out the short batch at the end.",
                    f"进入流水线阶段 {stage} 的张量原来是 {was}，现在却是 {now}："
                    "流水线的每个微批次形状必须相同，请去掉末尾不满的批次。",
                )
            )

    def settle(self) -> None:
        """At the end of a step: the notes have been read."""
        for pending, _ in self._notes:
            pending.wait()
        self._notes.clear()


def one_tensor(y: object, stage: int) -> Tensor:
    """What a stage passes on, with an edge for the backward pass to arrive at: if nothing in the
    stage is trained, one that leads nowhere. Raises ValueError for what cannot travel."""
    if not isinstance(y, Tensor) or y.dtype not in _DTYPES or y.dim() > _MOST_DIMS:
        what = f"{type(y).__name__} {getattr(y, 'dtype', '')}".strip()
        raise ValueError(
            t(
                f"stage {stage} gives {what}: between stages travels one floating-point tensor, so"
                " wrap the layer in a module that returns one.",
                f"流水线阶段 {stage} 的输出是 {what}：阶段之间只能传一个浮点张量，"
                "请把该层包在一个只返回单个张量的模块里。",
            )
        )
    return y if y.requires_grad else y.detach().requires_grad_()
