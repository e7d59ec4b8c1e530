"""What of a rank's weights each optimizer rule updates, as data: an optimizer shard is cut into
runs.

A rule that treats every element alike (SGD, Adam, Lion) takes a whole shard, padding included: a
flat buffer of many parameters is one tensor to it. A rule that looks at a tensor's shape or cuts it
into blocks (Adafactor, 8-bit Adam, Muon) takes each parameter's piece apart. Muon is meant for the
matrices inside of the blocks; embeddings, head, norms and biases are AdamW's (Jordan 2024, "Muon").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..config import TrainConfig
from ..config.lr_schedule import rate_scale
from .placement import Placement
from .units import Unit

ELEMENTWISE = ("sgd", "adam", "adamw", "lion")
# elements of a parameter that share one constant in 8-bit Adam; a smaller tensor than SMALL stays
# in fp32 (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", section 2)
BLOCK, SMALL = 256, 4096

# (parameter, first element in the shard, elements, first element in the local parameter)
PieceOf = tuple[str, int, int, int]
CutBlock = tuple[str, int]


class Run(NamedTuple):
    """`numel` elements of an optimizer shard from `first` on, updated by `rule`; of one `parameter`
    from its element `offset` on, or (None) of whatever lies there. `scale`: of the learning
    rate."""

    rule: str
    first: int
    numel: int
    parameter: str | None = None
    offset: int = 0
    scale: float = 1.0


def decays(name: str) -> bool:
    """Whether weight decay pulls a parameter towards zero: the matrices that are multiplied; not
    embeddings (a tied head is one), norms or biases."""
    return name.endswith(".weight") and not name.split(".")[-2].endswith(("norm", "embedding"))


def is_hidden_matrix(name: str) -> bool:
    """Whether Muon updates a parameter."""
    return name.startswith("blocks.") and decays(name)


def rule_of(optimizer: str, name: str) -> str:
    """The rule that updates a parameter under a TrainConfig's `optimizer`."""
    return optimizer if optimizer != "muon" or is_hidden_matrix(name) else "adamw"


def rules(optimizer: str) -> tuple[str, ...]:
    """All rules of a TrainConfig's `optimizer`."""
    return ("muon", "adamw") if optimizer == "muon" else (optimizer,)


def whole_shards(config: TrainConfig) -> bool:
    """Whether the optimizer takes every shard as one tensor."""
    return config.optimizer in ELEMENTWISE and config.init != "mup"


def optimizer_runs(config: TrainConfig, pieces: Sequence[PieceOf], numel: int) -> tuple[Run, ...]:
    """The runs of a shard of `numel` elements that holds these pieces, in order."""
    if whole_shards(config):
        return (Run(config.optimizer, 0, numel),)
    runs: list[Run] = []
    for name, first, count, offset in pieces:
        rule, scale = rule_of(config.optimizer, name), rate_scale(name, config)
        last = runs[-1] if runs else None
        if rule not in ELEMENTWISE:
            runs.append(Run(rule, first, count, name, offset, scale))
        elif last and (last.rule, last.scale) == (rule, scale) and last.first + last.numel == first:
            runs[-1] = last._replace(numel=last.numel + count)
        else:
            runs.append(Run(rule, first, count, scale=scale))
    return tuple(runs)


def cut_blocks(units: Sequence[Unit], here: Mapping[str, Placement], ranks: int) -> list[CutBlock]:
    """(parameter, number of a block) of 8-bit Adam's blocks that ZeRO's shards cut, so that their
    largest elements must be agreed on."""
    found: dict[CutBlock, None] = {}
    for unit in units:
        for rank in range(1, ranks):
            for name, _, _, offset in unit.pieces(ranks, rank):
                if offset % BLOCK and here[name].numel >= SMALL:
                    found[name, offset // BLOCK] = None
    return list(found)


def owners(numels: Sequence[int], ranks: int) -> list[int]:
    """Which of `ranks` works on each matrix: the largest first, each to the rank that has least so
    far; the first of equals."""
    load, found = [0] * ranks, [0] * len(numels)
    for i in sorted(range(len(numels)), key=lambda i: -numels[i]):
        found[i] = min(range(ranks), key=lambda r: load[r])
        load[found[i]] += numels[i]
    return found


def matrices(placements: Mapping[str, Placement]) -> list[str]:
    """Muon's matrices on a rank, in the order of the forward pass."""
    return [name for name in placements if is_hidden_matrix(name)]
