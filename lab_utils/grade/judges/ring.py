"""Lab 05, exercises 1 and 2: chunks, and a ring whose every message the grader carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from random import Random
from typing import Any

import numpy as np

from ...course.checks.lab05 import chunks
from ...course.checks.verdict import Failure
from ...i18n import t
from ..crew import Seat
from ..frames import Frame
from ..hub import Hub, Trouble
from .judge import Criterion, Judge, Outcomes, not_done

CPU_S = 5.0
ROUNDS = 2
COMBINE = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}


@dataclass(frozen=True)
class Bounds:
    """Chunks of `numel` elements for `n` ranks."""

    numel: int
    n: int
    ranks: int = 1

    def __str__(self) -> str:
        return str(chunks.Case(self.numel, self.n))


def _draw_bounds(random: Random) -> list[Bounds]:
    """As the check draws them, and for sure one of each kind."""
    n = random.randint(3, 9)
    sure = Bounds(random.randint(1, n - 1), n), Bounds(random.randint(n + 1, 5 * n), n)
    return [*(Bounds(*case) for case in chunks.draw(random)), *sure]


def _examine_bounds(call: Bounds, seats: list[Seat], _: Random) -> Outcomes | Trouble:
    order = Frame(
        {"do": "chunk_bounds", "answer": "chunk_bounds", "numel": call.numel, "n": call.n}
    )
    came = Hub(seats, [order], lambda *_: Frame(0), cpu_s=CPU_S).run()
    if isinstance(came, Trouble):
        return came
    failure = chunks.judge(chunks.Case(call.numel, call.n), [came[0].words["done"]])
    return {
        "bounds" if call.numel >= call.n else "few": failure and failure._replace(case=str(call))
    }


CHUNK_BOUNDS = Judge(
    check="chunk_bounds",
    answer="chunk_bounds",
    criteria=(
        Criterion(
            "bounds",
            "n chunks, from end to end, of nearly equal size",
            "n 块，首尾相接，大小最多相差 1",
        ),
        Criterion("few", "fewer elements than chunks", "元素比块少"),
    ),
    draw=_draw_bounds,
    examine=_examine_bounds,
    shows=lambda call: ["bounds" if call.numel >= call.n else "few"],
)


@dataclass(frozen=True)
class Ring:
    """One all-reduce of a tensor of `shape` over `ranks`."""

    ranks: int
    shape: tuple[int, ...]
    criterion: str
    operation: str
    dtype: str
    slow: int | None = None

    def __str__(self) -> str:
        sizes = " × ".join(map(str, self.shape))
        return t(
            f"N = {self.ranks}, {sizes} elements, {self.operation}",
            f"N = {self.ranks}、{sizes} 个元素、{self.operation}",
        )


def _draw_rings(random: Random) -> list[Ring]:
    """At N = 2 a ring and a gather-and-sum send the same bytes, and left is right."""
    calls = []
    for n in (4, 3):
        dtype = random.choice(["float32", "float64", "int64"])
        few = random.randint(1, n - 1)
        calls += [
            Ring(n, (n * random.randint(2, 6),), "sum", "add", dtype),
            Ring(n, (n * random.randint(2, 9) + random.randint(1, n - 1),), "uneven", "add", dtype),
            Ring(n, (few,), "few", "add", dtype),
            Ring(n, (random.randint(2, 5), random.randint(2, 5), 3), "shape", "add", dtype),
            Ring(n, (n * random.randint(2, 8),), "sum", "add", dtype, random.randrange(n)),
        ]
        for operation in random.sample(["maximum", "minimum", "multiply"], 2):
            calls.append(Ring(n, (random.randint(n, 40),), "combine", operation, dtype))
    return calls


class _Rounds:
    """The grader's side: what each rank was given in each round, and what came of it. A second
    round with other values, so that a result which was kept from the first is a wrong one."""

    def __init__(self, call: Ring, random: Random) -> None:
        numbers = np.random.default_rng(random.getrandbits(64))
        # whole numbers, so that every order of adding gives exactly the same
        low, high = (1, 4) if call.operation == "multiply" else (-1000, 1000)
        self.inputs = [
            [numbers.integers(low, high, call.shape).astype(call.dtype) for _ in range(call.ranks)]
            for _ in range(ROUNDS)
        ]
        self.rights = [reduce(COMBINE[call.operation], inputs) for inputs in self.inputs]
        self.came: list[list[list[np.ndarray]]] = [[] for _ in range(call.ranks)]
        self._begun = [0] * call.ranks

    def gate(self, rank: int, words: dict[str, Any], arrays: list[np.ndarray]) -> Frame:
        """Let a rank on; it may also ask for the bounds of chunks, if it uses that exercise."""
        if words["gate"] == "input":
            self._begun[rank] += 1
            return Frame(0, [self.inputs[self._begun[rank] - 1][rank]])
        if words["gate"] == "output":
            self.came[rank].append(arrays)
            return Frame(0)
        numel, n = int(words["numel"]), int(words["n"])
        return Frame(chunks.reference(numel, n) if 0 < n <= 64 else [])


def _examine_ring(call: Ring, seats: list[Seat], random: Random) -> Outcomes | Trouble:
    rounds = _Rounds(call, random)
    orders = [
        Frame(
            dict(
                do="ring_all_reduce",
                answer="ring_all_reduce",
                rank=rank,
                ranks=call.ranks,
                operation=call.operation,
                rounds=ROUNDS,
            )
        )
        for rank in range(call.ranks)
    ]
    hub = Hub(seats, orders, rounds.gate, cpu_s=CPU_S, slow=call.slow)
    came = hub.run()
    if isinstance(came, Trouble):
        return came
    for rank in range(call.ranks):
        if len(rounds.came[rank]) != ROUNDS:
            return not_done(rank)
    wrong = None
    for number, right in enumerate(rounds.rights):
        wrong = wrong or _wrong_value([came[number] for came in rounds.came], right)
    outcomes: dict[str, Failure | None] = {call.criterion: wrong}
    if prod(call.shape) >= call.ranks:
        # what an answer that gives wrong values sends says nothing
        payload = rounds.rights[0].nbytes
        outcomes["messages"] = wrong or _wrong_messages(call, hub, payload)
    return {
        name: failure and failure._replace(case=str(call)) for name, failure in outcomes.items()
    }


def _wrong_value(came: list[list[np.ndarray]], right: np.ndarray) -> Failure | None:
    for rank, arrays in enumerate(came):
        got = arrays[0] if arrays else np.empty(0)
        if got.shape == right.shape and got.dtype == right.dtype and (got == right).all():
            continue
        returned = arrays[1] if len(arrays) > 1 else None
        in_place = t("the tensor that was passed in holds the result.", "结果写回传入的张量本身。")
        if returned is not None and returned.shape == right.shape and (returned == right).all():
            words = t("only what was returned holds it.", "只有返回的张量里有结果。")
            return Failure("ring.in-place", in_place, words)
        wrong = int((got != right).sum()) if got.shape == right.shape else right.size
        return Failure(
            "value",
            in_place,
            t(
                f"on rank {rank} {wrong} of {right.size} elements are wrong.",
                f"rank {rank} 上 {right.size} 个元素中有 {wrong} 个不对。",
            ),
        )
    return None


def _wrong_messages(call: Ring, hub: Hub, payload: int) -> Failure | None:
    n, chunk = call.ranks, -(-prod(call.shape) // call.ranks)
    sent = [[p for p in hub.passed[rank] if p.op == "send"] for rank in range(n)]
    others = {p.op for passed in hub.passed for p in passed} - {"send", "receive", "gate"}
    if others:
        return Failure(
            "ring.only-exchange",
            t("only axis.exchange moves data.", "只能用 axis.exchange 传输数据。"),
            t(f"{', '.join(sorted(others))} did, too.", f"还用了 {'、'.join(sorted(others))}。"),
        )
    for rank in range(n):
        tos = {p.words["to"] for p in sent[rank]}
        sources = {p.words["receive"] for p in hub.passed[rank] if p.op == "receive"}
        neighbours = {(rank - 1) % n, (rank + 1) % n}
        if len(tos) > 1 or len(sources) > 1 or not tos <= neighbours or tos == sources:
            return Failure(
                "ring.neighbours",
                t(
                    "each rank sends to one neighbour and receives from the other.",
                    "每个 rank 向一侧邻居发送，从另一侧邻居接收。",
                ),
                t(
                    f"rank {rank} of {n} sent to {sorted(tos)} and received from"
                    f" {sorted(sources)}.",
                    f"共 {n} 个 rank 时，rank {rank} 发给 {sorted(tos)}，"
                    f"从 {sorted(sources)} 接收。",
                ),
            )
    total = sum(p.nbytes for passed in sent for p in passed) / ROUNDS
    longest, least = max(p.numel for passed in sent for p in passed), 2 * (n - 1) * payload
    most = max(sum(p.numel > 0 for p in passed) for passed in sent) / ROUNDS
    if total == least and longest <= chunk and most == 2 * (n - 1):
        return None
    return Failure(
        "ring.bytes",
        t(
            f"{least} bytes from all ranks together, in {2 * (n - 1)} messages per rank of up to"
            f" {chunk} elements.",
            f"所有 rank 合计 {least} 字节，每个 rank {2 * (n - 1)} 条消息，"
            f"每条不超过 {chunk} 个元素。",
        ),
        t(
            f"{total:g} bytes, in up to {most:g} messages of up to {longest} elements.",
            f"合计 {total:g} 字节，最多 {most:g} 条消息，最长 {longest} 个元素。",
        ),
    )


RING = Judge(
    check="ring_all_reduce",
    answer="ring_all_reduce",
    criteria=(
        Criterion(
            "sum",
            "the sum, on every rank, in place, at N = 3 and 4",
            "每个 rank 上原地得到总和，N = 3 和 4",
        ),
        Criterion("uneven", "sizes that N does not divide", "N 不能整除的长度"),
        Criterion("few", "fewer elements than ranks", "元素比 rank 少"),
        Criterion("shape", "tensors of more than one dim", "多维张量"),
        Criterion("combine", "any operation", "任意运算"),
        Criterion(
            "messages",
            "2(N−1) messages of one chunk, between neighbours, and no byte more",
            "2(N−1) 条消息，每条一块，只在邻居之间，一个字节也不多",
        ),
    ),
    draw=_draw_rings,
    examine=_examine_ring,
    shows=lambda call: [call.criterion, *(["messages"] if prod(call.shape) >= call.ranks else [])],
)
