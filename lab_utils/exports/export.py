"""What an export is, and what all have in common: how a command is written and started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..config import ConfigError, ParallelConfig
from ..i18n import t

Words = tuple[str, str]  # English, Chinese


@dataclass(frozen=True)
class Export:
    """`text`: a shell command, or a configuration file. `notes`: where the framework does something
    else than our engine, a sentence each, in both languages."""

    framework: str
    text: str
    notes: tuple[Words, ...]


def refuse(condition: bool, en: str, zh: str) -> None:
    """Raise ConfigError with this sentence if the condition holds."""
    if condition:
        raise ConfigError(t(en, zh))


def command(
    script: str,
    flags: Iterable[tuple[str, ...]],
    p: ParallelConfig,
    node: int,
    environment: str = "",
) -> str:
    """A torchrun command over as many machines of `node` GPUs as the layout fills, one flag with
    its value a line."""
    nodes, rest = divmod(p.world_size, node)
    refuse(
        rest > 0,
        f"{p.world_size} ranks do not fill machines of {node} GPUs: use a multiple of {node}.",
        f"{p.world_size} 个进程不能填满每台 {node} 张 GPU 的机器：请用 {node} 的倍数。",
    )
    several = " --rdzv-backend c10d --rdzv-endpoint $HEAD:29500" if nodes > 1 else ""
    launcher = f"{environment}torchrun --nnodes {nodes} --nproc-per-node {node}{several} {script}"
    return " \\\n".join([launcher, *("  " + " ".join(flag) for flag in flags)])
