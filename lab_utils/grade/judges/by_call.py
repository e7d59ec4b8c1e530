"""Answers that are functions of plain values: the function runs in a room, and the check that calls
it stays here. So nothing that it compares with is in reach of the answer, and no room holds the
check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from ...course.checks.exercise import Exercise
from ...i18n import t
from ..crew import Seat
from ..frames import Frame
from ..hub import Hub, Trouble
from ..values import foreign, packed, unpacked
from .judge import HIDDEN, VISIBLE, Criterion, Judge, Outcomes, ended

CPU_S = 10.0  # of one call, which takes milliseconds
Ask = Callable[[Any, list[Seat]], list[Any]]  # (case, seats) -> facts by rank


@dataclass(frozen=True)
class Asked:
    """One case of the exercise's, visible or drawn."""

    criterion: Criterion
    case: Any
    ranks: int

    def __str__(self) -> str:
        """As the student is told it: of a hidden case, whose words are its input, nothing."""
        return str(self.case) if self.criterion is VISIBLE else ""


class Stopped(Exception):
    """The function did not come to its end; args: the Trouble."""


def called(
    seats: Sequence[Seat], name: str, args: Sequence[Sequence[Any]], cpu_s: float = CPU_S
) -> tuple[list[Any], Hub]:
    """Each rank's answer called with its `args`, whose tensors hold afterwards what it left in
    them: what came back, by rank, and who carried its messages. Raises Stopped; ValueError and
    TypeError for arguments that cannot be."""
    if len(args) != len(seats):
        raise ValueError(f"{len(seats)} ranks, and arguments for {len(args)}")
    orders, given = [], list[list[torch.Tensor]]()
    for mine in args:
        given.append([])
        words = {"do": "call", "answer": name, "args": packed(mine, given[-1])}
        if strange := foreign(words["args"]):
            raise TypeError(f"{strange} cannot be passed to an answer")
        orders.append(Frame(words, [x.numpy() for x in given[-1]]))
    hub = Hub(seats, orders, lambda *_: Frame(0), cpu_s=cpu_s)
    came = hub.run()
    if isinstance(came, Trouble):
        raise Stopped(came)
    return [_value(rank, *pair) for rank, pair in enumerate(zip(came, given, strict=True))], hub


def _value(rank: int, came: Frame, given: Sequence[torch.Tensor]) -> Any:
    try:
        tensors = [torch.from_numpy(array.copy()) for array in came.arrays]
        value = unpacked(came.words["done"], tensors)
        now = tensors[len(tensors) - len(given) :]
        for mine, left in zip(given, now, strict=True):
            if mine.shape != left.shape or mine.dtype != left.dtype:
                words = t("it changed an argument's shape or dtype", "它改变了参数的形状或 dtype")
                raise Stopped(Trouble("raised", rank, words))
            mine.copy_(left)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
        words = t("it said what no rank says", "它发来不合规的消息")
        raise Stopped(Trouble("nonsense", rank, words)) from None
    return value


class Remote:
    """The answer, to whoever calls it. Raises Stopped."""

    def __init__(self, seat: Seat, name: str) -> None:
        self._seats, self._name = [seat], name

    def __call__(self, *args: Any) -> Any:
        return called(self._seats, self._name, [args])[0][0]


def judge_by_call(exercise: Exercise, ask: Ask | None = None) -> Judge:
    """Of an exercise that declares `ask`; of another one, `ask` says what each rank of a case came
    to, by calling it on these seats."""

    def examine(asked: Asked, seats: list[Seat], _: Random) -> Outcomes | Trouble:
        case = asked.case
        try:
            facts = (
                ask(case, seats) if ask else [exercise.ask(Remote(seats[0], exercise.answer), case)]
            )
            failure = exercise.judge(case, facts, 0)
        except Stopped as stopped:
            [trouble] = stopped.args
            if getattr(case, "criterion", None) is None:
                return trouble
            failure = ended(case.criterion, str(trouble))
        except Exception as error:  # over what the answer returned, as in the check
            failure = ended("raised", f"{type(error).__name__}: {error}")
        return {asked.criterion.name: failure and failure._replace(case=str(asked))}

    def draw(random: Random) -> list[Asked]:
        kinds = {VISIBLE: exercise.visible, HIDDEN: exercise.draw(random)}
        # to an answer that is asked alone, ranks are no more than a number
        return [
            Asked(kind, case, case.ranks if ask else 1) for kind in kinds for case in kinds[kind]
        ]

    return Judge(
        check=exercise.check,
        answer=exercise.answer,
        criteria=(VISIBLE, HIDDEN),
        draw=draw,
        examine=examine,
        shows=lambda asked: [asked.criterion.name],
    )
