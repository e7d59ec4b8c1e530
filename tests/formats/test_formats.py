"""Held to torch's own dtypes: every pattern of the small formats, every halfway case between them;
drawn fp32 numbers for the rest."""

from __future__ import annotations

import math
import random

import pytest
import torch

from lab_utils.formats import BLOCKS, FORMATS, round_stochastically, round_to_nearest

TORCH = {
    "fp32": (torch.float32, torch.int32),
    "bf16": (torch.bfloat16, torch.int16),
    "fp16": (torch.float16, torch.int16),
    "e5m2": (torch.float8_e5m2, torch.uint8),
    "e4m3": (torch.float8_e4m3fn, torch.uint8),
}
SMALL = [name for name in TORCH if name != "fp32"]


def same(a: float, b: float) -> bool:
    return a == b and math.copysign(1, a) == math.copysign(1, b) or a != a and b != b


def values_of(name: str) -> list[float]:
    """Every pattern's number, as torch reads it."""
    dtype, whole = TORCH[name]
    patterns = torch.arange(2 ** FORMATS[name].width)
    if whole is torch.int16:
        patterns = patterns.sub((patterns >= 2**15).long() * 2**16)
    return patterns.to(whole).view(dtype).double().tolist()


def in_torch(name: str, numbers: list[float]) -> list[float]:
    """fp32 numbers, rounded by torch."""
    exact = torch.tensor(numbers, dtype=torch.float64).float()
    assert exact.double().tolist() == numbers
    return exact.to(TORCH[name][0]).double().tolist()


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_is_torchs_number_and_back(name):
    form = FORMATS[name]
    for bits, value in enumerate(values_of(name)):
        assert same(form.value(bits), value), (bits, value)
        if value == value:
            assert form.bits(value) == bits


@pytest.mark.parametrize("name", SMALL)
def test_every_halfway_case_and_its_neighbours_round_as_in_torch(name):
    finite = sorted({v for v in values_of(name) if math.isfinite(v)})
    middles = [(a + b) / 2 for a, b in zip(finite, finite[1:], strict=False)]
    up = torch.tensor(middles, dtype=torch.float32)
    assert up.double().tolist() == middles
    numbers = [*finite, *middles]
    for direction in (math.inf, -math.inf):
        numbers += torch.nextafter(up, torch.tensor(direction)).double().tolist()
    for x, right in zip(numbers, in_torch(name, numbers), strict=True):
        assert same(round_to_nearest(x, FORMATS[name]).value, right), x


@pytest.mark.parametrize("name", SMALL)
def test_beyond_the_largest_it_is_torchs_rule(name):
    form = FORMATS[name]
    last = form.spacing(form.largest)
    numbers = [form.largest + last * k for k in (0.25, 0.5, 0.75, 1.0, 9.0)]
    numbers = [x for x in numbers if x < 3.4e38]
    saturating = name == "e4m3"  # torch 2.13 on a CPU; the others go to infinity
    for x, right in zip(numbers, in_torch(name, numbers), strict=True):
        assert same(round_to_nearest(x, form, saturating).value, right), x
    assert same(round_to_nearest(math.inf, form, saturating).value, in_torch(name, [math.inf])[0])


@pytest.mark.parametrize("name", TORCH)
def test_the_limits_are_torchs(name):
    form, info = FORMATS[name], torch.finfo(TORCH[name][0])
    assert form.largest == info.max
    assert form.smallest_normal == info.tiny
    assert form.spacing(1.0) == info.eps
    assert form.width == info.bits
    if name != "fp32":
        assert form.smallest == min(v for v in values_of(name) if v > 0)


def test_fp32_rounds_doubles_as_torch_does():
    draw = random.Random(0)
    numbers = [
        draw.choice((-1, 1)) * draw.random() * 2.0 ** draw.randint(-152, 127) for _ in range(20000)
    ]
    right = torch.tensor(numbers, dtype=torch.float64).float().double().tolist()
    assert all(
        same(round_to_nearest(x, FORMATS["fp32"]).value, y)
        for x, y in zip(numbers, right, strict=True)
    )


def test_what_happened_has_a_name():
    fp16 = FORMATS["fp16"]
    cases = {
        1.5: "exact",
        0.1: "rounded",
        3e-6: "subnormal",
        2.0**-25: "underflow",
        2.0**-25 * 1.001: "subnormal",
        65519.0: "rounded",
        65520.0: "overflow",
    }
    for x, happened in cases.items():
        assert round_to_nearest(x, fp16).happened == happened
    assert round_to_nearest(65520.0, fp16, saturate=True).happened == "saturated"
    assert round_to_nearest(math.nan, fp16).lost


def test_four_bits_are_eight_sizes():
    """OCP Microscaling Formats specification 1.0, table 5."""
    e2m1 = FORMATS["e2m1"]
    assert [e2m1.value(bits) for bits in range(8)] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for bits in range(1, 8):
        assert e2m1.bits(e2m1.value(bits)) == bits
    assert round_to_nearest(2.5, e2m1).value == 2
    assert round_to_nearest(5.0, e2m1).value == 4
    assert round_to_nearest(9.0, e2m1).value == 6


def test_what_a_format_has_not_is_refused():
    with pytest.raises(ValueError, match="bf16 has no 257"):
        FORMATS["bf16"].bits(257.0)
    with pytest.raises(ValueError, match="e4m3 has no 512"):
        FORMATS["e4m3"].bits(512.0)


@pytest.mark.parametrize("name", FORMATS)
def test_stochastic_rounding_takes_a_neighbour_and_is_right_on_average(name):
    form, draw = FORMATS[name], random.Random(1)
    for x in (1.3, -2.7, form.smallest * 1.25, -form.smallest * 0.375):
        found = {round_stochastically(x, (i + 0.5) / 1024, form).value for i in range(1024)}
        below, above = sorted(found)
        assert below < x < above
        assert above - below == form.spacing(x)
        mean = (
            sum(round_stochastically(x, (i + 0.5) / 1024, form).value for i in range(1024)) / 1024
        )
        assert abs(mean - x) <= form.spacing(x) / 1024
        drawn = sum(round_stochastically(x, draw.random(), form).value for _ in range(4096)) / 4096
        assert abs(drawn - x) < 0.05 * form.spacing(x)
    assert round_stochastically(1.5, 0.0, form).value == 1.5


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_exact_for_its_own_numbers_and_its_error_bounded(name):
    block, draw = BLOCKS[name], random.Random(2)
    assert block.quantise([0.0] * 40).values == [0.0] * 40
    numbers = [draw.gauss(0, 1) for _ in range(block.size * 4 + 3)]
    back = block.quantise(numbers)
    assert len(back.scales) == 5
    assert len(back.values) == len(numbers)
    again = block.quantise([x * 2.0**-20 for x in numbers])
    assert again.values == pytest.approx([x * 2.0**-20 for x in back.values], rel=1e-6)
    worst = max(
        abs(a - b) / max(map(abs, numbers[i // block.size * block.size :][: block.size]))
        for i, (a, b) in enumerate(zip(numbers, back.values, strict=True))
    )
    assert worst < {"e4m3": 0.13, "e2m1": 0.34}[block.element.name]


def test_mxfp8_equals_torchs_cast_under_the_same_scale():
    draw, block = random.Random(3), BLOCKS["MXFP8"]
    numbers = torch.tensor([draw.gauss(0, 3) for _ in range(64)], dtype=torch.float32)
    found = block.quantise(numbers.double().tolist())
    for i, scale in enumerate(found.scales):
        part = numbers[32 * i : 32 * i + 32]
        right = (part / scale).to(torch.float8_e4m3fn).double() * scale
        assert found.values[32 * i : 32 * i + 32] == right.tolist()
        power = math.log2(scale)
        assert power == int(power)
        assert 256 <= part.abs().max() / scale < 512


def test_bits_per_number_count_the_scale():
    found = {name: block.bits_per_number for name, block in BLOCKS.items()}
    assert found == {"MXFP8": 8.25, "MXFP4": 4.25, "NVFP4": 4.5}
