"""The loss scale, step by step: against traces written by hand, and against torch's own scaler on
the same gradients."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lab_utils import i18n
from lab_utils.engines.loss_scaler import LARGEST, Event, LossScaler


def after(scaler: LossScaler, word: str) -> LossScaler:
    """One step for each letter: x overflows, . does not."""
    for letter in word:
        scaler.update(letter == "x")
    return scaler


def test_it_starts_as_torch_s_does():
    scaler, torchs = LossScaler(), torch.amp.GradScaler("cpu")
    numbers = (
        torchs.get_scale(),
        torchs.get_growth_interval(),
        torchs.get_growth_factor(),
        torchs.get_backoff_factor(),
    )
    assert (
        (scaler.scale, scaler.growth_interval, scaler.growth, scaler.backoff)
        == numbers
        == (65536.0, 2000, 2.0, 0.5)
    )
    assert scaler.trace == []
    assert after(scaler, "." * 1999).scale == 65536.0
    assert after(scaler, ".").scale == 131072.0


def test_a_trace_by_hand():
    scaler = after(LossScaler(initial=8.0, growth_interval=3), "..x...x....")
    assert scaler.trace == [
        Event(0, 8.0, "ok"),
        Event(1, 8.0, "ok"),
        Event(2, 8.0, "skip"),
        Event(3, 4.0, "ok"),
        Event(4, 4.0, "ok"),
        Event(5, 4.0, "grow"),
        Event(6, 8.0, "skip"),
        Event(7, 4.0, "ok"),
        Event(8, 4.0, "ok"),
        Event(9, 4.0, "grow"),
        Event(10, 8.0, "ok"),
    ]
    assert scaler.scale == 8.0


@pytest.mark.parametrize(
    ("initial", "steps", "scales"),
    [
        (8.0, "xxxx", [4.0, 2.0, 1.0, 1.0]),  # not below `least`, and still a skip
        (4.0, "..x..", [4.0, 8.0, 4.0, 4.0, 8.0]),  # an overflow right after growing
        (4.0, ".x.x.x", [4.0, 2.0, 2.0, 1.0, 1.0, 1.0]),  # good steps not in a row never grow
        (4.0, "......", [4.0, 8.0, 8.0, 16.0, 16.0, 32.0]),
    ],
)
def test_the_scale_after_each_step(initial, steps, scales):
    scaler = LossScaler(initial, growth_interval=2)
    assert [after(scaler, step).scale for step in steps] == scales
    assert [event.event == "skip" for event in scaler.trace] == [step == "x" for step in steps]


def test_other_factors():
    scaler = after(
        LossScaler(initial=100.0, growth_interval=1, growth=1.5, backoff=0.1, least=20.0), ".xx"
    )
    assert [(event.scale, event.event) for event in scaler.trace] == [
        (100.0, "grow"),
        (150.0, "skip"),
        (20.0, "skip"),
    ]
    assert scaler.scale == 20.0


def test_a_long_run_stores_its_changes_only():
    scaler = after(LossScaler(growth_interval=1000), "." * 999 + "x" + "." * 1999)
    assert len(scaler._changes) == 2
    assert (len(scaler.trace), [event.step for event in scaler.trace]) == (2999, list(range(2999)))


class Torchs:
    """torch's GradScaler, driven by one parameter whose gradient is finite or not."""

    def __init__(self, **numbers) -> None:
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD([self.weight], lr=1.0)
        self.scaler = torch.amp.GradScaler("cpu", **numbers)

    def step(self, gradient: float) -> tuple[bool, float]:
        """Whether the step was skipped, and the scale after it."""
        before = self.weight.item()
        # the scaler makes its tensor only when it is first used
        self.scaler.scale(self.weight.sum())
        self.weight.grad = torch.tensor([gradient])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.weight.item() == before, self.scaler.get_scale()


@pytest.mark.parametrize("seed", range(8))
def test_decisions_are_those_of_torch(seed):
    rng = random.Random(seed)
    interval, chance = rng.randint(1, 5), rng.choice([0.1, 0.2, 0.5])
    initial, growth, backoff = (
        2.0 ** rng.randint(0, 20),
        rng.choice([2.0, 4.0]),
        rng.choice([0.5, 0.25]),
    )
    torchs = Torchs(
        init_scale=initial, growth_interval=interval, growth_factor=growth, backoff_factor=backoff
    )
    # torch knows no least
    ours = LossScaler(initial, interval, growth, backoff, least=2.0**-126)
    seen = []
    for _ in range(200):
        overflow, sign = rng.random() < chance and ours.scale > 2.0**-100, rng.choice([1, -1])
        # the finite gradient is scaled as well, so that unscaling it gives a step that shows in the
        # weight
        skipped, scale = torchs.step(
            rng.choice([sign * float("inf"), float("nan")]) if overflow else sign * ours.scale
        )
        ours.update(overflow)
        assert ((ours.trace[-1].event == "skip"), ours.scale) == (skipped, scale)
        seen.append(ours.trace[-1].event)
    assert set(seen) >= {"skip", "grow"}


def test_neither_grows_out_of_fp32():
    torchs, ours = (
        Torchs(init_scale=2.0**126, growth_interval=1),
        LossScaler(2.0**126, growth_interval=1),
    )
    for _ in range(3):
        _, scale = torchs.step(1.0)
        ours.update(False)
        assert ours.scale == scale
    assert [event.event for event in ours.trace] == ["grow", "ok", "ok"]
    assert torch.finfo(torch.float32).max == LARGEST


def test_a_loaded_scaler_goes_on_as_if_never_stopped():
    whole, first, second = (LossScaler(initial=16.0, growth_interval=4) for _ in range(3))
    after(first, "..x..")
    second.load(first.state())
    assert second.trace == []
    after(second, "..x.....")
    assert second.trace == after(whole, "..x.." + "..x.....").trace[5:]
    assert second.state() == whole.state() == {"scale": 16.0, "good_steps": 1, "step": 13}


def test_a_shorter_interval_takes_effect_at_once_after_loading():
    scaler = LossScaler(initial=8.0, growth_interval=2)
    scaler.load(after(LossScaler(initial=8.0, growth_interval=100), "." * 50).state())
    assert after(scaler, ".").scale == 16.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial": 0.0},
        {"initial": float("inf")},
        {"initial": 1e39},
        {"initial": 0.5},
        {"initial": "65536"},
        {"growth_interval": 0},
        {"growth_interval": 2.0},
        {"growth_interval": True},
        {"growth": 1.0},
        {"growth": float("nan")},
        {"backoff": 0.0},
        {"backoff": 1.0},
        {"least": 0.0},
        {"least": -1.0},
        {"least": None},
    ],
    ids=str,
)
def test_numbers_that_could_not_work_are_refused_in_both_languages(wrong, monkeypatch):
    (name,) = wrong
    monkeypatch.setattr(i18n, "_chosen", "en")
    with pytest.raises(ValueError, match=f"^{name} must .*, not .*\\.$"):
        LossScaler(**wrong)
    monkeypatch.setattr(i18n, "_chosen", "zh")
    with pytest.raises(ValueError, match=f"^{name} 应.*，而不是 .*。$"):
        LossScaler(**wrong)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"scale": 1.0, "good_steps": 0},
        {"scale": 0.0, "good_steps": 0, "step": 0},
        {"scale": 1.0, "good_steps": -1, "step": 0},
    ],
    ids=str,
)
def test_what_is_no_state_is_refused_and_changes_nothing(state):
    scaler = after(LossScaler(), "x")
    before = scaler.state()
    with pytest.raises(ValueError, match="state"):
        scaler.load(state)
    assert scaler.state() == before


def test_it_needs_no_torch():
    code = "import sys, lab_utils.engines.loss_scaler; print('torch' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        == "False\n"
    )
