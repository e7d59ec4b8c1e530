"""The instruments of the mixed precision lesson, held to torch and to arithmetic."""

from __future__ import annotations

import torch

from lab_utils.config import TrainConfig
from lab_utils.engines.optimizer import make_optimizer
from lab_utils.formats import FORMATS, round_stochastically
from lab_utils.train.numbers import gradient_sizes, nearest, sizes_of, stochastic, train_rounded

SMALL = TrainConfig.of("tiny", layers=1, hidden=32, seq=8, global_batch=2, lr=1e-4, steps=4)


def test_sizes_are_powers_of_two_and_zeros_are_left_out():
    found = sizes_of([torch.tensor([1.0, 1.99, -2.0, 0.0]), torch.tensor([2.0**-140])])
    assert found == {-140: 1, 0: 2, 1: 1}


def test_every_gradient_is_counted():
    found = gradient_sizes(SMALL, 0)
    parameters = sum(p.numel() for p in _parameters())
    rows = SMALL.model.vocab * SMALL.model.hidden  # of words that do not occur: zeros
    assert 0.99 * (parameters - rows) < sum(found["weights"].values()) <= parameters


def _parameters() -> list[torch.Tensor]:
    from lab_utils.model import GPT

    return list(GPT(SMALL.model).parameters())


def test_stochastic_rounding_on_bits_is_that_on_numbers():
    """Each of the 65,536 chances once: as many go up as the plain rule says."""
    form = FORMATS["bf16"]
    for x in (1.001, -0.0513, 3.0, 2.0**-130 * 1.003):
        whole = torch.full((2**16,), x)
        fp32 = whole[0].double().item()
        chances = torch.arange(2**16, dtype=torch.int32)
        bits = (whole.view(torch.int32) + chances).bitwise_and(-(2**16)).view(torch.float32)
        right = (
            sum(round_stochastically(fp32, (i + 0.5) / 4096, form).value for i in range(4096))
            / 4096
        )
        gap = form.spacing(fp32)
        assert abs(bits.double().mean().item() - right) < 1e-3 * gap
        drawn = stochastic(whole, torch.Generator().manual_seed(0))
        assert set(drawn.tolist()) <= set(bits.tolist())
        assert abs(drawn.double().mean().item() - fp32) < 0.02 * gap


def test_nearest_is_torchs_bf16():
    x = torch.randn(1000)
    assert torch.equal(nearest(x), x.bfloat16().float())


def test_runs_repeat_begin_alike_and_move_fewer_weights_without_masters():
    losses, moved = train_rounded(SMALL, "master")
    assert len(losses) == len(moved) == SMALL.steps
    assert all(0 < share <= 1 for share in moved)
    again, _ = train_rounded(SMALL, "master")
    assert again == losses
    near, few = train_rounded(SMALL, "nearest")
    assert near[0] == losses[0]
    assert few[-1] < moved[-1]


def test_the_optimizer_is_the_engines():
    assert type(make_optimizer(_parameters(), SMALL)).__name__ == "AdamW"
