"""Exercise 2: what a slow step is limited by, from what was measured of it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ....i18n import t
from ....measure.evidence import Evidence, Machine
from ..exercise import Column, Exercise
from ..verdict import Failure

CAUSES = ("data", "wire", "kernels", "memory", "arithmetic")


def explained(seen: Evidence, machine: Machine) -> dict[str, float]:
    """Seconds of the step that each cause accounts for."""
    return {
        "data": seen.waited_for_data,
        "wire": seen.waited_for_wire,
        "kernels": seen.calls * machine.call_seconds,
        "memory": seen.nbytes / machine.bytes_per_second,
        "arithmetic": seen.flops / machine.flops_per_second,
    }


class Case(NamedTuple):
    """A step whose largest cause is `cause`; with `hidden` a wire that is busy for longer than
    that, under the computing, where nobody waits for it."""

    cause: str
    seed: int
    hidden: bool = False

    def __str__(self) -> str:
        also = t(", a busy wire", "，线路繁忙") if self.hidden else ""
        return t(f"step {self.seed}{also}", f"第 {self.seed} 步{also}")

    def made(self) -> tuple[Evidence, Machine]:
        """The largest cause accounts for at least twice what any other does."""
        draw = Random(f"{self.seed} {self.cause}")
        rate = draw.uniform(5e10, 1e12)
        machine = Machine(draw.uniform(1e-6, 2e-5), rate, rate / draw.uniform(3, 300))
        largest = draw.uniform(0.02, 2.0)
        took = {
            cause: largest * (1 if cause == self.cause else draw.uniform(0.02, 0.45))
            for cause in CAUSES
        }
        compute = max(took["kernels"], took["memory"], took["arithmetic"])
        seen = Evidence(
            step=compute + took["data"] + took["wire"],
            waited_for_data=took["data"],
            waited_for_wire=took["wire"],
            wire_busy=took["wire"] + (1.5 * largest if self.hidden else 0.0),
            calls=max(1, round(took["kernels"] / machine.call_seconds)),
            flops=took["arithmetic"] * machine.flops_per_second,
            nbytes=took["memory"] * machine.bytes_per_second,
        )
        return seen, machine


def ask(answer: Callable[[Evidence, Machine], str], case: Case) -> str:
    """The cause, as the answer says it."""
    came = answer(*case.made())
    return came if isinstance(came, str) else repr(came)


def judge(case: Case, told: list[str], _: int = 0) -> Failure | None:
    """One of the five words; then the right one."""
    came, took = told[0], explained(*case.made())
    if came not in CAUSES:
        expected = t("one of ", "下列之一：") + ", ".join(CAUSES) + t(".", "。")
        return Failure("cause.word", expected, f"{came!r:.80}")
    if came == case.cause:
        return None
    seen, machine = case.made()
    expected = t(
        f"{case.cause}: it accounts for {took[case.cause]:.3g} s of the step.",
        f"{case.cause}，它占了这一步的 {took[case.cause]:.3g} 秒。",
    )
    words = t(
        f"{came}, which accounts for {took[came]:.3g} s.", f"{came}，它只占 {took[came]:.3g} 秒。"
    )
    rates = {"kernels", "memory", "arithmetic"}
    kind = (
        "cause.hidden"
        if came == "wire" and case.hidden
        else "cause.rates"
        if {came, case.cause} <= rates
        else "cause.waits"
    )
    return Failure(kind, expected, words)


def draw(random: Random) -> list[Case]:
    """Every cause, some with a wire that is only busy."""
    cases = [Case(cause, random.randint(1, 10**6)) for cause in CAUSES * 3]
    quiet = [cause for cause in CAUSES if cause != "wire"]
    return cases + [Case(cause, random.randint(1, 10**6), True) for cause in quiet]


EXERCISE = Exercise(
    check="diagnose",
    answer="diagnose",
    lab="lab01",
    ask=ask,
    judge=judge,
    columns=(
        Column("step", "一步", lambda case, _: str(case)),
        Column("cause", "原因", lambda _, told: told[0][0]),
        Column(
            "accounts for",
            "占时",
            lambda case, _: f"{explained(*case.made())[case.cause] / case.made()[0].step:.0%}",
        ),
    ),
    visible=(
        *(Case(cause, number) for number, cause in enumerate(CAUSES, 1)),
        Case("memory", 6),
        Case("arithmetic", 7),
        Case("memory", 8, hidden=True),
        Case("data", 9, hidden=True),
    ),
    draw=draw,
)
