"""An exercise of an instructor's own, as the guide shows it: `double(x)` returns twice a tensor."""

from dataclasses import dataclass

import numpy as np

from lab_utils.course.checks.verdict import Failure
from lab_utils.grade.frames import Frame
from lab_utils.grade.hub import Hub, Trouble
from lab_utils.grade.judges.judge import Criterion, Judge
from lab_utils.i18n import t

DRIVER = """
def run(link, answer, words, tensors):
    return {"done": 0}, [answer(*tensors)]
"""


@dataclass(frozen=True)
class Call:
    """One call with `n` numbers, for a criterion."""

    n: int
    criterion: str
    ranks: int = 1

    def __str__(self):
        return t(f"{self.n} numbers", f"{self.n} 个数")


def draw(random):
    return [Call(random.randint(2, 9), "value"), Call(0, "empty")]


def examine(call, seats, random):
    numbers = np.random.default_rng(random.getrandbits(64))
    x = numbers.standard_normal(call.n).astype(np.float32)
    order = Frame({"do": "drive", "driver": DRIVER, "answer": "double"}, [x])
    came = Hub(seats, [order], lambda *_: Frame(0), cpu_s=5).run()
    if isinstance(came, Trouble):
        return came
    if np.array_equal(came[0].arrays[0], 2 * x):
        return {call.criterion: None}
    failure = Failure(
        "value", t("twice the numbers.", "每个数的两倍。"), str(came[0].arrays[0])[:80]
    )
    return {call.criterion: failure}


DOUBLE = Judge(
    check="double",
    answer="double",
    criteria=(
        Criterion("value", "twice each number", "每个数的两倍"),
        Criterion("empty", "no number at all", "一个数也没有"),
    ),
    draw=draw,
    examine=examine,
    shows=lambda call: [call.criterion],
)
JUDGES = [DOUBLE]
