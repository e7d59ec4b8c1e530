"""The checks of lab 07, tensor parallelism: the two conjugate operators, a loss over a shared
vocabulary, and an MLP under sequence parallelism with the gradients of its norm.

Exercises do not lean on each other: the loss is judged with right operators, whatever the learner's
own do.
"""

from __future__ import annotations

from .operators import EXERCISE as operators
from .sequence import EXERCISE as sequence_mlp
from .vocabulary import EXERCISE as vocab_loss

__all__ = ["operators", "sequence_mlp", "vocab_loss"]
