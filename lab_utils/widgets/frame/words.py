"""The words that tools share: models, precisions, optimizers, recomputation."""

from __future__ import annotations

from ...config import ModelConfig
from ...config.presets import PRESETS
from ...layout.parameters import parameter_count
from .controls import Option, Words
from .units import digits

MODELS = {
    "tiny": "tiny",
    "gpt2": "GPT-2",
    "gpt2-xl": "GPT-2 XL",
    "llama3-8b": "Llama 3 8B",
    "llama3-70b": "Llama 3 70B",
    "gpt3-175b": "GPT-3 175B",
    "llama3.1-405b": "Llama 3.1 405B",
}
PRECISIONS: dict[str, Words] = {
    "fp32": "fp32",
    "bf16": ("bf16 autocast", "bf16 自动混合精度"),
    "bf16-pure": ("bf16, fp32 master weights", "bf16，fp32 主权重"),
}
OPTIMIZERS: dict[str, Words] = {
    "adamw": "AdamW",
    "sgd": ("SGD with momentum", "带动量的 SGD"),
    "adafactor": "Adafactor",
    "lion": "Lion",
    "adam8bit": ("8-bit Adam", "8 位 Adam"),
}
RECOMPUTE: dict[str, Words] = {
    "none": ("none", "无"),
    "selective": ("attention only", "仅注意力"),
    "full": ("every layer", "所有层"),
}


def model_option(name: str, with_length: bool = False) -> Option:
    """A model to choose, with its parameters: GPT-2 (124M); or also with the tokens of its
    sequences: GPT-2 (124M, s = 1,024)."""
    model = ModelConfig(**PRESETS[name])
    count = parameter_count(model)
    scale, unit = next((s, u) for s, u in ((1e9, "B"), (1e6, "M"), (1e3, "k")) if count >= s)
    length = f", s = {model.seq:,}" if with_length else ""
    return name, f"{MODELS[name]} ({digits(count / scale)}{unit}{length})"
