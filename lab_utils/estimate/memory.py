"""Bytes that one rank holds: parameters, gradients, optimizer states. Saved activations and peaks are not estimated yet."""

from __future__ import annotations

from ..config import TrainConfig
from ..layout.parameters import parameter_count, parameter_shapes

# bytes per parameter that an optimizer keeps between steps, and bytes per parameter tensor (AdamW counts its steps in one
# fp32 number for every tensor)
OPTIMIZER_BYTES = {"sgd": (4, 0), "adamw": (8, 4)}


def model_state_bytes(config: TrainConfig) -> dict[str, int]:
    """Bytes of parameters, gradients and optimizer states on every data-parallel rank (ZeRO stage 0, fp32 states).

    Bucketed gradients are views of the buckets' buffers, so the buckets hold nothing extra.
    """
    count = parameter_count(config.model)
    per_parameter, per_tensor = OPTIMIZER_BYTES[config.optimizer]
    return {
        "parameters": 4 * count,
        "gradients": 4 * count,
        "optimizer": per_parameter * count + per_tensor * len(parameter_shapes(config.model)),
        "buckets": 0,
    }
