"""A layout in another framework's own words: `export(config, "megatron")` is the command that runs
it there, with what that framework does differently.

Shape and layout are carried over; data, tokenizer, learning-rate schedule and weight decay are
yours. What a framework cannot express is refused, with the nearest that it can.
"""

from __future__ import annotations

from ..config import TrainConfig
from .deepspeed import to_deepspeed
from .export import Export, refuse
from .megatron import to_megatron
from .torchtitan import to_torchtitan

__all__ = ["FRAMEWORKS", "Export", "export"]

FRAMEWORKS = {"megatron": to_megatron, "torchtitan": to_torchtitan, "deepspeed": to_deepspeed}


def export(config: TrainConfig, framework: str, ranks_per_node: int = 8) -> Export:
    """`config` for "megatron", "torchtitan" or "deepspeed", on machines of `ranks_per_node` GPUs.

    Raises ConfigError, with what would work, for what the framework cannot express.
    """
    refuse(
        framework not in FRAMEWORKS,
        f"there is no export to {framework!r}; known: {', '.join(FRAMEWORKS)}.",
        f"不能导出到 {framework!r}，可选：{'、'.join(FRAMEWORKS)}。",
    )
    refuse(
        config.precision == "fp8",
        "fp8 means another recipe in each framework: export with --precision bf16 and switch its"
        " own on.",
        "各框架的 fp8 方案各不相同：请用 --precision bf16 导出，再在框架里自行开启。",
    )
    refuse(
        config.weight_decay > 0,
        "which parameters decay differs between frameworks: export without --weight-decay and set"
        " it there.",
        "各框架对哪些参数做权重衰减并不相同：请不带 --weight-decay 导出，再在框架里设置。",
    )
    return FRAMEWORKS[framework](config, min(ranks_per_node, config.parallel.world_size))
