"""How to install what is missing, in a checkout and where only the package was installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .config import ConfigError
from .i18n import t

REPOSITORY = Path(__file__).resolve().parents[1]


def how_to_install(distribution: str) -> str:
    """The command that brings a distribution, as a sentence."""
    if (REPOSITORY / "Makefile").is_file():
        return t(
            "run make lab, which installs requirements.txt.",
            "请运行 make lab，它会安装 requirements.txt。",
        )
    return t(f"pip install {distribution}", f"请运行 pip install {distribution}")


def refuse_without_torch() -> None:
    """Raise ConfigError, with the remedy, where torch is not installed."""
    if find_spec("torch") is None:
        raise ConfigError(
            t(
                f"this needs torch, which is not installed: {how_to_install('torch')}",
                f"此操作需要 torch，但尚未安装：{how_to_install('torch')}",
            )
        )
