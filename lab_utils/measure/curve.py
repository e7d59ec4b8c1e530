"""The live bytes of one step, operation by operation, read off live storages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from ..data.loader import StepBatch
from .live import LiveStorages
from .memory import SavedActivations

if TYPE_CHECKING:
    from ..engines.engine import Engine


class Reading(NamedTuple):
    """After one operation: the phase ("forward", "backward" or "update"), the part of the model
    that is at work ("embed", "blocks.3", "head_loss"), the bytes alive, and those of them that are
    saved for backward."""

    phase: str
    part: str
    live_bytes: int
    saved_bytes: int


class _Recorder(LiveStorages):
    """Notes a Reading after every operation; `phase` and `part` are set from outside."""

    phase, part = "forward", "embed"
    readings: list[Reading]

    def __torch_dispatch__(self, *call: Any) -> Any:
        result = super().__torch_dispatch__(*call)
        self.readings.append(Reading(self.phase, self.part, self.now, self._saved.now))
        return result

    def enter(self, phase: str, part: str) -> None:
        self.phase, self.part = phase, part


def memory_curve(engine: Engine, batch: StepBatch) -> list[Reading]:
    """Run one step of `engine` on `batch`, and read the live bytes after each of its operations.

    Make at least one step before: optimizer states appear with the first. On a rank that holds the
    whole model.
    """
    saved = SavedActivations(engine.model, engine.weights())
    live = _Recorder(
        engine.held, saved, [tensor for micro in batch.micro_batches for tensor in micro]
    )
    live.readings = [Reading("forward", "embed", live.now, 0)]
    with ExitStack() as instruments:
        for instrument in (saved, live, _announced(engine.model, live)):
            instruments.enter_context(instrument)
        engine.forward_backward(batch)
        live.enter("update", "")
        engine.update()
    return live.readings


@contextmanager
def _announced(model: Any, live: _Recorder) -> Iterator[None]:
    """Tell `live` whenever another part of the model begins its work, forward or backward."""
    plain_loss = model.loss

    def before(part: str) -> Any:
        def hook(_module: Any, inputs: tuple[Tensor, ...]) -> None:
            live.enter("forward", part)
            # its gradient is the first thing that the part before needs
            if inputs[0].requires_grad:
                inputs[0].register_hook(lambda _: live.enter("backward", _before(part)))

        return hook

    def loss(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        total, count = plain_loss(logits, targets)
        total.register_hook(lambda _: live.enter("backward", "head_loss"))
        return total, count

    parts = {
        "embed": model.token_embedding,
        **{f"blocks.{number}": block for number, block in model.blocks.named_children()},
        "head_loss": model.final_norm,
    }
    order = list(parts)

    def _before(part: str) -> str:
        return order[order.index(part) - 1]

    handles = [module.register_forward_pre_hook(before(part)) for part, module in parts.items()]
    model.loss = loss
    try:
        yield
    finally:
        model.loss = plain_loss
        for handle in handles:
            handle.remove()
