"""Exercise 4: a generator that reads ahead, watched while it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure

READ_SECONDS, STEP_SECONDS = 0.02, 0.01
PATIENT_SECONDS = 0.7  # for a thread that a busy machine lets begin late; only wrong answers wait
HANGING_SECONDS = 1.5  # of the reads behind one that fails, unless its error is heard of first
PIPE = "the disk is gone"


class Case(NamedTuple):
    """`batches` to read with `workers`; number `fails`, if any, cannot be read."""

    batches: int
    workers: int
    fails: int | None = None

    def __str__(self) -> str:
        broken = "" if self.fails is None else t(", one unreadable", "，其中一个读不出")
        return t(
            f"{self.batches} batches, {self.workers} workers{broken}",
            f"{self.batches} 个批次，{self.workers} 个 worker{broken}",
        )


class Facts(NamedTuple):
    """Numbers in the order they came; the exception that came through; the most reads at once; the
    most reads begun beyond what was handed over; reads begun while the first step computed; whether
    the exception came no sooner than reads behind it ended."""

    came: list[Any]
    raised: str
    at_once: int
    ahead: int
    during_first: int
    late: bool
    seconds: float


class _Disk:
    """A slow disk that notes who reads. A read is held up until as many are under way as there are
    to be workers, once, so that threads that begin late are seen side by side all the same.
    Reads behind one that fails hang until its error is heard of."""

    def __init__(self, case: Case) -> None:
        self.fails, self.wanted = case.fails, min(case.workers, case.batches)
        self.begun = self.reading = self.at_once = 0
        self.heard = self.late = False
        self.changed = threading.Condition()

    def read(self, number: int) -> int:
        with self.changed:
            self.begun += 1
            self.reading += 1
            self.at_once = max(self.at_once, self.reading)
            self.changed.notify_all()
            if not self.changed.wait_for(lambda: self.at_once >= self.wanted, PATIENT_SECONDS):
                self.wanted = 0  # they do not come: no other read waits for them
            behind = self.fails is not None and number > self.fails
            if behind and not self.changed.wait_for(lambda: self.heard, HANGING_SECONDS):
                self.late = self.heard = True  # all wait no longer than the first of them
        time.sleep(READ_SECONDS)
        with self.changed:
            self.reading -= 1
        if number == self.fails:
            raise OSError(PIPE)
        return number

    def error_is_heard(self) -> bool:
        """Let hanging reads go; whether the error came no sooner than they gave up."""
        with self.changed:
            self.heard = True
            self.changed.notify_all()
            return self.late


def run(
    answer: Callable[[Callable[[int], int], Iterable[int], int], Iterator[int]],
    cases: Sequence[Case],
    patience: float,
) -> None:
    """Train on each case's batches, every step a short sleep."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        saw(number, _train(answer, case))


def _train(answer: Callable[..., Iterator[int]], case: Case) -> Facts:
    disk, came, ahead, during, raised, late = _Disk(case), [], 0, 0, "", False
    began = time.perf_counter()
    try:
        for batch in answer(disk.read, range(case.batches), case.workers):
            came.append(batch)
            time.sleep(STEP_SECONDS)
            if len(came) == 1 and case.batches > 1:
                with disk.changed:
                    disk.changed.wait_for(lambda: disk.begun > 1, PATIENT_SECONDS)
            ahead = max(ahead, disk.begun - len(came))
            if len(came) == 1:
                during = disk.begun - 1
            if len(came) > 2 * case.batches:
                break
    except OSError as error:
        raised, late = str(error), disk.error_is_heard()
    seconds = time.perf_counter() - began
    return Facts(came, raised, disk.at_once, ahead, during, late, seconds)


def judge(case: Case, told: list[Facts], _: int = 0) -> Failure | None:
    """The right batches in order; errors come through; read ahead, side by side, but not all."""
    f = told[0]
    right = list(range(case.batches if case.fails is None else case.fails))
    if case.fails is not None and f.raised != PIPE:
        expected = t(
            f"the reader's exception ({PIPE!r}) where its batch is due.",
            f"轮到那个批次时，抛出读取时的异常（{PIPE!r}）。",
        )
        return Failure("error", expected, t(f"batches {f.came}", f"批次 {f.came}"))
    if f.came != right:
        expected = t(f"every batch once, in order: {right}", f"每个批次一次，按顺序：{right}")
        return Failure("order", expected, f"{f.came!r:.120}")
    if case.fails is not None:
        return _too_late() if f.late else None
    if not f.during_first:
        expected = t(
            "while step 1 computes, the next batches are being read.",
            "第 1 步计算的同时，后面的批次已经在读。",
        )
        came = t("nobody read until the step was done.", "直到这一步算完，都没有人在读。")
        return Failure("ahead.none", expected, came)
    if f.ahead > 2 * case.workers:
        expected = t(
            f"at most {2 * case.workers} batches begun and not yet handed over (2 a worker).",
            f"已经开始读、还没交出的批次最多 {2 * case.workers} 个（每个 worker 两个）。",
        )
        return Failure("ahead.all", expected, f"{f.ahead}")
    if f.at_once != case.workers:
        expected = t(f"{case.workers} reads side by side.", f"同时进行的读取有 {case.workers} 个。")
        return Failure("workers", expected, t(f"{f.at_once} at most.", f"最多 {f.at_once} 个。"))
    return None


def _too_late() -> Failure:
    return Failure(
        "error.late",
        t(
            "the exception as soon as its batch is due, even if later reads hang.",
            "轮到那个批次时立刻抛出异常，哪怕后面的读取卡住了。",
        ),
        t(
            f"it came only when a later read, hanging for {HANGING_SECONDS:g} s, had ended.",
            f"后面卡了 {HANGING_SECONDS:g} 秒的读取结束之后，异常才传出来。",
        ),
    )


def draw(random: Random) -> list[Case]:
    """More batches than are read ahead, and one that fails in the middle."""
    workers = [random.randint(1, 5) for _ in range(4)]
    return [
        *(Case(3 * n + random.randint(2, 6), n) for n in workers),
        Case(9, 2, random.randint(1, 7)),
    ]


EXERCISE = Exercise(
    check="prefetch",
    answer="prefetch",
    lab="lab01",
    run=run,
    judge=judge,
    columns=(
        Column("batches", "批次", lambda case, _: case.batches),
        Column("workers", "worker", lambda case, _: case.workers),
        Column("reads at once", "同时读取", lambda _, told: told[0][0].at_once),
        Column("most ahead", "最多超前", lambda _, told: told[0][0].ahead),
        Column(
            "one after the other ÷ yours",
            "逐个读取 ÷ 你的用时",
            lambda case, told: (
                "–"
                if case.fails is not None
                else f"{case.batches * (READ_SECONDS + STEP_SECONDS) / told[0][0].seconds:.1f}"
            ),
        ),
    ),
    visible=(Case(8, 1), Case(14, 3), Case(12, 4), Case(8, 2, fails=3)),
    draw=draw,
)
