"""Engines with one line made wrong. Each function is called on every rank before the run and spoils
what its name says."""

from __future__ import annotations

import os
from typing import Any


def unharmed() -> None:
    """Nothing is changed: the control."""


# -- scaling ---------------------------------------------------------------------------------------


def scaled_by_local_tokens() -> None:
    """The loss is divided by this rank's tokens, not by the global batch's."""
    from lab_utils.data.loader import Loader

    batch = Loader.batch
    Loader.batch = lambda self, step: batch(self, step)._replace(
        global_tokens=batch(self, step).global_tokens // 2
    )


def not_divided_by_the_micro_batches() -> None:
    """Each micro-batch's loss is taken as a mean of its own, and the sum over micro-batches is
    forgotten to be divided."""
    from lab_utils.parallel.pipeline import Pipeline

    run = Pipeline.run
    Pipeline.run = lambda self, sync, batch, factor: run(
        self, sync, batch, factor * len(batch.micro_batches)
    )


def averaged_once_more() -> None:
    """Gradients that are sums already are divided by the number of ranks."""
    from lab_utils.parallel.data_parallel import BucketedSync

    finish = BucketedSync.finish

    def and_divide(self: Any) -> None:
        finish(self)
        for parameter in self.parameters.values():
            parameter.grad /= self.axis.size

    BucketedSync.finish = and_divide


def loss_scale_left_in() -> None:
    """fp16: gradients are applied as they come, scaled."""
    from lab_utils.engines.update import Update

    apply = Update._apply
    Update._apply = lambda self, factor: apply(self, factor * self.scaler.scale)


# -- data parallelism ------------------------------------------------------------------------------


def never_synchronised() -> None:
    """Each rank goes its own way."""
    import lab_utils.parallel.parallelize as module
    from lab_utils.parallel.gradient_sync import GradientSync

    module.data_parallel = lambda model, axis, **_: GradientSync(model, axis)


def one_bucket_not_sent() -> None:
    """The last bucket is never flushed."""
    from lab_utils.parallel.data_parallel import BucketedSync

    send = BucketedSync._send_full_buckets

    def all_but_the_last(self: Any) -> None:
        layout, self.layout = self.layout, self.layout[:-1]
        send(self)
        self.layout = layout

    BucketedSync._send_full_buckets = all_but_the_last


def same_data_everywhere() -> None:
    """The loader forgets which rank it is."""
    import lab_utils.train.loop as module

    loader = module.Loader
    module.Loader = lambda config, rank, **kwargs: loader(config, 0, **kwargs)


def other_weights_on_one_rank() -> None:
    """Weights are drawn from a seed that depends on the rank."""
    import lab_utils.parallel.parallelize as module

    values = module.local_values
    module.local_values = lambda place, config: values(
        place, config.replace(seed=config.seed + int(os.environ["RANK"]))
    )


def other_bucket_order_on_one_rank() -> None:
    """Rank 1 fills its buckets in forward order, so the ranks add up different gradients."""
    import lab_utils.parallel.data_parallel as module

    assign = module.assign_buckets
    if os.environ["RANK"] == "1":
        module.assign_buckets = lambda numels, size, element: assign(
            dict(reversed(list(numels.items()))), size, element
        )


def two_gradients_swapped_on_one_rank() -> None:
    """Rank 1 packs two gradients of the same size in the other order: no size gives it away."""
    import lab_utils.parallel.data_parallel as module

    assign = module.assign_buckets
    other = {
        "blocks.1.attention.key.weight": "blocks.1.attention.value.weight",
        "blocks.1.attention.value.weight": "blocks.1.attention.key.weight",
    }
    if os.environ["RANK"] == "1":
        module.assign_buckets = lambda numels, size, element: assign(
            {other.get(name, name): n for name, n in numels.items()}, size, element
        )


def maximum_instead_of_sum() -> None:
    """The wrong reduction."""
    from lab_utils.parallel.comm import Axis

    all_reduce = Axis.all_reduce
    Axis.all_reduce = lambda self, tensor, **kwargs: all_reduce(
        self, tensor, **kwargs | {"reduction": "max"}
    )


def only_the_last_micro_batch_counts() -> None:
    """A gradient is overwritten by the next micro-batch instead of added to."""
    from lab_utils.parallel.pipeline import Pipeline

    backward = Pipeline._backward

    def forgetful(self: Any, action: Any, gradient: Any, step: Any) -> None:
        for parameter in step.sync.parameters.values():
            parameter.grad = None
        backward(self, action, gradient, step)

    Pipeline._backward = forgetful


def sent_before_it_is_filled() -> None:
    """A gradient is copied into its bucket only when the bucket has left."""
    from lab_utils.parallel.data_parallel import BucketedSync

    BucketedSync._move_into_bucket = lambda self, name, parameter: None


def stale_step() -> None:
    """The optimizer steps with the gradients of the step before: the first gradients are right, the
    losses are not."""
    from lab_utils.engines.update import Update

    apply, kept = Update._apply, {}

    def late(self: Any, factor: float) -> None:
        now = [o.gradient().clone() for o in self.shards]
        for o, old in zip(self.shards, kept.get("gradients", now), strict=True):
            o.gradient().copy_(old)
        kept["gradients"] = now
        apply(self, factor)

    Update._apply = late


def one_gradient_lost_on_one_rank() -> None:
    """The gradient of one parameter is lost after the sum, on one rank."""
    from lab_utils.parallel.data_parallel import BucketedSync

    finish = BucketedSync.finish

    def and_then_one_is_lost(self: Any) -> None:
        finish(self)
        if os.environ["RANK"] == "1":
            self.parameters["position_embedding.weight"].grad.zero_()

    BucketedSync.finish = and_then_one_is_lost


# -- ZeRO ------------------------------------------------------------------------------------------


def updated_weights_not_gathered() -> None:
    """Every rank keeps what it updated itself."""
    from lab_utils.parallel.zero import ShardedSync

    ShardedSync.gather_parameters = lambda self: None


def shard_holds_the_last_micro_batch() -> None:
    """Stage 2: the sum of a micro-batch replaces the one before."""
    from lab_utils.parallel.zero import FlatUnit

    collect = FlatUnit.collect

    def replacing(self: Any) -> None:
        self.shard_gradient = None
        collect(self)

    FlatUnit.collect = replacing


def last_unit_not_waited_for() -> None:
    """Stage 2: whatever is still under way when the backward pass ends is forgotten."""
    from lab_utils.parallel.zero import ShardedSync

    collect = ShardedSync._collect

    def forgetting(self: Any, name: str) -> None:
        unit = self.unit[name]
        if unit is not self.units[0]:
            collect(self, name)
            return
        unit.shard_gradient = unit.shard.new_zeros(unit.shard.shape)
        self.pending.pop(name).wait()

    ShardedSync._collect = forgetting


def reduced_at_the_first_micro_batch() -> None:
    """Stage 1: gradients leave before all micro-batches have added to them."""
    from contextlib import nullcontext

    from lab_utils.parallel.zero import ShardedSync

    ShardedSync.no_sync = lambda self: nullcontext()


# -- tensor and sequence parallelism ---------------------------------------------------------------


def input_gradients_not_summed() -> None:
    """Tensor parallelism without the backward all-reduce: each rank sends back its own summand."""
    from lab_utils.parallel.tensor import _Column

    backward = _Column.backward

    def alone(ctx: Any, *gradients: Any) -> Any:
        size, ctx.region.axis.ranks = ctx.region.axis.ranks, [0]
        try:
            return backward(ctx, *gradients)
        finally:
            ctx.region.axis.ranks = size

    _Column.backward = staticmethod(alone)


def bias_added_by_every_rank() -> None:
    """Row-parallel: the bias goes into the sum, and so comes out N times."""
    from lab_utils.parallel.tensor import RowParallel

    forward = RowParallel.forward

    def often(self: Any, x: Any) -> Any:
        return forward(self, x) + self.bias * (self.region.axis.size - 1)

    RowParallel.forward = often


def partial_gradients_not_summed() -> None:
    """Sequence parallelism: each rank keeps the norms' gradients of its own tokens."""
    import lab_utils.engines.ours as module

    module.all_reduce_shared = lambda shards, placements, mesh: None


def foreign_words_looked_up() -> None:
    """Vocab-parallel embedding: words that live elsewhere give row 0 instead of zeros."""
    import torch

    from lab_utils.parallel.vocabulary import Leave, VocabParallelEmbedding

    def unmasked(self: Any, tokens: Any) -> Any:
        rows = (tokens - self.start).clamp(0, self.weight.shape[0] - 1)
        return Leave.apply(torch.nn.functional.embedding(rows, self.weight), self.region)

    VocabParallelEmbedding.forward = unmasked


# -- pipeline --------------------------------------------------------------------------------------


def tied_embedding_not_summed() -> None:
    """First and last stage each keep their own gradient of the tied embedding."""
    import lab_utils.parallel.optimizer_shard as module

    module._exchange_and_add = lambda gradient, axis: None


def weight_gradients_forgotten() -> None:
    """Zero-bubble: the last micro-batch's gradients of weights are never computed."""
    from lab_utils.parallel.weight_grad_store import WeightGradStore

    compute = WeightGradStore.compute
    WeightGradStore.compute = lambda self, key: compute(self, key) if key[0] == 0 else None


# -- clipping and overflow -------------------------------------------------------------------------


def _norm_without(axis: str) -> None:
    import lab_utils.engines.update as module

    whole = module.sum_of_squares

    class Blind:
        def __init__(self, mesh: Any) -> None:
            self.mesh, self.device = mesh, mesh.device

        @property
        def data(self) -> Any:
            return self["dp"] if axis == "dp" else self.mesh.data

        def __getitem__(self, name: str) -> Any:
            from lab_utils.parallel.comm import Axis
            from lab_utils.parallel.ledger import Ledger

            return (
                Axis(name, [0], self.mesh[name].rank, None, Ledger())
                if name == axis
                else self.mesh[name]
            )

    module.sum_of_squares = lambda shards, placements, mesh, sharded: whole(
        shards, placements, Blind(mesh), sharded
    )


def norm_of_one_shard() -> None:
    """ZeRO: clipped by the norm of what this rank owns."""
    _norm_without("dp")


def norm_of_one_stage() -> None:
    """Pipeline: clipped by the norm of this stage."""
    _norm_without("pp")


def norm_of_one_tensor_rank() -> None:
    """Tensor parallelism: clipped by the norm of this rank's part."""
    _norm_without("tp")


def replicas_counted_twice() -> None:
    """What every tp rank holds whole enters the norm once per rank."""
    import lab_utils.engines.update as module
    from lab_utils.parallel.optimizer_shard import sum_of_squares

    class Everyone(dict):
        def __init__(self, placements: Any) -> None:
            super().__init__({name: _always(place) for name, place in placements.items()})

    def _always(place: Any) -> Any:
        from dataclasses import replace

        return (
            place
            if place.dim is not None
            else replace(place, dim=0, start=0, length=place.shape[0])
        )

    module.sum_of_squares = lambda shards, placements, mesh, sharded: sum_of_squares(
        shards, Everyone(placements), mesh, sharded
    )


def clipping_forgotten() -> None:
    """The norm is computed and not used."""
    from lab_utils.engines.update import Update

    apply = Update._apply
    Update._apply = lambda self, factor: apply(self, 1.0)
