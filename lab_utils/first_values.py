"""The numbers that a model starts from: how wide each parameter is drawn, by name, shape and rule.

Every rule draws normal numbers with mean 0; biases begin at 0, norm weights at 1. Linear layers
hold their matrix as (fan_out, fan_in): a row for each output.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor, nn

from .config import ModelConfig

RESIDUAL = ("attention.output.weight", "mlp.down.weight")  # what a block adds to the stream
EMBEDDINGS = ("token_embedding.weight", "position_embedding.weight")
STD = 0.02  # of the embeddings under every rule, and of all of GPT-2's matrices


def initialize(model: nn.Module, config: ModelConfig, seed: int, init: str = "gpt2") -> None:
    """Give every parameter its first values."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(first_values(name, tuple(parameter.shape), config, seed, init))


def first_values(
    name: str, shape: tuple[int, ...], config: ModelConfig, seed: int, init: str = "gpt2"
) -> Tensor:
    """A parameter's first values (fp32, CPU), a function of (seed, its name) and the rule."""
    if name.endswith(".bias"):
        return torch.zeros(shape)
    if "norm" in name:
        return torch.ones(shape)
    return torch.empty(shape).normal_(
        0, first_std(name, shape, config, init), generator=generator(seed, name)
    )


def first_std(name: str, shape: tuple[int, ...], config: ModelConfig, init: str = "gpt2") -> float:
    """Standard deviation of a matrix's first values.

    gpt2: 0.02, projections into the residual stream narrower by √(2·layers) (Radford et al. 2019,
    section 2.3). xavier: √(2 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 12). he:
    √(2 / fan_in) (He et al. 2015, equation 10). mup: 1/√fan_in, the head 1/fan_in (Yang et al.
    2021, table 3). Embeddings are drawn with 0.02 throughout: a lookup sums over nothing.
    """
    fan_out, fan_in = shape
    if init == "gpt2":
        return STD / math.sqrt(2 * config.layers) if name.endswith(RESIDUAL) else STD
    if name in EMBEDDINGS:
        return STD
    if init == "xavier":
        return math.sqrt(2 / (fan_in + fan_out))
    if init == "he":
        return math.sqrt(2 / fan_in)
    return 1 / fan_in if name == "head.weight" else 1 / math.sqrt(fan_in)


def generator(seed: int, name: str) -> torch.Generator:
    """The source of a parameter's numbers: it depends on the run's seed and the parameter's name
    alone, and is the same on every machine."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
