"""The proof of the proof: with one line of an optimizer made wrong, the comparison fails. The
reference is one process that is unharmed. About 20 s; `make test` makes every third mistake,
`make test-all` all of them."""

from __future__ import annotations

from collections.abc import Callable

import optimizer_mutations as m
import pytest
from optimizer_layouts import WIDE, Trained, put_together, train_on_rank, weights_error
from pairs import EXHAUSTIVE

from lab_utils import TrainConfig, launch
from lab_utils.launch import LaunchError

MUON, ADAFACTOR, ADAM8, ADAMW = (
    WIDE.replace(optimizer=kind) for kind in ("muon", "adafactor", "adam8bit", "adamw")
)
MUTATIONS: list[tuple[Callable[[], None], TrainConfig]] = [
    (m.each_shard_orthogonalised_by_itself, MUON.replace(dp=2, zero=1)),
    (m.each_shard_orthogonalised_by_itself, MUON.replace(tp=2)),
    (m.parts_joined_in_the_wrong_order, MUON.replace(tp=2)),
    (m.results_come_back_in_another_order, MUON.replace(dp=2, zero=1)),
    (m.step_scaled_by_the_shard, MUON.replace(dp=2)),
    (m.momentum_without_looking_ahead, MUON.replace(dp=2)),
    (m.everything_is_a_matrix, MUON.replace(dp=2)),
    (m.factors_of_the_own_part_alone, ADAFACTOR.replace(dp=2, zero=2)),
    (m.replicas_added_up, ADAFACTOR.replace(tp=2)),
    (m.rows_counted_from_the_shard, ADAFACTOR.replace(tp=2)),
    (m.step_clipped_by_the_shard, ADAFACTOR.replace(dp=2, zero=3)),
    (m.blocks_counted_from_the_shard, ADAM8.replace(dp=2, zero=1)),
    (m.signed_codes_for_squares, ADAM8.replace(dp=2)),
    (m.everything_decays, ADAMW.replace(dp=2)),
    (m.decay_goes_through_the_moments, ADAMW.replace(dp=2)),
    (m.decay_on_one_rank_only, ADAMW.replace(dp=2, zero=1)),
    (m.rate_of_the_step_after, ADAMW.replace(dp=2)),
    (m.rate_advances_with_micro_batches, ADAMW.replace(dp=2)),
    (m.lion_keeps_what_it_steps_by, WIDE.replace(optimizer="lion", dp=2)),
]
MADE = list(enumerate(MUTATIONS))[:: 1 if EXHAUSTIVE else 3]


def mutated(mutate: Callable[[], None], configs: list[TrainConfig]) -> list:
    mutate()
    return train_on_rank(configs)


def trained(mutate: Callable[[], None], configs: list[TrainConfig]) -> list[Trained]:
    world = configs[0].parallel.world_size
    return put_together(configs, launch(mutated, world, mutate, configs, threads=1, timeout=20))


def alone(config: TrainConfig) -> TrainConfig:
    return config.replace(dp=1, tp=1, zero=0)


def check_equal(run: Trained, reference: Trained, kind: str) -> None:
    loss = max(abs(a - b) / b for a, b in zip(run.losses, reference.losses, strict=True))
    weights = weights_error(run, reference)
    assert loss <= 1e-6, f"losses differ by {loss:.1e}"
    bound = {"lion": 1e-3, "adam8bit": 5e-5}.get(kind, 1e-5)
    assert weights <= bound, f"weights differ by {weights:.1e} of their norm"


@pytest.fixture(scope="module")
def one_process() -> dict[TrainConfig, Trained]:
    references = list(dict.fromkeys(alone(config) for _, config in MUTATIONS))
    return dict(zip(references, trained(m.unharmed, references), strict=True))


def test_the_control_passes(one_process):
    harmless = list(dict.fromkeys(config for _, config in MUTATIONS))
    for config, run in zip(harmless, trained(m.unharmed, harmless), strict=True):
        check_equal(run, one_process[alone(config)], config.optimizer)


@pytest.mark.parametrize(
    ("mutate", "config"),
    [mistake for _, mistake in MADE],
    ids=[f"{mutate.__name__}-{i}" for i, (mutate, _) in MADE],
)
def test_one_wrong_line_is_caught(mutate, config, one_process):
    with pytest.raises((AssertionError, LaunchError)) as caught:
        check_equal(trained(mutate, [config])[0], one_process[alone(config)], config.optimizer)
    print(f"{mutate.__name__}: {str(caught.value).splitlines()[0]}")
