"""The proof of the proof: with one line of the engine made wrong, the check of test_equality fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from equality import Run, check_equal, runs_on_rank, together

from lab_utils import TrainConfig, launch
from lab_utils.launch import LaunchError

CONFIG = TrainConfig.of("tiny", layers=2, steps=5, dp=2, micro_batch=6, bucket_mib=0.1)


def unharmed() -> None:
    """Nothing is changed: the control."""


def scaled_by_local_tokens() -> None:
    """The loss is divided by this rank's tokens, not by the global batch's."""
    from lab_utils.data.loader import Loader

    batch = Loader.batch
    Loader.batch = lambda self, step: batch(self, step)._replace(global_tokens=batch(self, step).global_tokens // 2)


def never_synchronised() -> None:
    """Each rank goes its own way."""
    import lab_utils.parallel.parallelize as module
    from lab_utils.parallel.data_parallel import GradientSync

    module.data_parallel = lambda model, axis, **_: GradientSync(model, axis)


def one_bucket_not_sent() -> None:
    """The last bucket is never flushed."""
    from lab_utils.parallel.data_parallel import BucketedSync
    send = BucketedSync._send_full_buckets

    def all_but_the_last(self) -> None:
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
    import os

    import lab_utils.train.loop as module

    gpt = module.GPT
    module.GPT = lambda config, seed: gpt(config, seed + int(os.environ["RANK"]))


def other_bucket_order_on_one_rank() -> None:
    """Rank 1 fills its buckets in forward order, so the ranks add up different gradients."""
    import os

    import lab_utils.parallel.data_parallel as module

    assign = module.assign_buckets
    if os.environ["RANK"] == "1":
        module.assign_buckets = lambda numels, size, element: assign(dict(reversed(list(numels.items()))), size, element)


def two_gradients_swapped_on_one_rank() -> None:
    """Rank 1 packs two gradients of the same size in the other order: no size gives it away."""
    import os

    import lab_utils.parallel.data_parallel as module

    assign = module.assign_buckets
    other = {"blocks.1.attention.key.weight": "blocks.1.attention.value.weight", "blocks.1.attention.value.weight": "blocks.1.attention.key.weight"}
    if os.environ["RANK"] == "1":
        module.assign_buckets = lambda numels, size, element: assign({other.get(name, name): n for name, n in numels.items()}, size, element)


def maximum_instead_of_sum() -> None:
    """The wrong reduction."""
    from lab_utils.parallel.comm import Axis

    all_reduce = Axis.all_reduce
    Axis.all_reduce = lambda self, tensor, **kwargs: all_reduce(self, tensor, **kwargs | {"reduction": "max"})


def only_the_last_micro_batch_counts() -> None:
    """A gradient in the bucket is overwritten by the next micro-batch instead of added to."""
    import lab_utils.train.step as module

    one = module._one

    def forgetful(sync, micro, tokens) -> float:
        for parameter in sync.parameters.values():
            parameter.grad = None
        return one(sync, micro, tokens)

    module._one = forgetful


def sent_before_it_is_filled() -> None:
    """A gradient is copied into its bucket only when the bucket has left."""
    from lab_utils.parallel.data_parallel import BucketedSync

    BucketedSync._move_into_bucket = lambda self, name, parameter: None


def stale_step() -> None:
    """The optimizer steps with the gradients of the step before: the first gradients are right, the losses are not."""
    import torch

    step = torch.optim.AdamW.step
    kept = {}

    def late(self) -> None:
        now = [p.grad.clone() for group in self.param_groups for p in group["params"]]
        for p, old in zip((p for group in self.param_groups for p in group["params"]), kept.get("grads", now), strict=True):
            p.grad.copy_(old)
        kept["grads"] = now
        step(self)

    torch.optim.AdamW.step = late


def one_gradient_lost_on_one_rank() -> None:
    """The gradient of one parameter is lost after the sum, on one rank."""
    import os

    from lab_utils.parallel.data_parallel import BucketedSync

    finish = BucketedSync.finish

    def and_then_one_is_lost(self) -> None:
        finish(self)
        if os.environ["RANK"] == "1":
            self.parameters["position_embedding.weight"].grad.zero_()

    BucketedSync.finish = and_then_one_is_lost


def undivided_ddp() -> None:
    """torch's DDP divides by N; the loss that makes up for it is forgotten. AdamW hides this from the losses."""
    import lab_utils.train.step as module

    one = module._one

    def forgetful(sync, micro, tokens) -> float:
        sync.averaged_over = 1
        return one(sync, micro, tokens)

    module._one = forgetful


MUTATIONS = [scaled_by_local_tokens, never_synchronised, one_bucket_not_sent, same_data_everywhere, other_weights_on_one_rank,
             other_bucket_order_on_one_rank, two_gradients_swapped_on_one_rank, maximum_instead_of_sum,
             only_the_last_micro_batch_counts, sent_before_it_is_filled, stale_step, one_gradient_lost_on_one_rank, undivided_ddp]  # fmt: skip


def mutated(mutate: Callable[[], None], cases: list) -> list:
    mutate()
    return runs_on_rank(cases)


def run_of(mutate: Callable[[], None]) -> Run:
    cases = [(CONFIG, "torch" if mutate is undivided_ddp else "ours")]
    return together(cases, launch(mutated, 2, mutate, cases, threads=1, timeout=10))[0]


@pytest.fixture(scope="module")
def one_process() -> Run:
    cases = [(CONFIG.replace(dp=1), "ours")]
    return together(cases, launch(runs_on_rank, 1, cases, threads=1))[0]


def test_the_control_passes(one_process):
    check_equal(run_of(unharmed), one_process)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda m: m.__name__)
def test_one_wrong_line_is_caught(mutate, one_process):
    with pytest.raises((AssertionError, LaunchError)) as caught:
        check_equal(run_of(mutate), one_process)
    print(f"{mutate.__name__}: {str(caught.value).splitlines()[0]}")


def test_adamw_alone_would_hide_a_wrong_scale(one_process):
    """Why gradients are compared as well as losses."""
    run = run_of(scaled_by_local_tokens)
    relative = [abs(a - b) / b for a, b in zip(run.losses, one_process.losses, strict=True)]
    assert max(relative) < 1e-4
    with pytest.raises(AssertionError, match="first gradients differ by 1"):
        check_equal(Run(one_process.losses, run.gradients), one_process)
