"""What lab 06's answers train in their rooms, how one process trains it here, and what the grader
saw on the way: what came to the gates, what memory the kernel says."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf, isfinite
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...i18n import t
from ..crew import Seat
from ..frames import Frame
from ..inside.chain import Chain, make_optimizer
from ..tree import begin_peak, mapped_files, own_bytes, peak_own_bytes

BATCH = 2
SAMPLE = 1 << 30
LARGE_SAMPLE = 16  # elements of each parameter of a large model
BEGINS = "batch", "last"  # of a step, and of what comes after the last
COUNTED = "model", "made", "batch", "forward over", "backward over", "step over"


@dataclass(frozen=True)
class Training:
    """A chain of blocks trained for some steps on `ranks` equal shares of a batch, to show
    `criterion`. `large`: every weight takes pages of its own, so that memory can be measured."""

    do: str
    answer: str
    ranks: int
    width: int
    inner: tuple[int, ...]
    criterion: str
    optimizer: str = "sgd"
    gain: bool = False
    max_norm: float = inf
    overflow_at: int | None = None
    dtype: str = "float32"
    slow: int | None = None
    large: bool = False
    steps: int = 3  # one step hides what a wrong shard does to the next

    def __str__(self) -> str:
        name = {
            "sgd": t("SGD with momentum", "带动量的 SGD"),
            "adamw": "AdamW",
            "momenta": t("an optimizer with large states", "状态很大的优化器"),
        }[self.optimizer]
        over = "" if self.overflow_at is None else t(", one gradient infinite", "、有一个梯度溢出")
        return t(
            f"N = {self.ranks}, {self.numel:,} parameters, {name}{over}",
            f"N = {self.ranks}、{self.numel:,} 个参数、{name}{over}",
        )

    @property
    def numels(self) -> list[int]:
        """Elements of each parameter."""
        gain = [1] if self.gain else []
        return [n for h in self.inner for n in (h, *gain, h * self.width, self.width * h)]

    @property
    def numel(self) -> int:
        """Parameters of the model."""
        return sum(self.numels)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Of all weights."""
        return self.numel * self.itemsize

    @property
    def shard_bytes(self) -> int:
        """The most that 1/N of the model takes, every parameter padded by itself."""
        return sum(-(-n // self.ranks) for n in self.numels) * self.itemsize

    def model(self) -> Chain:
        """Of this shape."""
        return Chain(self.width, self.inner, self.gain, self.dtype)


class Memory(NamedTuple):
    """Of a rank at a gate: bytes that it has, and the most since the gate before; where the kernel
    does not tell that, the same."""

    now: int
    most: int


class Run:
    """The grader's side of one training: draws what it is given, keeps what it shows."""

    def __init__(self, case: Training, seats: list[Seat], random: Random) -> None:
        self.case, self._seats = case, seats
        self._numbers = np.random.default_rng(random.getrandbits(64))
        self._model = case.model()
        self.weights = [
            self._draw(p.shape, max(1, p.shape[-1] if p.dim() else 1) ** -0.5)
            for p in self._model.parameters()
        ]
        self.batches: dict[tuple[int, int], list[np.ndarray]] = {}  # by rank and step
        self.factors: dict[tuple[int, int, str], float] = {}  # by rank, step and block
        self.shown: dict[tuple[int, int, str], list[np.ndarray]] = {}  # by rank, step and gate
        self.memory: dict[tuple[int, int, str], Memory] = {}
        self._step = defaultdict[int, int](lambda: -1)

    def orders(self) -> list[Frame]:
        """What each rank is told."""
        case = self.case
        words = dict(
            do=case.do,
            answer=case.answer,
            ranks=case.ranks,
            width=case.width,
            inner=case.inner,
            gain=case.gain,
            dtype=case.dtype,
            optimizer=case.optimizer,
            max_norm=case.max_norm if isfinite(case.max_norm) else 0,
            overflow_at=-1 if case.overflow_at is None else case.overflow_at,
            sample=LARGE_SAMPLE if case.large else SAMPLE,
            steps=case.steps,
        )
        return [Frame(words | {"rank": rank}, self.weights) for rank in range(case.ranks)]

    def gate(self, rank: int, words: dict[str, Any], arrays: list[np.ndarray]) -> Frame:
        """Let a rank on."""
        name = words["gate"]
        if name in BEGINS:
            self._step[rank] += 1
        step = self._step[rank]
        if name == "backward":
            return Frame(self._factor(rank, step, str(words["block"])))
        if [a.size for a in arrays] != self._sizes(name, words):
            raise ValueError(f"other sizes at gate {name}")
        self.shown[rank, step, name if name != "forward" else f"forward {words['block']}"] = arrays
        if self.case.large and name in COUNTED:
            self._read(rank, step, name)
        if name != "batch":
            return Frame(0)
        batch = [self._draw((BATCH, self.case.width)) for _ in range(2)]
        self.batches[rank, step] = batch
        return Frame(0, batch)

    def memory_at(self, rank: int, name: str, step: int = -1) -> Memory:
        """Of a rank at a gate; those outside of a step are of step −1."""
        return self.memory[rank, step, name]

    def most_until(self, rank: int, name: str, step: int) -> int:
        """The most bytes that a rank ever had, up to that gate."""
        gates = list(self.memory)
        last = gates.index((rank, step, name))
        return max(self.memory[gate].most for gate in gates[: last + 1] if gate[0] == rank)

    def unfinished(self) -> int | None:
        """A rank that says it was done, and was not: did not come to every gate."""
        blocks = [f"forward {n}" for n in range(len(self.case.inner))]
        for rank in range(self.case.ranks):
            gates = [(step, name) for step in range(self.case.steps) for name in COUNTED[2:]]
            if self.case.do == "zero3":
                gates += [(n, name) for n in range(self.case.steps + 1) for name in blocks]
            else:
                gates = [one for one in gates if one[1] != "forward over"]
            if any((rank, *gate) not in self.shown for gate in gates):
                return rank
        return None

    def right(self) -> tuple[list[list[Tensor]], list[float]]:
        """One process: all weights before each step and after the last, and each step's norm."""
        model = self._model
        model.fill([torch.tensor(w) for w in self.weights])
        parameters = list(model.parameters())
        optimizer = make_optimizer(self.case.optimizer)(parameters)
        weights, norms = [[p.detach().clone() for p in parameters]], []
        for step in range(self.case.steps):
            means = self._mean(model, step)
            norms.append(torch.cat([m.flatten() for m in means]).double().norm().item())
            if isfinite(norms[-1]):
                clip = min(1.0, self.case.max_norm / norms[-1])
                for parameter, mean in zip(parameters, means, strict=True):
                    parameter.grad = mean * clip
                optimizer.step()
            weights.append([p.detach().clone() for p in parameters])
        return weights, norms

    def _mean(self, model: Chain, step: int) -> list[Tensor]:
        """The gradients of all ranks' shares."""
        total: list[Tensor] = []
        for rank in range(self.case.ranks):
            if self.case.do == "zero3":
                model.gate = lambda name, rank=rank: self._factor(rank, step, name)
            loss = model(*map(torch.tensor, self.batches[rank, step]))
            own = list(torch.autograd.grad(loss, list(model.parameters())))
            if step == self.case.overflow_at and rank == 1:
                names = [name for name, _ in model.named_parameters()]
                own[names.index("blocks.0.into.weight")].view(-1)[-1] = inf
            total = [a + b for a, b in zip(total, own, strict=True)] if total else own
        return [x / self.case.ranks for x in total]

    def _read(self, rank: int, step: int, name: str) -> None:
        room = self._seats[rank].room
        room.missing |= {k: why for k, why in room.group.missing.items() if k == "cgroup memory"}
        files = room.group.file_bytes()  # what is mapped of them is counted already
        files = max(0, files - mapped_files(room.pid)) if files else 0
        now = own_bytes(room.pid) + files
        most = peak_own_bytes(room.pid) + files if self._peaks_known(rank) else now
        self.memory[rank, step, name] = Memory(now, max(now, most))
        try:
            begin_peak(room.pid)
        except PermissionError as error:
            room.missing["peak"] = str(error)

    def _peaks_known(self, rank: int) -> bool:
        """Whether the kernel looks for a rank's peaks, from its first gate on."""
        return (rank, -1, "model") in self.memory and "peak" not in self._seats[rank].room.missing

    def _factor(self, rank: int, step: int, block: str) -> float:
        return self.factors.setdefault((rank, step, block), self._numbers.uniform(0.5, 2))

    def _sizes(self, name: str, words: dict[str, Any]) -> list[int]:
        """Of the arrays that come to a gate."""
        case, numels = self.case, list[int]()
        if name == "forward":
            inner = case.inner[words["block"]]
            numels = [inner * case.width, inner, inner * case.width, *([1] if case.gain else [])]
        elif name == "step over" and case.do != "zero3":
            numels = case.numels
        sample = LARGE_SAMPLE if case.large else SAMPLE
        norm = [1] if name == "step over" and case.do == "zero2" else []
        return norm + [min(numel, sample) for numel in numels]

    def _draw(self, shape: Any, size: float = 1.0) -> np.ndarray:
        drawn = self._numbers.standard_normal(tuple(shape)) * size
        return np.asarray(drawn, self.case.dtype)
