"""`check.NAME(answer)`: judge the answer to an exercise, on real processes, and say so in the
learner's language.

Each check returns a Result: what was expected, what came, one hint; or, after a pass, what was
really measured. What a check believes are live tensors and the messages that went out, never a
formula held against itself, nor a record that the answer can write. It runs in the learner's own
process all the same: who patches the check itself, or torch under it, can forge anything. That is
left to a grader that measures from outside.

A lab's checks load when one of them is first used.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class Home(NamedTuple):
    """Where a check lives: checks/labNN; and what the notebook calls the answer that it judges."""

    lab: str
    answer: str


HOMES = {
    "fit_roof": Home("lab01", "fit_roof"),
    "diagnose": Home("lab01", "diagnose"),
    "mend": Home("lab01", "Mended"),
    "prefetch": Home("lab01", "prefetch"),
    "accumulate": Home("lab03", "accumulate"),
    "checkpoint": Home("lab03", "Segment"),
    "plan_checkpoints": Home("lab03", "plan_checkpoints"),
    "loss_scaler": Home("lab04", "Scaler"),
    "master_weights": Home("lab04", "Master"),
    "amp_step": Home("lab04", "amp_step"),
    "chunk_bounds": Home("lab05", "chunk_bounds"),
    "ring_all_reduce": Home("lab05", "ring_all_reduce"),
    "bucketed": Home("lab05", "Bucketed"),
    "zero1": Home("lab06", "Zero1"),
    "zero2": Home("lab06", "Zero2"),
    "zero3": Home("lab06", "Zero3"),
    "operators": Home("lab07", "operators"),
    "vocab_loss": Home("lab07", "vocab_loss"),
    "sequence_mlp": Home("lab07", "SequenceMLP"),
    "pipeline_step": Home("lab08", "pipeline_step"),
    "cut_layers": Home("lab08", "cut_layers"),
    "one_f_one_b": Home("lab08", "one_f_one_b"),
    "less_bubble": Home("lab08", "less_bubble"),
    "rank_groups": Home("lab09", "group_of"),
    "make_groups": Home("lab09", "make_groups"),
    "sealed_layouts": Home("lab09", "sealed"),
    "grid_step": Home("lab09", "grid_step"),
    "first_weights": Home("lab11", "first_weights"),
    "clip_gradients": Home("lab11", "clip_gradients"),
    "global_norm": Home("lab11", "global_norm"),
    "adamw": Home("lab12", "AdamW"),
    "lion": Home("lab12", "Lion"),
    "sharded_muon": Home("lab12", "ShardedMuon"),
    "rate_factor": Home("lab13", "rate_factor"),
    "scheduled_run": Home("lab13", "ScheduledRun"),
    "find_rate": Home("lab13", "find_rate"),
    "cool_branches": Home("lab13", "cool_branches"),
    "validate": Home("lab19", "validate"),
    "train_epoch": Home("lab19", "train_epoch"),
    "prepare": Home("lab19", "prepare"),
    "resume": Home("lab19", "Checkpoint"),
    "train_mixed": Home("lab19", "train_mixed"),
}
_WORDS = ("Failure", "Measured", "Result")
__all__ = sorted([*HOMES, *_WORDS])


def __getattr__(name: str) -> Any:
    if name in HOMES:
        module = importlib.import_module(f".checks.{HOMES[name].lab}", __package__)
    elif name in _WORDS:
        module = importlib.import_module(".checks.verdict", __package__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
