"""What runs on a rank: its parts of the model, stage by stage, what keeps gradients in step, and
the batch that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....config import TrainConfig
from ....layout.units import Unit
from ...program.kernels import INDEX, Torch
from ...program.live import Storage, Value
from ...program.tensor import program_of
from .sharded import Sharded
from .sync import Replicated


class Rank:
    """`parts` by stage, "embed", "blocks.3", "head_loss", over parameters of these `shapes`.
    Nothing has run yet.

    `units`: ZeRO's; `together`: the gradients that share buckets where nothing is sharded;
    `split_backward`: weights' gradients may be put off.
    """

    def __init__(
        self,
        torch: Torch,
        config: TrainConfig,
        parts: Mapping[int, list[str]],
        shapes: Mapping[str, tuple[int, ...]],
        units: Iterable[Unit],
        together: frozenset[str],
        split_backward: bool,
        cp_rank: int = 0,
    ) -> None:
        self.torch, self.config, self.parts = torch, config, parts
        self.program = program_of(torch, config, shapes, split_backward, cp_rank)
        self.sync = (
            Sharded(self.program, config, units)
            if config.parallel.zero
            else Replicated(self.program, together)
        )
        self.runs = {stage: self.sync.wrap(names, self._run_part) for stage, names in parts.items()}
        self.tokens, self.targets = _batch(torch, config)

    def _run_part(self, part: str, x: Value | None, micro: int) -> Value:
        if part == "embed":
            return self.program.embed(self.tokens[micro])
        if part == "head_loss":
            return self.program.head_loss(x, self.targets[micro])
        return self.program.run_block(int(part.split(".")[1]), x)

    def through(self, stage: int, x: Value | None, micro: int) -> Value:
        """A stage's forward pass."""
        run, self.torch.phase = self.runs[stage], "forward"
        with self.torch.casting(self.program.inside):
            for part in self.parts[stage]:
                x = run(part, x, micro)
        return x

    def boundary(self) -> Value:
        """Room for one message between stages."""
        p, config = self.config.parallel, self.config
        tokens = config.micro_batch * config.rank_seq // (p.tp if p.sequence_parallel else 1)
        return self.torch.new(
            tokens * config.model.hidden, 2 if config.precision == "bf16-pure" else 4
        )


def in_one_tensor(config: TrainConfig) -> bool:
    """Whether the tokens of all micro-batches lie in one tensor, as the loader reads them."""
    return config.micro_batch == 1 and config.parallel.cp == 1


def _batch(torch: Torch, config: TrainConfig) -> tuple[list[Value], list[Value]]:
    """Tokens and targets of all micro-batches. A row of one micro-batch lies as the loader read it,
    all rows in one tensor."""
    count, m = config.micro_batch * config.rank_seq, config.micro_batches
    if in_one_tensor(config):
        rows = Storage(torch, m * (config.model.seq + 1) * INDEX)
        tokens, targets = ([Value(rows, count, INDEX) for _ in range(m)] for _ in range(2))
    else:
        tokens, targets = (
            [Value(Storage(torch, count * INDEX), count, INDEX) for _ in range(m)] for _ in range(2)
        )
    return tokens, targets
