"""Models that are not ours, small: what people bring to a library for parallel training."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 8  # of the whole batch; 2 and 4 ranks have equal shares


class Encoder(nn.Module):
    """torch's own transformer, with a head."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))

    def inputs(self) -> Tensor:
        return torch.randn(ROWS, 6, 16)


class Convolutional(nn.Module):
    """Weights of four dims, in the layout that convolutions like; a norm with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 4, 3)
        ).to(memory_format=torch.channels_last)
        self.head = nn.Linear(4, 5)
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean((2, 3)) * self.scale)

    def inputs(self) -> Tensor:
        return torch.randn(ROWS, 3, 8, 8).to(memory_format=torch.channels_last)


class Tied(nn.Module):
    """A weight that two modules share, a frozen half, and a layer that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 12)
        self.frozen = nn.Linear(12, 12).requires_grad_(False)
        self.trained, self.unused = nn.Linear(12, 12), nn.Linear(3, 3)
        self.head = nn.Linear(12, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.trained(self.frozen(self.embedding(x)).tanh()).mean(1))

    def inputs(self) -> Tensor:
        return torch.randint(11, (ROWS, 4))


class Mixed(nn.Module):
    """Parameters of two dtypes, in turns, as a model with fp64 norms has them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(10, 10, dtype=torch.float64 if i % 2 else torch.float32) for i in range(6)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x.to(layer.weight.dtype)).tanh()
        return x

    def inputs(self) -> Tensor:
        return torch.randn(ROWS, 10)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "encoder": Encoder,
    "convolutional": Convolutional,
    "tied": Tied,
    "mixed": Mixed,
}


def made(name: str, seed: int) -> nn.Module:
    """The model with weights of its own for each seed."""
    torch.manual_seed(seed)
    return MODELS[name]()


def batches(model: nn.Module, steps: int) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets of whole batches, the same on every rank."""
    torch.manual_seed(77)
    with torch.no_grad():
        inputs = [model.inputs() for _ in range(steps)]
        return [(x, torch.randint(5, (ROWS,))) for x in inputs]


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The mean over the rows."""
    return F.cross_entropy(model(x).float(), y)
