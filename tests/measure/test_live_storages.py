"""The instrument that watches storages live and die, against sums by hand. About 5 s."""

from __future__ import annotations

import torch

from lab_utils.measure.live import LiveStorages
from lab_utils.measure.memory import SavedActivations


def watch(model: torch.nn.Module, *others: torch.Tensor) -> tuple[SavedActivations, LiveStorages]:
    saved = SavedActivations(model)

    def held() -> dict[str, list[torch.Tensor]]:
        return {
            "parameters": list(model.parameters()),
            "gradients": [p.grad for p in model.parameters() if p.grad is not None],
        }

    return saved, LiveStorages(held, saved, others)


def test_a_sum_by_hand():
    """y = x W, 1,000 × 10 by 10 × 10, squared and summed: the most is alive while the square's
    gradient is computed."""
    layer, x = torch.nn.Linear(10, 10, bias=False), torch.ones(1000, 10)
    saved, live = watch(layer, x)
    with saved, live:
        y = layer(x)
        loss = (y * y).sum()
        del y
        loss.backward()
    # W; x and y, saved; the gradients of both factors, the loss and its gradient
    assert live.at_peak() == {"parameters": 400, "activations": 80_000, "temporary": 2 * 40_000 + 8}
    assert live.peak == sum(live.at_peak().values())


def test_what_dies_is_counted_no_longer_and_views_count_once():
    saved, live = watch(torch.nn.Linear(1, 1, bias=False))
    with live:
        for _ in range(5):
            whole = torch.zeros(1000)
            part = whole[10:].view(-1, 10)
            del whole, part
        assert live.now == 4
    assert live.peak == 4 + 4000


def test_storages_that_change_their_size():
    saved, live = watch(torch.nn.Linear(1, 1, bias=False))
    whole = torch.empty(0)
    with live:
        whole.untyped_storage().resize_(800)
        live.observe("gathered", whole, True)
        torch.zeros(25)
        live.observe("gathered", whole, False)
        whole.untyped_storage().resize_(0)
        torch.zeros(50)
    assert live.at_peak() == {"parameters": 4, "gathered": 800, "temporary": 100}


def test_a_copy_of_a_weight_is_known_by_what_it_was_made_from():
    layer, x = torch.nn.Linear(8, 4, bias=False), torch.ones(2, 8, requires_grad=True)
    meter = SavedActivations(layer)
    with meter, torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        assert (meter.copies, meter.now) == (2 * 8 * 4, 2 * 2 * 8)  # W in bf16; x in bf16
    y.sum().backward()
    assert (meter.copies, meter.now) == (0, 0)
    assert meter.copies_peak == 64


def test_what_the_host_makes_is_not_the_devices_even_where_they_are_one():
    saved, phase = SavedActivations(torch.nn.Linear(1, 1)), []
    master, weight = torch.zeros(1000), torch.zeros(1000)
    held = {"parameters": [weight], "offloaded": [master]}
    live = LiveStorages(lambda: held, saved, on_host=lambda: bool(phase))
    with live:
        phase.append("update")
        part = master.view(-1)[10:]
        part.mul_(0.9)
        kept = part + 1
        weight.copy_(master)
        phase.clear()
        assert live.now == live.peak == 4000
        there = torch.zeros(5)
    assert live.at_peak() == {"parameters": 4000, "temporary": 20}
    assert kept.numel() == 990
    assert there.numel() == 5
