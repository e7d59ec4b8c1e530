"""The text as an endless list of windows: cut into s+1 tokens each, shuffled anew in every epoch.
No torch in here."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..config import ConfigError, TrainConfig
from ..i18n import t
from .corpus import load_corpus
from .tokenizer import ByteTokenizer


class Windows:
    """The corpus as numbered windows of `seq` + 1 tokens, shuffled anew in every epoch.

    Raises ConfigError if the text is too short for one window.
    """

    def __init__(self, tokens: np.ndarray, seq: int, seed: int) -> None:
        self.tokens, self.seq, self.seed = tokens, seq, seed
        self.count = (len(tokens) - 1) // seq
        if self.count < 1:
            raise ConfigError(
                t(
                    f"the text has {len(tokens)} tokens, too few for one sequence of {seq}: give a"
                    " longer text or a smaller --seq.",
                    f"文本只有 {len(tokens)} 个词元，不够一条长度为 {seq} 的序列：请换更长的文本，"
                    "或减小 --seq。",
                )
            )
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.count)

    def __getitem__(self, number: int) -> np.ndarray:
        """Window `number` of the endless list: (seq + 1,) tokens."""
        epoch, place = divmod(number, self.count)
        start = int(self._order(epoch)[place]) * self.seq
        return self.tokens[start : start + self.seq + 1]


def open_windows(config: TrainConfig) -> Windows:
    """The windows of the configured text. Raises ConfigError for a text, or a vocabulary, that
    cannot be trained on."""
    if config.model.vocab < ByteTokenizer.vocab:
        raise ConfigError(
            t(
                f"--vocab {config.model.vocab} is too small: the byte tokenizer needs 256.",
                f"--vocab {config.model.vocab} 太小：字节分词器需要 256。",
            )
        )
    return Windows(
        ByteTokenizer().encode(load_corpus(config.corpus)), config.model.seq, config.seed
    )
