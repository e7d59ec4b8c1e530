"""Named dense model shapes. `tiny` and `small` are ours; the others are the published ones, each with its source."""

from __future__ import annotations

from typing import Any

from .config import ConfigError
from .i18n import t

_GPT = dict(norm="layernorm", activation="gelu", positions="learned", bias=True, tied=True, vocab=50257)
_LLAMA3 = dict(norm="rmsnorm", activation="swiglu", positions="rope", bias=False, tied=False, vocab=128256, seq=8192, kv_heads=8)

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, hidden=64, heads=4, vocab=256, seq=64),
    "small": dict(layers=6, hidden=256, heads=8, vocab=256, seq=128),
    # Radford et al. 2019, table 2
    "gpt2": dict(**_GPT, layers=12, hidden=768, heads=12, seq=1024),
    "gpt2-xl": dict(**_GPT, layers=48, hidden=1600, heads=25, seq=1024),
    # Brown et al. 2020, table 2.1
    "gpt3-175b": dict(**_GPT, layers=96, hidden=12288, heads=96, seq=2048),
    # Grattafiori et al. 2024 (The Llama 3 Herd of Models), table 3; the 8B and 70B models' released configurations
    "llama3-8b": dict(**_LLAMA3, layers=32, hidden=4096, heads=32, ffn=14336),
    "llama3-70b": dict(**_LLAMA3, layers=80, hidden=8192, heads=64, ffn=28672),
    "llama3.1-405b": dict(**_LLAMA3, layers=126, hidden=16384, heads=128, ffn=53248),
}


def preset_shape(name: str) -> dict[str, Any]:
    """The flags of a named shape; raises ConfigError with the known names."""
    if name not in PRESETS:
        raise ConfigError(t(f"there is no preset {name!r}; known: {', '.join(PRESETS)}.", f"没有名为 {name!r} 的预设，可选：{'、'.join(PRESETS)}。"))
    return dict(PRESETS[name])
