"""Which rank gets which sequence, when.

The corpus is cut into windows of s+1 tokens; an epoch is one seeded shuffle of all windows. Sequence i of step k is
window number k·B + i of that endless list, a function of (seed, k, i) alone: the same global batch is the same text in
every layout, and a run resumes from a step number and nothing else.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..config import ConfigError, TrainConfig
from ..i18n import t
from .corpus import load_corpus
from .tokenizer import ByteTokenizer


class MicroBatch(NamedTuple):
    """`tokens` and `targets` (micro-batch, s), int64: each target is the token after."""

    tokens: Tensor
    targets: Tensor


class StepBatch(NamedTuple):
    """One rank's share of one optimizer step; `global_tokens` counts the targets of all ranks together."""

    step: int
    micro_batches: tuple[MicroBatch, ...]
    global_tokens: int


class Windows:
    """The corpus as numbered windows of `seq` + 1 tokens, shuffled anew in every epoch.

    Raises ConfigError if the text is too short for one window, or the vocabulary too small for bytes.
    """

    def __init__(self, tokens: np.ndarray, seq: int, seed: int) -> None:
        self.tokens, self.seq, self.seed = tokens, seq, seed
        self.count = (len(tokens) - 1) // seq
        if self.count < 1:
            raise ConfigError(t(f"the text has {len(tokens)} tokens, too few for one sequence of {seq}: give a longer text or a smaller --seq.",
                                f"文本只有 {len(tokens)} 个词元，不够一条长度为 {seq} 的序列：请换更长的文本，或减小 --seq。"))
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.count)

    def __getitem__(self, number: int) -> np.ndarray:
        """Window `number` of the endless list: (seq + 1,) tokens."""
        epoch, place = divmod(number, self.count)
        start = int(self._order(epoch)[place]) * self.seq
        return self.tokens[start : start + self.seq + 1]


class Loader:
    """Iterate over this dp rank's StepBatches, from `first_step` to the last step of the config.

    Rank r of dp takes a contiguous run of the global batch's sequences. A background thread prepares the next two
    steps; it ends with the iteration, also when that is left early. An exception in it is raised here.
    """

    def __init__(self, config: TrainConfig, dp_rank: int = 0, first_step: int = 0, device: torch.device | None = None) -> None:
        if config.model.vocab < ByteTokenizer.vocab:
            raise ConfigError(t(f"--vocab {config.model.vocab} is too small: the byte tokenizer needs 256.", f"--vocab {config.model.vocab} 太小：字节分词器需要 256。"))
        self.config, self.dp_rank, self.next_step, self.device = config, dp_rank, first_step, device or torch.device("cpu")
        self.windows = Windows(ByteTokenizer().encode(load_corpus(config.corpus)), config.model.seq, config.seed)

    def batch(self, step: int) -> StepBatch:
        """This rank's share of `step`."""
        config, share = self.config, self.config.global_batch // self.config.parallel.dp
        first = step * config.global_batch + self.dp_rank * share
        rows = torch.from_numpy(np.stack([self.windows[first + i] for i in range(share)]).astype(np.int64))
        parts = rows.split(config.micro_batch)
        return StepBatch(step, tuple(MicroBatch(p[:, :-1].contiguous(), p[:, 1:].contiguous()) for p in parts), config.global_batch * config.model.seq)

    def state(self) -> dict[str, int]:
        """What a later Loader needs to go on: pass it as `first_step`."""
        return {"first_step": self.next_step}

    def __iter__(self) -> Iterator[StepBatch]:
        ready: queue.Queue[StepBatch | BaseException] = queue.Queue(maxsize=2)
        left = threading.Event()
        thread = threading.Thread(target=self._prepare, args=(ready, left), daemon=True, name="loader")
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

    def _prepare(self, ready: queue.Queue[StepBatch | BaseException], left: threading.Event) -> None:
        def put(item: StepBatch | BaseException) -> None:
            while not left.is_set():
                try:
                    return ready.put(item, timeout=0.05)
                except queue.Full:
                    continue

        try:
            for step in range(self.next_step, self.config.steps):
                if left.is_set():
                    return
                put(self.batch(step))
        except BaseException as error:      # noqa: BLE001 - handed to the reader, who raises it
            put(error)

    def _to_device(self, batch: StepBatch) -> StepBatch:
        if self.device.type == "cpu":
            return batch
        moved = tuple(MicroBatch(*(x.to(self.device, non_blocking=True) for x in micro)) for micro in batch.micro_batches)
        return batch._replace(micro_batches=moved)
