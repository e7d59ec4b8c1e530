"""The named shapes have the number of parameters that their authors published."""

from __future__ import annotations

import pytest

from lab_utils.config import TrainConfig
from lab_utils.config.presets import PRESETS
from lab_utils.layout.parameters import parameter_count

# Llama: computed exactly from the configurations released with the models (Grattafiori et al. 2024
# round them to 8B, 70B, 405B). GPT-2: the released checkpoints' tensors (Radford et al. 2019 round
# to 117M and 1,542M).
PUBLISHED = {
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_as_published(name):
    assert parameter_count(TrainConfig.of(name).model) == PUBLISHED[name]


def test_gpt3_has_175_billion():
    assert round(parameter_count(TrainConfig.of("gpt3-175b").model) / 1e9) == 175


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("megatron-")])
def test_megatron_shapes_have_the_size_of_their_name(name):
    """Narayanan et al. 2021, table 1, prints billions with two digits."""
    size = name.removeprefix("megatron-")
    assert parameter_count(TrainConfig.of(name).model) == pytest.approx(
        float(size[:-1]) * (1e12 if size.endswith("t") else 1e9), rel=0.04
    )


def test_a_preset_is_not_changed_by_who_uses_it():
    before = dict(PRESETS["tiny"])
    TrainConfig.of("tiny", layers=7)
    assert PRESETS["tiny"] == before
