"""What this machine can do, line by line, each problem with its remedy. Never imports torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import machine
from .i18n import t
from .remedies import how_to_install

REPOSITORY = Path(__file__).resolve().parents[1]
OLDEST_TORCH = (2, 10)
GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and, where that is a problem, its remedy."""

    what: str
    found: str
    remedy: str = ""
    essential: bool = False  # the course does not run without it

    def __str__(self) -> str:
        mark = "✓" if not self.remedy else "✗" if self.essential else "!"
        line = t(f"{mark} {self.what}: {self.found}", f"{mark} {self.what}：{self.found}")
        return f"{line}\n    → {self.remedy}" if self.remedy else line


def version(distribution: str) -> str | None:
    """The installed version of a distribution, without importing it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def run_quietly(*command: str) -> str:
    """What a program prints, or "" if it is missing, fails or takes over 5 s."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def python() -> Finding:
    old = sys.version_info < (3, 11)
    return Finding(
        "Python",
        platform.python_version(),
        (
            t(
                "install Python 3.11 or newer, then run make lab again.",
                "请安装 Python 3.11 或更新的版本，再运行 make lab。",
            )
            if old
            else ""
        ),
        True,
    )


def system() -> Finding:
    windows = sys.platform == "win32"
    remedy = t(
        "the course starts processes in a way that Windows lacks: install WSL (wsl --install) and"
        " work inside it.",
        "课程启动进程的方式 Windows 不支持：请安装 WSL（wsl --install），在其中学习。",
    )
    return Finding(
        t("operating system", "操作系统"),
        f"{platform.system()} {platform.release()}",
        remedy if windows else "",
        True,
    )


def cores() -> Finding:
    count = machine.cores()
    remedy = t(
        "ranks will take turns on one core: everything works, timings mean little.",
        "所有进程轮流使用一个核：都能运行，但耗时没有参考意义。",
    )
    return Finding(t("CPU cores", "CPU 核数"), str(count), remedy if count < 2 else "")


def memory() -> Finding:
    free = machine.free_memory()
    remedy = t(
        "each rank takes about 0.5 GiB: close other programs, and stay at 2 ranks.",
        "每个进程约占 0.5 GiB：请关闭其他程序，并且最多用 2 个进程。",
    )
    return Finding(
        t("free memory", "可用内存"), f"{free / GIB:.1f} GiB", remedy if free < 2 * GIB else ""
    )


def disk() -> Finding:
    free = shutil.disk_usage(REPOSITORY).free
    remedy = t(
        "the libraries of the course take about 2 GiB (6 GiB with CUDA): make room.",
        "课程依赖的库约占 2 GiB（含 CUDA 时约 6 GiB）：请清理磁盘。",
    )
    return Finding(
        t("free disk space", "可用磁盘空间"), f"{free / GIB:.0f} GiB", remedy if free < GIB else ""
    )


def _torch_cuda() -> str | None:
    """The CUDA version that the installed torch was built for, read from its version file."""
    spec = importlib.util.find_spec("torch")
    path = Path(spec.origin or "").with_name("version.py") if spec else Path()
    hit = re.search(r"^cuda\b.*=\s*'([\d.]+)'", path.read_text(), re.M) if path.is_file() else None
    return hit[1] if hit else None


def torch() -> Finding:
    found = version("torch")
    if found is None:
        return Finding("torch", t("missing", "未安装"), how_to_install("torch"), True)
    kind = f"CUDA {_torch_cuda()}" if _torch_cuda() else t("CPU only", "仅 CPU")
    shown = f"{found} ({kind})"
    if tuple(int(n) for n in re.findall(r"\d+", found)[:2]) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        return Finding(
            "torch",
            shown,
            t(
                f"the course needs torch {oldest} or later: pip install -r requirements.txt",
                f"课程需要 torch {oldest} 或更新的版本：pip install -r requirements.txt",
            ),
            True,
        )
    pins = REPOSITORY / "requirements.txt"
    pinned = re.search(r"^torch==(\S+)", pins.read_text(), re.M) if pins.is_file() else None
    if pinned and found.split("+")[0] != pinned[1]:
        return Finding(
            "torch",
            shown,
            t(
                f"the course is tested with {pinned[1]}; this one should work, but printed figures"
                " may differ in the last digit.",
                f"课程在 {pinned[1]} 上测试；当前版本应当可用，但打印的数值末位可能不同。",
            ),
        )
    return Finding("torch", shown)


def gpus() -> Finding:
    what, listed = (
        t("GPUs", "GPU"),
        run_quietly(
            "nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"
        ).splitlines(),
    )
    if not listed:
        return Finding(
            what, t("none: every lesson runs on the CPU", "没有：所有课程都可以在 CPU 上运行")
        )
    remedy = t(
        "the installed torch is a CPU build and will not use them: install torch with CUDA for your"
        " driver (pytorch.org).",
        "安装的 torch 是 CPU 版，用不到这些 GPU：请按驱动版本安装 CUDA 版 torch（pytorch.org）。",
    )
    return Finding(
        what,
        f"{len(listed)} × {listed[0]}",
        "" if _torch_cuda() or version("torch") is None else remedy,
    )


def jupyterlab() -> Finding:
    found = version("jupyterlab")
    return Finding(
        "JupyterLab",
        found or t("missing", "未安装"),
        ("" if found else how_to_install("jupyterlab")),
        True,
    )


def loopback() -> Finding:
    what = t("ranks can reach each other", "进程间可以通信")
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=2),
        ):
            return Finding(what, "127.0.0.1")
    except OSError as error:
        return Finding(
            what,
            str(error),
            t(
                "allow connections on 127.0.0.1 (a firewall or a sandbox forbids them).",
                "请允许 127.0.0.1 上的连接（被防火墙或沙箱禁止）。",
            ),
            True,
        )


def shared_memory() -> Finding | None:
    if not Path("/dev/shm").is_dir():
        return None
    size = shutil.disk_usage("/dev/shm").total
    remedy = t(
        "DeepSpeed and data loaders need more: start the container with --shm-size=1g.",
        "DeepSpeed 和数据加载进程需要更多：启动容器时请加 --shm-size=1g。",
    )
    return Finding("/dev/shm", f"{size / 2**20:,.0f} MiB", remedy if size < 256 * 2**20 else "")


def deepspeed() -> Finding | None:
    if sys.platform != "linux":
        return None
    found = version("deepspeed")
    remedy = t(
        "only its own cells need it: DS_BUILD_OPS=0 pip install -r requirements.txt",
        "只有用到它的单元格需要：DS_BUILD_OPS=0 pip install -r requirements.txt",
    )
    return Finding("DeepSpeed", found or t("missing", "未安装"), "" if found else remedy)


def compiler() -> Finding | None:
    if sys.platform != "linux":
        return None
    found = shutil.which("g++") or shutil.which("c++")
    remedy = t(
        "DeepSpeed compiles a part of itself at its first run: apt-get install g++ (everything else"
        " works without).",
        "DeepSpeed 首次运行时要编译自身的一部分：apt-get install g++（其他内容不需要）。",
    )
    return Finding(
        t("C++ compiler", "C++ 编译器"), found or t("missing", "未安装"), "" if found else remedy
    )


def find_browser() -> str | None:
    """Chromium or Chrome on this machine, for the browser tests and for figures in a build."""
    return next(
        filter(
            None,
            map(
                shutil.which,
                ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
            ),
        ),
        None,
    )


def browser() -> Finding:
    found = find_browser()
    remedy = t(
        "only tests and builds need it: apt-get install chromium",
        "只有测试和构建需要：apt-get install chromium",
    )
    return Finding("Chromium", found or t("missing", "未安装"), "" if found else remedy)


def chinese_font() -> Finding:
    families = run_quietly("fc-list", ":lang=zh", "family").splitlines()
    found = (
        families[0].split(",")[0] if families else "PingFang" if sys.platform == "darwin" else ""
    )
    remedy = t(
        "Chinese in figures saved as pictures will be boxes: apt-get install fonts-wqy-microhei"
        " fontconfig",
        "存成图片的图里，汉字会变成方框：apt-get install fonts-wqy-microhei fontconfig",
    )
    return Finding(
        t("Chinese font", "中文字体"), found or t("none found", "未找到"), "" if found else remedy
    )


CHECKS: tuple[Callable[[], Finding | None], ...] = (
    system,
    python,
    cores,
    memory,
    disk,
    torch,
    gpus,
    jupyterlab,
    loopback,
    shared_memory,
    deepspeed,
    compiler,
    browser,
    chinese_font,
)
