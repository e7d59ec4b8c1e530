"""How tensor parallelism shares the layers of our GPT out: one table, from which both the cut of
every weight (placement.py) and the class of every layer (parallel/tensor.py) follow.

The styles are those of `parallel.styles`, where any model's plan names them (Shoeybi et al. 2019,
"Megatron-LM", section 3).
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class TensorStyle(NamedTuple):
    """`style`: "column" cuts the output features, "row" the input features and leaves the bias
    whole, "vocabulary" and "head" the words. `shared`: what is dealt out to the ranks; heads stay
    whole, and query heads stay with their key/value head."""

    style: Literal["column", "row", "vocabulary", "head"]
    shared: Literal["query heads", "key/value heads", "ffn", "vocab"]

    @property
    def dim(self) -> int:
        """The dim of the weight that is cut."""
        return 1 if self.style == "row" else 0


# by the last part of a module's name; what is not here every rank holds whole
TENSOR_STYLES = {
    "token_embedding": TensorStyle("vocabulary", "vocab"),
    "query": TensorStyle("column", "query heads"),
    "key": TensorStyle("column", "key/value heads"),
    "value": TensorStyle("column", "key/value heads"),
    "output": TensorStyle("row", "query heads"),
    "gate": TensorStyle("column", "ffn"),
    "up": TensorStyle("column", "ffn"),
    "down": TensorStyle("row", "ffn"),
    "head": TensorStyle("head", "vocab"),
}
