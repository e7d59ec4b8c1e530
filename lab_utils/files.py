"""A command's result on disk: the place is tried before the work begins, and the file is there
whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from .config import ConfigError
from .i18n import t


def writable(path: Path | None) -> None:
    """Raise ConfigError now rather than lose a finished run's report later."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(
            t(
                f"cannot write {path}: give a file in a folder that exists.",
                f"无法写入 {path}：请指定已有文件夹中的一个文件。",
            )
        )
    try:
        if _is_replaced(path):
            with tempfile.TemporaryFile(dir=path.absolute().parent) as trial:
                trial.write(b"\0" * 4096)
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
    except OSError as error:
        raise ConfigError(
            t(
                f"cannot write {path} ({error.strerror}): give a file in a folder that you may"
                " write to.",
                f"无法写入 {path}（{error.strerror}）：请指定有写权限的文件夹中的一个文件。",
            )
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8; what was there before stays until all of it is written. Raises OSError
    with a sentence that names the file."""
    try:
        write(path, lambda file: file.write(text.encode("utf-8")))
    except OSError as error:
        raise OSError(
            t(
                f"{path} could not be written ({error.strerror}); what was there before is whole.",
                f"无法写入 {path}（{error.strerror}）；原有内容保持完整。",
            )
        ) from error


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Let `fill` write a file beside `path`, which then takes its place; what is no regular file (a
    device, a pipe) is written to as it is. Raises OSError, and then leaves the old file whole."""
    if not _is_replaced(path):
        with open(path, "wb") as file:
            fill(file)
        return
    target = path.resolve()  # a link stays a link
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(handle, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _is_replaced(path: Path) -> bool:
    """Whether a new file takes the path's place: not of a device or a pipe."""
    return path.is_file() or not path.exists()


def _mode(target: Path) -> int:
    """The permissions of the file that is there, else those of any new file."""
    with suppress(OSError):
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
