"""The number format tool as data: rounding is the formats', shares are those of a real run. What
holds for every tool is tested in test_all_tools.py."""

from __future__ import annotations

import pytest
import torch

from lab_utils.formats import FORMATS
from lab_utils.train import numbers
from lab_utils.widgets.number_formats import counts, gradient_scene, number_scene, recorded

TORCH = {"fp16": torch.float16, "bf16": torch.bfloat16, "e5m2": torch.float8_e5m2}


def items_of(scene: dict) -> dict[str, dict]:
    return {item["key"]: item for item in scene["items"]}


def test_the_number_that_comes_back_is_torchs():
    for x in number_scene.NUMBERS:
        exact = torch.tensor(x, dtype=torch.float64)
        for name, dtype in TORCH.items():
            right = exact.to(dtype).double().item()
            assert number_scene.became(x, FORMATS[name]).value == pytest.approx(right, rel=1e-12)
            words = items_of(number_scene.scene({"number": x}, "en"))[f"{name}-value"]["text"]
            assert words.startswith(f"{right:.8g}")


def test_the_bits_that_are_drawn_are_torchs():
    shown = items_of(number_scene.scene({"number": 0.1}, "en"))
    word = "".join(shown[f"bf16-{part}-bits"]["text"] for part in "sem")
    bits = torch.tensor(0.1, dtype=torch.bfloat16).view(torch.int16).item()
    assert int(word, 2) == bits


@pytest.mark.parametrize("name", ["fp16", "e5m2"])
@pytest.mark.parametrize("power", [-8, 0, 10])
def test_shares_are_what_torchs_cast_makes_of_such_gradients(name, power):
    """A number of each power of two, at 1.3 times it, cast for real."""
    sizes, dtype, form = recorded.gradient_sizes("activations", 200), TORCH[name], FORMATS[name]
    zero = subnormal = 0
    for exponent, count in sizes.items():
        came = torch.tensor(1.3 * 2.0 ** (exponent + power)).to(dtype).double().item()
        zero += count * (came == 0)
        subnormal += count * (0 < came < form.smallest_normal)
    found = counts.counts("activations", name, power)
    total = sum(sizes.values())
    assert found.zero == pytest.approx(zero / total)
    assert found.subnormal == pytest.approx(subnormal / total, abs=1e-3)
    assert sum(found) == pytest.approx(1)


def test_the_figures_are_the_counts():
    state = {"what": "weights", "format": "fp16", "scale": 4}
    shown = items_of(gradient_scene.scene(state, "en"))
    found = counts.counts("weights", "fp16", 4)
    assert shown["share2"]["text"].startswith(f"{100 * found.normal:.0f}")


def test_every_case_is_recorded():
    for recording in (recorded.GRADIENTS, recorded.RUNS):
        assert [case for case, _ in recording.runs] == [dict(case) for case in recording.cases()]


def test_a_gradient_record_is_still_what_the_engine_does():
    """The shares of the first backward pass; another processor may round a few numbers into another
    power of two."""
    case = {"seed": 1, "step": 0}
    found, _ = recorded.GRADIENTS.measure(case, numbers)
    for what, sizes in found.items():
        kept = recorded.gradient_sizes(what, 0, seed=1)
        total = sum(kept.values())
        assert sum(sizes.values()) == pytest.approx(total, rel=1e-3)
        apart = sum(abs(sizes.get(e, 0) - kept.get(e, 0)) for e in {*sizes, *kept})
        assert apart < 0.01 * total


def test_a_run_record_is_still_what_the_engine_does():
    case = {"lr": 1e-4, "kept": "nearest", "seed": 2}
    found, _ = recorded.RUNS.measure(case, numbers)
    kept = recorded.RUNS.found(**case)
    assert found["loss"] == pytest.approx(kept["loss"], abs=0.02)
    assert found["moved"] == pytest.approx(kept["moved"], abs=0.02)


def test_what_the_lesson_claims_of_the_runs_holds_for_every_seed():
    gaps = {}
    for lr in recorded.RATES:
        ways = {way: recorded.runs(lr, way) for way in recorded.KEPT}
        for way in ("nearest", "stochastic"):
            pairs = zip(ways[way], ways["master"], strict=True)
            gaps[lr, way] = [a["loss"] - b["loss"] for a, b in pairs]
        assert min(gaps[lr, "nearest"]) > 0
        assert max(map(abs, gaps[lr, "stochastic"])) <= 0.0045
    worst = [min(gaps[lr, "nearest"]) for lr in recorded.RATES]
    assert worst == sorted(worst, reverse=True)
