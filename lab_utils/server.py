"""Whether a machine that several learners share carries a class: what one session takes, held
against what there is. Never imports torch."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import machine
from .doctor import Finding, version
from .i18n import t
from .sizes import size

# What one session takes at most: the kernel, its fork server and the ranks of the hungriest lesson,
# 05 (most need half of it), measured by tests/measured/session.py; the learner's Jupyter server
SESSION_BYTES = 1_700_000_000
SERVER_BYTES = 120_000_000
SESSION_PROCESSES = 12
SESSION_THREADS = 130
SESSION_FILES = 450
COPY_BYTES = 26_000_000  # a learner's own copy of lessons and labs
RANKS = 2  # of a typical cell
# a cell that takes 5 s alone may take so many times as long when all press the key at once
PATIENCE = 4


def findings(learners: int) -> Iterator[Finding]:
    """What the machine has for so many learners at once, each shortage with its remedy."""
    yield _a_session()
    yield _cores(learners)
    yield _memory(learners)
    yield _threads_of_a_rank()
    yield from _limits(learners)
    yield _disk(learners)
    yield from _gpus(learners)
    yield _hub()


def _a_session() -> Finding:
    each = size(SESSION_BYTES + SERVER_BYTES)
    what = t("one session", "一个会话")
    return Finding(
        what,
        t(
            f"at most {each}, {SESSION_PROCESSES} processes, {SESSION_THREADS} threads,"
            f" {SESSION_FILES} open files; no fixed port; {size(COPY_BYTES)} for a copy of the"
            " notebooks",
            f"最多 {each}、{SESSION_PROCESSES} 个进程、{SESSION_THREADS} 个线程、{SESSION_FILES}"
            f" 个打开的文件；不占固定端口；自己的一份 notebook 占 {size(COPY_BYTES)}",
        ),
    )


def _cores(learners: int) -> Finding:
    count = machine.cores()
    at_full_speed = max(1, count // RANKS)
    remedy = t(
        f"with {learners} at once a run takes {learners / at_full_speed:.0f} times as long as"
        f" alone; {PATIENCE * at_full_speed} would wait {PATIENCE} times as long: let groups take"
        " turns, or two learners share a session.",
        f"{learners} 人同时运行时，一次运行的耗时是独自运行的 {learners / at_full_speed:.0f} 倍；"
        f"{PATIENCE * at_full_speed} 人时是 {PATIENCE} 倍：可以分组轮流，或两人共用一个会话。",
    )
    return Finding(
        t("cores", "CPU 核"),
        t(
            f"{count}: {at_full_speed} learner(s) can run 2 ranks at full speed at the same moment",
            f"{count} 个：同一时刻有 {at_full_speed} 人能以全速运行 2 个进程",
        ),
        remedy if learners > PATIENCE * at_full_speed else "",
    )


def _memory(learners: int) -> Finding:
    free, each = machine.free_memory(), SESSION_BYTES + SERVER_BYTES
    remedy = t(
        f"{learners} learners may need {size(learners * each)} if all run the hungriest lesson at"
        f" once: take no more than {free // each} there. A limit of {size(each)} for each"
        " keeps them from each other's memory.",
        f"{learners} 人若同时运行最耗内存的一课，可能需要 {size(learners * each)}：上这一课时最多"
        f" {free // each} 人同时在线。把每人限制在 {size(each)}，可以避免互相挤占。",
    )
    return Finding(
        t("free memory", "可用内存"),
        t(
            f"{size(free)}: {free // each} sessions at their fullest",
            f"{size(free)}：可容纳 {free // each} 个最满的会话",
        ),
        remedy if learners * each > free else "",
    )


def _threads_of_a_rank() -> Finding:
    told, count = os.environ.get("OMP_NUM_THREADS"), machine.threads_a_rank(RANKS)
    remedy = t(
        "set OMP_NUM_THREADS=1 for every learner: else each rank of each learner takes its part of"
        " all cores.",
        "请为每个学员设置 OMP_NUM_THREADS=1，否则每个人的每个进程都按全部核数分配线程。",
    )
    return Finding(
        "OMP_NUM_THREADS",
        t(
            f"{told or 'not set'}: {count} thread(s) for each of two ranks",
            f"{told or '未设置'}：两个进程各用 {count} 个线程",
        ),
        "" if told or count == 1 else remedy,
    )


def _limits(learners: int) -> Iterator[Finding]:
    import resource

    for what, limit, needed in (
        (
            t("processes of one user", "单个用户的进程数"),
            resource.RLIMIT_NPROC,
            SESSION_THREADS,  # the kernel counts threads
        ),
        (t("open files of one process", "单个进程的打开文件数"), resource.RLIMIT_NOFILE, 256),
    ):
        most = resource.getrlimit(limit)[0]
        short = most != resource.RLIM_INFINITY and most < needed
        yield Finding(
            what,
            t("no limit", "无限制") if most == resource.RLIM_INFINITY else f"{most:,}",
            t(f"allow at least {needed}.", f"请至少允许 {needed}。") if short else "",
        )
    everyone, most = learners * SESSION_THREADS, _number("/proc/sys/kernel/threads-max")
    if most is not None:
        yield Finding(
            t("threads of the machine", "整机线程数"),
            f"{most:,}",
            t(f"{everyone:,} may be needed.", f"可能需要 {everyone:,} 个。")
            if most < everyone
            else "",
        )


def _disk(learners: int) -> Finding:
    place = tempfile.gettempdir()
    free, needed = shutil.disk_usage(place).free, learners * COPY_BYTES
    remedy = t(
        f"{learners} copies of the notebooks take {size(needed)}, beside what launches write.",
        f"{learners} 份 notebook 需要 {size(needed)}，启动进程时还会写入临时文件。",
    )
    return Finding(
        t(f"room in {place}", f"{place} 的空间"), size(free), remedy if free < 2 * needed else ""
    )


def _gpus(learners: int) -> Iterator[Finding]:
    free = machine.free_gpu_memory()
    if not free:
        return
    remedy = t(
        "give each learner GPUs of their own (CUDA_VISIBLE_DEVICES): all would begin with GPU 0.",
        "请为每个学员分配各自的 GPU（CUDA_VISIBLE_DEVICES），否则所有人都从 0 号 GPU 用起。",
    )
    yield Finding(
        t("GPUs", "GPU"),
        t(
            f"{len(free)}. A run with more ranks than GPUs is on the CPU: NCCL takes no two ranks"
            " of a run on one GPU",
            f"{len(free)} 个。进程数多于 GPU 数的运行会放在 CPU 上：NCCL 不允许同一次运行的两个"
            "进程共用一个 GPU",
        ),
        remedy if learners > 1 and "CUDA_VISIBLE_DEVICES" not in os.environ else "",
    )


def _hub() -> Finding:
    found = version("jupyterhub")
    return Finding(
        "JupyterHub",
        found
        or t(
            "not in this environment (docs/servers.md has an example)",
            "不在此环境中（示例见 docs/servers.zh.md）",
        ),
    )


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
