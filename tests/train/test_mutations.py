"""The proof of the proof: with one line of the engine made wrong, the check of the grid fails.

`make test` makes every third of these mistakes, `make test-all` all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import context_mutations as c
import mutations as m
import pytest
from equality import Run, check_equal, runs_on_rank, together
from layouts import alone
from pairs import EXHAUSTIVE

from lab_utils import TrainConfig, launch
from lab_utils.launch import LaunchError

SMALL = TrainConfig.of(
    layers=2,
    hidden=32,
    heads=4,
    seq=16,
    steps=5,
    global_batch=8,
    micro_batch=2,
    optimizer="sgd",
    clip=0.0,
    bucket_mib=0.02,
)
DP, RING = SMALL.replace(dp=2), SMALL.replace(cp=2)
MUTATIONS: list[tuple[Callable[[], None], TrainConfig]] = [
    (m.scaled_by_local_tokens, DP),
    (m.not_divided_by_the_micro_batches, DP),
    (m.not_divided_by_the_micro_batches, SMALL.replace(pp=2)),
    (m.averaged_once_more, DP),
    (m.loss_scale_left_in, SMALL.replace(precision="fp16", loss_scale=8.0)),
    (m.never_synchronised, DP),
    (m.one_bucket_not_sent, DP),
    (m.same_data_everywhere, DP),
    (m.other_weights_on_one_rank, DP),
    (m.other_weights_on_one_rank, SMALL.replace(tp=2)),
    (m.other_bucket_order_on_one_rank, DP),
    (m.two_gradients_swapped_on_one_rank, DP),
    (m.maximum_instead_of_sum, DP),
    (m.only_the_last_micro_batch_counts, DP),
    (m.sent_before_it_is_filled, DP),
    (m.stale_step, DP),
    (m.one_gradient_lost_on_one_rank, DP),
    (m.updated_weights_not_gathered, DP.replace(zero=1)),
    (m.shard_holds_the_last_micro_batch, DP.replace(zero=2)),
    (m.shard_holds_the_last_micro_batch, DP.replace(zero=3)),
    (m.last_unit_not_waited_for, DP.replace(zero=2)),
    (m.reduced_at_the_first_micro_batch, DP.replace(zero=1)),
    (m.input_gradients_not_summed, SMALL.replace(tp=2)),
    (m.bias_added_by_every_rank, SMALL.replace(tp=2)),
    (m.partial_gradients_not_summed, SMALL.replace(tp=2, sequence_parallel=True)),
    (m.foreign_words_looked_up, SMALL.replace(tp=2)),
    (m.tied_embedding_not_summed, SMALL.replace(pp=2, tied=True)),
    (m.weight_gradients_forgotten, SMALL.replace(pp=2, micro_batch=4, schedule="zero-bubble")),
    (m.norm_of_one_shard, DP.replace(zero=2, clip=0.25)),
    (m.norm_of_one_stage, SMALL.replace(pp=2, clip=0.25)),
    (m.norm_of_one_tensor_rank, SMALL.replace(tp=2, clip=0.25)),
    (m.replicas_counted_twice, SMALL.replace(tp=2, clip=0.25)),
    (m.clipping_forgotten, DP.replace(clip=0.25)),
    (c.parts_put_together_as_if_equal, RING),
    (c.weight_of_the_sum_not_kept, RING),
    (c.own_tokens_see_the_future, RING),
    (c.earlier_and_later_changed_over, RING),
    (c.the_same_keys_every_time, RING),
    (c.gradients_of_keys_not_sent_home, RING),
    (c.positions_counted_from_zero, RING),
    (c.positions_counted_from_zero, RING.replace(positions="rope", cp_kind="all-to-all")),
    (c.plain_runs_for_a_zigzag_ring, RING),
    (c.heads_come_back_in_another_order, RING.replace(cp_kind="all-to-all")),
    (c.gradients_summed_over_dp_alone, RING),
    (c.heads_kept_instead_of_sent, RING.replace(cp_kind="all-to-all")),
]


def mutated(mutate: Callable[[], None], cases: list) -> list:
    mutate()
    return runs_on_rank(cases)


def run_of(mutate: Callable[[], None], *configs: TrainConfig) -> list[Run]:
    """Configurations of one size of the world, in one launch."""
    cases = [(config, "ours") for config in configs]
    return together(
        cases, launch(mutated, configs[0].parallel.world_size, mutate, cases, threads=1, timeout=20)
    )


MADE = list(enumerate(MUTATIONS))[:: 1 if EXHAUSTIVE else 3]


@pytest.fixture(scope="module")
def one_process() -> dict[TrainConfig, Run]:
    references = list(dict.fromkeys(alone(config) for _, config in MUTATIONS))
    return dict(zip(references, run_of(m.unharmed, *references), strict=True))


def test_the_control_passes(one_process):
    harmless = list(dict.fromkeys(config for _, config in MUTATIONS if config.precision == "fp32"))
    assert {config.parallel.world_size for config in harmless} == {2}
    for config, run in zip(harmless, run_of(m.unharmed, *harmless), strict=True):
        check_equal(run, one_process[alone(config)])


@pytest.mark.parametrize(
    ("mutate", "config"),
    [mistake for _, mistake in MADE],
    ids=[f"{mutate.__name__}-{i}" for i, (mutate, _) in MADE],
)
def test_one_wrong_line_is_caught(mutate, config, one_process):
    reference = (
        one_process[alone(config)]
        if mutate is not m.loss_scale_left_in
        else run_of(m.unharmed, config)[0]
    )
    with pytest.raises((AssertionError, LaunchError)) as caught:
        check_equal(run_of(mutate, config)[0], reference)
    print(f"{mutate.__name__}: {str(caught.value).splitlines()[0]}")


def test_adamw_alone_would_hide_a_wrong_scale():
    """Why gradients are compared as well as losses."""
    config = DP.replace(optimizer="adamw")
    (one,), (run,) = run_of(m.unharmed, alone(config)), run_of(m.scaled_by_local_tokens, config)
    relative = [abs(a - b) / b for a, b in zip(run.losses, one.losses, strict=True)]
    assert max(relative) < 1e-4
    with pytest.raises(AssertionError, match="first gradients differ by 1"):
        check_equal(Run(one.losses, run.gradients), one)
