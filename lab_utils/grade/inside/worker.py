"""The program of a room: takes an answer's source and an order, and says how it came out."""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType
from typing import Any

import torch

import lab_utils.data.loader
import lab_utils.measure.memory
import lab_utils.model
import lab_utils.parallel.comm
import lab_utils.parallel.mesh  # noqa: F401  (what labs import, so that no call waits for it)

from . import by_check, lab05, lab06
from .call import call
from .link import Link


def _drive(link: Link, answer: Any, words: dict, tensors: list[torch.Tensor]) -> Any:
    """By a driver that came with the order: the source of a run(link, answer, words, tensors)."""
    namespace: dict[str, Any] = {"__name__": "driver"}
    exec(compile(words["driver"], "<driver>", "exec"), namespace)
    return namespace["run"](link, answer, words, tensors)


ORDERS = {
    "drive": _drive,
    "call": call,
    "check": by_check.check,
    "chunk_bounds": lab05.chunk_bounds,
    "ring_all_reduce": lab05.ring_all_reduce,
    "bucketed": lab05.bucketed,
    "zero1": lab06.zero1,
    "zero2": lab06.zero2,
    "zero3": lab06.zero3,
}
ANSWER = "<answer>"


def main(line: int) -> None:
    """Until the grader is through with us, who has the other end of `line`, a socket."""
    link = Link(line)
    namespace: dict[str, Any] = {}
    while True:
        words, tensors = link.hear()
        try:
            if words["do"] == "load":
                namespace = _load(words["source"])
                link.tell({"done": "loaded"})
            else:
                answer = namespace[words["answer"]]
                link.tell(*ORDERS[words["do"]](link, answer, words, tensors))
        except (EOFError, BrokenPipeError):
            return
        except BaseException as error:
            link.tell({"raised": in_words(error)})


def _load(source: str) -> dict[str, Any]:
    # so that a traceback can quote it
    linecache.cache[ANSWER] = (len(source), None, source.splitlines(keepends=True), ANSWER)
    namespace = {"__name__": "answer"}
    exec(compile(source, ANSWER, "exec"), namespace)
    return namespace


def in_words(error: BaseException) -> str:
    """The error, and the answer's own line where it came up."""
    said = f"{type(error).__name__}: {error}".strip().removesuffix(":")
    return said[:500] + _place(error.__traceback__)


def _place(trace: TracebackType | None) -> str:
    own = [frame for frame in traceback.extract_tb(trace) if frame.filename == ANSWER]
    return f" — {own[-1].name}: {own[-1].line}" if own else ""
