"""Which rank gets which sequence, when.

Sequence i of step k is window number k·B + i of the endless list in windows.py, a function of
(seed, k, i) alone: the same global batch is the same text in every layout, and a run resumes from a
step number and nothing else.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..config import TrainConfig
from ..layout.context import runs_of_rank
from .windows import open_windows


class MicroBatch(NamedTuple):
    """`tokens` and `targets` (micro-batch, s), int64: each target is the token after. Under context
    parallelism s is this rank's share of the sequence."""

    tokens: Tensor
    targets: Tensor


class StepBatch(NamedTuple):
    """One rank's share of one optimizer step; `global_tokens` counts the targets of all ranks
    together."""

    step: int
    micro_batches: tuple[MicroBatch, ...]
    global_tokens: int


class Loader:
    """Iterate over this rank's StepBatches, from `first_step` to the last step of the config.

    Rank r of dp takes a contiguous run of the global batch's sequences, rank r of cp its share of
    each (layout.context). A background thread
    prepares the next two steps; it ends with the iteration, also when that is left early. An
    exception in it is raised here.
    """

    def __init__(
        self,
        config: TrainConfig,
        dp_rank: int = 0,
        first_step: int = 0,
        device: torch.device | None = None,
        cp_rank: int = 0,
    ) -> None:
        self.config, self.dp_rank, self.next_step = config, dp_rank, first_step
        self.device, p = device or torch.device("cpu"), config.parallel
        runs = runs_of_rank(config.model.seq, p.cp, cp_rank, p.cp_kind)
        self.positions = None if p.cp == 1 else torch.tensor([i for run in runs for i in run])
        self.windows = open_windows(config)

    def batch(self, step: int) -> StepBatch:
        """This rank's share of `step`."""
        config, share = self.config, self.config.global_batch // self.config.parallel.dp
        first = step * config.global_batch + self.dp_rank * share
        rows = torch.from_numpy(
            np.stack([self.windows[first + i] for i in range(share)]).astype(np.int64)
        )
        parts = rows.split(config.micro_batch)
        return StepBatch(
            step,
            tuple(MicroBatch(self._mine(p[:, :-1]), self._mine(p[:, 1:])) for p in parts),
            config.global_batch * config.model.seq,
        )

    def _mine(self, tokens: Tensor) -> Tensor:
        return tokens.contiguous() if self.positions is None else tokens[:, self.positions]

    def state(self) -> dict[str, int]:
        """What a later Loader needs to go on: pass it as `first_step`."""
        return {"first_step": self.next_step}

    def __iter__(self) -> Iterator[StepBatch]:
        ready: queue.Queue[StepBatch | BaseException] = queue.Queue(maxsize=2)
        left = threading.Event()
        thread = threading.Thread(
            target=self._prepare, args=(ready, left), daemon=True, name="loader"
        )
        thread.start()
        try:
            while self.next_step < self.config.steps:
                item = ready.get()
                if isinstance(item, BaseException):
                    raise item
                self.next_step = item.step + 1
                yield self._to_device(item)
        finally:
            left.set()
            while not ready.empty():
                ready.get_nowait()
            thread.join()

    def _prepare(
        self, ready: queue.Queue[StepBatch | BaseException], left: threading.Event
    ) -> None:
        def put(item: StepBatch | BaseException) -> None:
            while not left.is_set():
                with suppress(queue.Full):
                    ready.put(item, timeout=0.05)
                    return

        try:
            for step in range(self.next_step, self.config.steps):
                if left.is_set():
                    return
                put(self.batch(step))
        except BaseException as error:  # noqa: BLE001 - handed to the reader, who raises it
            put(error)

    def _to_device(self, batch: StepBatch) -> StepBatch:
        if self.device.type == "cpu":
            return batch
        moved = tuple(
            MicroBatch(*(x.to(self.device, non_blocking=True) for x in micro))
            for micro in batch.micro_batches
        )
        return batch._replace(micro_batches=moved)
