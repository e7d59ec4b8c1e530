"""What every engine is to the training loop: gradients of one batch, then one update."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch import Tensor, nn

from ..data.loader import StepBatch
from .fragments import Fragment
from .loss_scaler import LossScaler


class Engine:
    """One rank's side of a run. `model`: the module whose parameters are not activations; `scaler`:
    under fp16, else None.

    `shows_all_tensors`: what it allocates can be seen by a dispatch mode (a library may keep
    tensors out of sight).
    """

    model: nn.Module
    scaler: LossScaler | None = None
    shows_all_tensors = False

    def forward_backward(self, batch: StepBatch) -> float:
        """Gradients of the global batch, summed over all ranks, not yet clipped.

        Returns the loss sum of this rank's share, 0 on ranks that do not compute the loss or whose
        tp neighbour reports it.
        """
        raise NotImplementedError

    def update(self) -> bool:
        """Clip and apply the gradients of `forward_backward`; False if the step was skipped (fp16
        overflow)."""
        raise NotImplementedError

    def on_host(self) -> bool:
        """Whether what comes into being at this moment does so in the host's memory (an offloaded
        update), even where host and device are one."""
        return False

    def fragments(self) -> list[Fragment]:
        """After `forward_backward`: what this rank has of the whole gradient, without what another
        rank brings too."""
        raise NotImplementedError

    def held(self) -> dict[str, list[Tensor] | None]:
        """The live tensors behind the report's "parameters", "gradients", "optimizer", "buckets";
        None: out of sight."""
        raise NotImplementedError

    def weights(self) -> list[Tensor]:
        """Tensors beside the model's parameters whose storages hold weights: saved for backward,
        they are no activations."""
        return []

    def counters(self) -> list[AbstractContextManager]:
        """Contexts that count the traffic of a library that calls torch.distributed itself, from
        outside."""
        return []
