"""Optimizers with one line made wrong. Each function is called on every rank before the run and
spoils what its name says."""

from __future__ import annotations

from typing import Any


def unharmed() -> None:
    """Nothing is changed: the control."""


# -- Muon ------------------------------------------------------------------------------------------


def each_shard_orthogonalised_by_itself() -> None:
    """A rank brings its own rows near orthogonality, and calls it the matrix's."""
    import torch

    import lab_utils.engines.whole_matrices as room

    def alone(self: Any, pieces: list[torch.Tensor]) -> list[torch.Tensor]:
        for x, name in zip(pieces, self.held, strict=True):
            width = self.here[name].local_shape[1]
            rows = x.numel() // width * width
            own = x.view(-1)[:rows].view(-1, width)
            own.copy_(room.direction_of(own, self.dtype))
        return pieces

    room.WholeMatrices.__call__ = alone


def parts_joined_in_the_wrong_order() -> None:
    """The owner puts the last rank's part first."""
    import lab_utils.engines.whole_matrices as room

    to_owners = room.Exchange.to_owners
    room.Exchange.to_owners = lambda self, mine: [
        parts[::-1] if len({part.numel() for part in parts}) == 1 else parts
        for parts in to_owners(self, mine)
    ]


def results_come_back_in_another_order() -> None:
    """Two matrices of one shape are given back exchanged."""
    import lab_utils.engines.whole_matrices as room

    back = room.Exchange.back

    def exchanged(self: Any, owned: Any) -> Any:
        found = back(self, owned)
        for i, first in enumerate(found):
            for j in range(i + 1, len(found)):
                if found[j].numel() == first.numel() > 0:
                    found[i], found[j] = found[j], found[i]
                    return found
        return found

    room.Exchange.back = exchanged


def step_scaled_by_the_shard() -> None:
    """0.2·√(larger side) of the part that a rank holds, not of the matrix."""
    import lab_utils.optimizers.muon as room

    room.step_size = lambda shape: 0.2 * (max(shape) / 2) ** 0.5


def momentum_without_looking_ahead() -> None:
    """The moment itself is orthogonalised, not the gradient mixed with it."""
    import torch

    import lab_utils.optimizers.muon as room

    directions = room.Muon.step

    def plain(self: Any, closure: None = None) -> None:
        lerp = torch.Tensor.lerp_
        torch.Tensor.lerp_ = lambda x, y, share: (
            x.copy_(y) if share == self.param_groups[0]["momentum"] else lerp(x, y, share)
        )
        try:
            directions(self)
        finally:
            torch.Tensor.lerp_ = lerp

    room.Muon.step = plain


def everything_is_a_matrix() -> None:
    """Muon takes embeddings and head, too."""
    import lab_utils.layout.optimizer_runs as room

    room.is_hidden_matrix = lambda name: name.endswith("weight") and "norm" not in name


# -- Adafactor -------------------------------------------------------------------------------------


def factors_of_the_own_part_alone() -> None:
    """Rows and columns are not added up over the ranks."""
    import lab_utils.engines.tensor_sums as room

    room.TensorSums.__call__ = lambda self, numbers, count: None


def replicas_added_up() -> None:
    """What every tp rank holds whole is summed over tp as if it were cut."""
    import lab_utils.engines.tensor_sums as room

    call = room.TensorSums.__call__

    def everywhere(self: Any, numbers: Any, count: Any) -> None:
        call(self, numbers, count)
        for name, mine in zip(self.names, numbers, strict=True):
            if self.places and next(p for p in self.places if p.name == name).dim is None:
                mine.mul_(self.mesh["tp"].size)

    room.TensorSums.__call__ = everywhere


def rows_counted_from_the_shard() -> None:
    """A rank takes its first row for the matrix's first."""
    import lab_utils.engines.tensor_sums as room

    part_of_run = room.part_of_run

    import lab_utils.engines.update as update

    def from_zero(run: Any, here: Any) -> Any:
        from dataclasses import replace

        part = part_of_run(run, here)
        return replace(part, start=(0,) * len(part.shape))

    update.part_of_run = from_zero


def step_clipped_by_the_shard() -> None:
    """The size of a step is judged by a rank's own elements."""
    import lab_utils.optimizers.adafactor as room

    init = room.Adafactor.__init__

    def lonely(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        add_up = self.add_up
        self.add_up = lambda numbers, count: None if count is room._one else add_up(numbers, count)

    room.Adafactor.__init__ = lonely


# -- 8-bit Adam ------------------------------------------------------------------------------------


def blocks_counted_from_the_shard() -> None:
    """A rank's first block begins where its shard does."""
    import lab_utils.optimizers.adam8bit as room

    init = room.Adam8bit.__init__
    room.Adam8bit.__init__ = lambda self, *args, leads, **rest: init(self, *args, **rest)


def signed_codes_for_squares() -> None:
    """The second moment is kept with the first one's codebook."""
    import lab_utils.optimizers.adam8bit as room

    codebook = room.codebook
    room.codebook = lambda signed: codebook(True)


# -- decay, schedule -------------------------------------------------------------------------------


def everything_decays() -> None:
    """Norms, biases and embeddings are pulled to zero, too."""
    import lab_utils.engines.update as room

    room.decays = lambda name: True


def decay_goes_through_the_moments() -> None:
    """Decoupled decay is done as L2."""
    import torch

    import lab_utils.engines.update as room

    def coupled(weights: Any, gradients: Any, config: Any, rate: float) -> None:
        torch._foreach_add_(gradients, weights, alpha=config.weight_decay)

    room.decay = coupled


def rate_of_the_step_after() -> None:
    """The schedule is one step ahead."""
    import lab_utils.engines.update as room

    rate = room.learning_rate
    room.learning_rate = lambda config, update: rate(config, update + 1)


def rate_advances_with_micro_batches() -> None:
    """The schedule counts micro-batches."""
    import lab_utils.engines.update as room

    rate = room.learning_rate
    room.learning_rate = lambda config, update: rate(config, update * config.micro_batches)


def decay_on_one_rank_only() -> None:
    """The second rank forgets to decay its shard."""
    import torch.distributed as dist

    import lab_utils.engines.update as room

    if dist.get_rank() == 1:
        room.decay = lambda weights, gradients, config, rate: None


def lion_keeps_what_it_steps_by() -> None:
    """The moment is kept with the first beta."""
    import lab_utils.optimizers.lion as room

    init = room.Lion.__init__
    room.Lion.__init__ = lambda self, params, lr: init(self, params, lr, betas=(0.9, 0.9))
