"""Importing DeepSpeed: where its extension is compiled, by one rank at a time, and without its
flood of messages.

Loads without torch, so that a command can ask `why_not` first.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sys
import tempfile
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from ..config import ConfigError
from ..i18n import t

# collectives in shared memory, which DeepSpeed insists on having on a CPU
_EXTENSION = "deepspeed_shm_comm"


def why_not(device_type: str = "cpu") -> str | None:
    """The sentence that says what DeepSpeed lacks on this machine, if anything."""
    if find_spec("deepspeed") is None:
        return t(
            "--engine deepspeed needs DeepSpeed, which is made for Linux: DS_BUILD_OPS=0 pip"
            " install deepspeed, or choose --engine torch.",
            "--engine deepspeed 需要 DeepSpeed（面向 Linux）：DS_BUILD_OPS=0 pip install"
            " deepspeed，或改用 --engine torch。",
        )
    _let_ninja_be_found()
    tools = (os.environ.get("CXX", "c++"), "ninja") if device_type == "cpu" else ()
    if device_type == "cpu" and _has_space(extensions_folder()):
        return t(
            f"DeepSpeed cannot compile its part of itself in {extensions_folder()}, whose name has"
            " a space: set TORCH_EXTENSIONS_DIR to a folder without one, or choose --engine torch.",
            f"DeepSpeed 无法在 {extensions_folder()} 中编译，因为路径里有空格：请把"
            " TORCH_EXTENSIONS_DIR 设为不含空格的文件夹，或改用 --engine torch。",
        )
    missing = next((tool for tool in tools if shutil.which(tool) is None), None)
    if missing is None:
        return None
    return t(
        f"DeepSpeed compiles a part of itself at its first run, and there is no {missing}: apt-get"
        " install g++ ninja-build, or choose --engine torch.",
        f"DeepSpeed 首次运行时要编译自身的一部分，而这里没有 {missing}：请先 apt-get install g++"
        " ninja-build，或改用 --engine torch。",
    )


def load_deepspeed(device_type: str) -> ModuleType:
    """The imported library, ready to be initialised on a rank. Raises ConfigError with `why_not`'s
    sentence."""
    reason = why_not(device_type)
    if reason is not None:
        raise ConfigError(reason)
    if device_type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # or it warns that it found no other
    warnings.filterwarnings(
        "ignore", r".*(all_gather_into_tensor|reduce_scatter_tensor).* is deprecated", FutureWarning
    )
    import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    if device_type == "cpu":
        _compile_extension()
    return deepspeed


def extensions_folder() -> Path:
    """Where compiled extensions are kept: TORCH_EXTENSIONS_DIR, else .cache of this project, else
    of this user; by version, because what was compiled for one torch fails in another."""
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    if given:
        return Path(given)
    project = Path(__file__).resolve().parents[2]
    ours = (project / "pyproject.toml").exists() and os.access(project, os.W_OK)
    # ninja's files and the linker's flags take a space for the end of a name
    caches = [
        *([project / ".cache"] if ours else []),
        Path.home() / ".cache",
        Path(tempfile.gettempdir()) / f"lab_utils_{os.getuid()}",
    ]
    cache = next((c for c in caches if not _has_space(c) and _can_be_made(c)), caches[0])
    return (
        cache
        / "torch_extensions"
        / f"python{sys.version_info.major}.{sys.version_info.minor}_torch{version('torch')}"
    )


def _name_torch_without_space(folder: Path) -> None:
    """Torch does not quote the place of its libraries for the linker: where that has a space, it is
    given another name."""
    from torch.utils import cpp_extension

    if _has_space(Path(cpp_extension.TORCH_LIB_PATH)):
        link = folder / "torch_lib"
        link.unlink(missing_ok=True)
        link.symlink_to(cpp_extension.TORCH_LIB_PATH)
        cpp_extension.TORCH_LIB_PATH = str(link)


def _has_space(path: Path) -> bool:
    return any(c.isspace() for c in str(path))


def _can_be_made(folder: Path) -> bool:
    """Whether the folder is there to be written to, or may be made."""
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    return os.access(nearest, os.W_OK)


def _compile_extension() -> None:
    """Once; later it is found. Ranks take turns under a lock that dies with its holder: torch's own
    lock file would stay behind a rank that was killed, and stop all later runs."""
    folder = extensions_folder()
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    from deepspeed.accelerator import get_accelerator

    with open(folder / "turn", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        (folder / _EXTENSION / "lock").unlink(missing_ok=True)
        if not (folder / _EXTENSION / f"{_EXTENSION}.so").exists():
            print(
                t(
                    "DeepSpeed compiles a part of itself; this happens once and takes a minute or"
                    " two.",
                    "DeepSpeed 正在编译自身的一部分，只需一次，约一两分钟。",
                )
            )
        _name_torch_without_space(folder)
        builder = get_accelerator().create_op_builder("ShareMemCommBuilder")
        if builder is not None:
            builder.load()


def _let_ninja_be_found() -> None:
    """pip puts it beside this Python, whether or not its environment was activated."""
    here, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if here not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join((path, here) if path else (here,))
