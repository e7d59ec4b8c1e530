"""What one rank hands to collectives in one optimizer step, and what of it goes over the wire."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ..config import ModelConfig, TrainConfig
from ..layout.buckets import Bucket, assign_buckets
from ..layout.parameters import parameter_shapes
from ..layout.wire import wire_bytes
from ..report import Traffic

GRADIENT_BYTES = 4      # gradients are reduced in fp32; under bf16 autocast the parameters, so the gradients, stay fp32


def gradient_messages(config: TrainConfig) -> tuple[Bucket, ...]:
    """The all-reduces of one step in the order in which they leave: one per bucket, or one per gradient (naive)."""
    return _messages(config.model, None if config.parallel.gradient_sync == "naive" else config.parallel.bucket_bytes)


@lru_cache(maxsize=64)      # tools price thousands of layouts of a few models
def _messages(model: ModelConfig, bucket_bytes: int | None) -> tuple[Bucket, ...]:
    numels = {name: prod(shape) for name, shape in parameter_shapes(model).items()}
    if bucket_bytes is None:
        return tuple(Bucket((name,), (0,), numel) for name, numel in numels.items())
    return assign_buckets(numels, bucket_bytes, GRADIENT_BYTES)


def step_traffic(config: TrainConfig) -> tuple[Traffic, ...]:
    """One rank's traffic under data parallelism. Accumulation does not change it: gradients travel once a step."""
    ranks = config.parallel.dp
    if ranks == 1:
        return ()
    messages = gradient_messages(config)
    payload = GRADIENT_BYTES * sum(message.numel for message in messages)
    return (Traffic("all_reduce", "dp", "gradient", len(messages), payload, wire_bytes("all_reduce", payload, ranks)),)
