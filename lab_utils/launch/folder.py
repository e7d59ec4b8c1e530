"""The private folder of a launch: the pickled call, the flight records, the stacks."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..i18n import t


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder that goes when the block is done."""
    with tempfile.TemporaryDirectory(prefix="lab_launch_", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def room_on_disk(folder: Path) -> Iterator[None]:
    """A disk that is full becomes an OSError whose sentence names the folder and what would
    work."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise OSError(
            t(
                f"there is no room in {folder.parent} for what a launch writes (about 0.6 MB a"
                " rank): make room, or set TMPDIR to another folder.",
                f"{folder.parent} 空间不足，容不下启动所需的文件（每个进程约 0.6 MB）：请清理空间，"
                "或把 TMPDIR 设为其他文件夹。",
            )
        ) from None
