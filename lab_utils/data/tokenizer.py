"""Text to numbers. One byte is one token: no vocabulary to learn, nothing out of it, 256 tokens in
all."""

from __future__ import annotations

import numpy as np


class ByteTokenizer:
    """UTF-8 bytes as tokens 0 … 255."""

    vocab = 256

    def encode(self, text: str) -> np.ndarray:
        """Tokens of the text, uint8, one per UTF-8 byte."""
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)

    def decode(self, tokens: np.ndarray) -> str:
        """The text of the tokens; bytes that are no UTF-8 (a character cut in two) become �."""
        return np.asarray(tokens, dtype=np.uint8).tobytes().decode("utf-8", errors="replace")
