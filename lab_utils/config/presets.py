"""Named dense model shapes. `tiny` and `small` are ours; the others are the published ones, each
with its source."""

from __future__ import annotations

from typing import Any

from ..i18n import t
from .flag import ConfigError

_GPT = dict(
    norm="layernorm", activation="gelu", positions="learned", bias=True, tied=True, vocab=50257
)
_LLAMA2 = dict(
    norm="rmsnorm",
    activation="swiglu",
    positions="rope",
    bias=False,
    tied=False,
    vocab=32000,
    seq=4096,
)
_LLAMA3 = dict(
    norm="rmsnorm",
    activation="swiglu",
    positions="rope",
    bias=False,
    tied=False,
    vocab=128256,
    seq=8192,
    kv_heads=8,
)

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, hidden=64, heads=4, vocab=256, seq=64),
    "small": dict(layers=6, hidden=256, heads=8, vocab=256, seq=128),
    # Radford et al. 2019, table 2
    "gpt2": dict(**_GPT, layers=12, hidden=768, heads=12, seq=1024),
    "gpt2-xl": dict(**_GPT, layers=48, hidden=1600, heads=25, seq=1024),
    # Brown et al. 2020, table 2.1
    "gpt3-175b": dict(**_GPT, layers=96, hidden=12288, heads=96, seq=2048),
    # Narayanan et al. 2021 (SC21), table 1
    **{
        f"megatron-{size}": (
            _GPT | dict(vocab=51200, seq=2048, hidden=hidden, layers=layers, heads=heads)
        )
        for size, hidden, layers, heads in (
            ("1.7b", 2304, 24, 24),
            ("3.6b", 3072, 30, 32),
            ("7.5b", 4096, 36, 32),
            ("18b", 6144, 40, 48),
            ("39b", 8192, 48, 64),
            ("76b", 10240, 60, 80),
            ("145b", 12288, 80, 96),
            ("310b", 16384, 96, 128),
            ("530b", 20480, 105, 128),
            ("1t", 25600, 128, 160),
        )
    },
    # Touvron et al. 2023 (Llama 2), the released configurations
    "llama2-7b": dict(**_LLAMA2, layers=32, hidden=4096, heads=32, ffn=11008),
    "llama2-13b": dict(**_LLAMA2, layers=40, hidden=5120, heads=40, ffn=13824),
    "llama2-70b": dict(**_LLAMA2, layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672),
    # Grattafiori et al. 2024 (The Llama 3 Herd of Models), table 3; the 8B and 70B models' released
    # configurations
    "llama3-8b": dict(**_LLAMA3, layers=32, hidden=4096, heads=32, ffn=14336),
    "llama3-70b": dict(**_LLAMA3, layers=80, hidden=8192, heads=64, ffn=28672),
    "llama3.1-405b": dict(**_LLAMA3, layers=126, hidden=16384, heads=128, ffn=53248),
}


def preset_shape(name: str) -> dict[str, Any]:
    """The flags of a named shape; raises ConfigError with the known names."""
    if name not in PRESETS:
        raise ConfigError(
            t(
                f"there is no preset {name!r}; known: {', '.join(PRESETS)}.",
                f"没有名为 {name!r} 的预设，可选：{'、'.join(PRESETS)}。",
            )
        )
    return dict(PRESETS[name])
