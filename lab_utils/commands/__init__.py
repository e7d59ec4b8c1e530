"""The command line's verbs: `train`, `estimate`, `compare`. Flags are made from the dataclasses of
config.py."""

from __future__ import annotations

from pathlib import Path

from ..config import ConfigError
from ..i18n import t


def writable(path: Path | None) -> None:
    """Raise ConfigError now rather than lose a finished run's report later."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise ConfigError(
            t(
                f"cannot write {path}: give a file in a folder that exists.",
                f"无法写入 {path}：请指定已有文件夹中的一个文件。",
            )
        )
