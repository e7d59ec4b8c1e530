"""How large the residual stream and its gradient are after every block of a GPT that has not been
trained."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...config import TrainConfig
from ...data.loader import Loader
from ...model import GPT

PLACES = ("pre", "post", "none")


def one_thread(work: Callable[..., Any]) -> Callable[..., Any]:
    """Compute on one thread: for matrices as small as these a second one costs more than it
    helps."""

    @wraps(work)
    def alone(*args: Any, **kwargs: Any) -> Any:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return work(*args, **kwargs)
        finally:
            torch.set_num_threads(before)

    return alone


class Signal(NamedTuple):
    """Root mean squares, of what enters the first block and of what leaves each: of the stream
    itself, and of the gradient of the mean loss by it; and that of the logits."""

    stream: list[float]
    gradient: list[float]
    logits: float


class PostNorm(nn.Module):
    """norm(x + attention(x)), then norm(x + mlp(x)), as in Vaswani et al. 2017; takes a block's
    parts."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.attention_norm, self.attention = block.attention_norm, block.attention
        self.mlp_norm, self.mlp = block.mlp_norm, block.mlp

    # (b, s, h) -> (b, s, h)
    def forward(self, x: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x))
        return self.mlp_norm(x + self.mlp(x))


def place_norms(model: GPT, place: str) -> GPT:
    """Move a GPT's norms: "pre" leaves them, "post" puts them behind each sum, "none" takes them
    out of the blocks (the one before the head stays)."""
    for number, block in enumerate(model.blocks):
        if place == "post":
            model.blocks[number] = PostNorm(block)
        elif place == "none":
            block.attention_norm, block.mlp_norm = nn.Identity(), nn.Identity()
    return model


def rms(x: Tensor) -> float:
    """Root mean square."""
    return x.detach().double().square().mean().sqrt().item()


@one_thread
def signal(
    config: TrainConfig, place: str = "pre", change: Callable[[GPT], object] | None = None
) -> Signal:
    """One forward and one backward pass of `config`'s model on its first batch; `change(model)` may
    alter its weights first."""
    model = place_norms(GPT(config.model, config.seed, config.init), place)
    if change:
        with torch.no_grad():
            change(model)
    micro = Loader(config).batch(0).micro_batches[0]
    x = model.embed(micro.tokens)
    streams = [x]
    for block in model.blocks:
        x = block(x)
        streams.append(x)
    logits = model.head_loss(x, None)
    loss, count = model.loss(logits, micro.targets)
    gradients = torch.autograd.grad(loss / count, streams)
    return Signal([rms(x) for x in streams], [rms(g) for g in gradients], rms(logits))
