"""The named shapes have the number of parameters that their authors published."""

from __future__ import annotations

import pytest

from lab_utils.config import TrainConfig
from lab_utils.layout.parameters import parameter_count
from lab_utils.presets import PRESETS

# Llama: computed exactly from the configurations released with the models (Grattafiori et al. 2024 round them to 8B, 70B,
# 405B). GPT-2: the released checkpoints' tensors (Radford et al. 2019 round to 117M and 1,542M).
PUBLISHED = {
    "llama3-8b": 8_030_261_248, "llama3-70b": 70_553_706_496, "llama3.1-405b": 405_853_388_800, "gpt2": 124_439_808, "gpt2-xl": 1_557_611_200,
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_as_published(name):
    assert parameter_count(TrainConfig.of(name).model) == PUBLISHED[name]


def test_gpt3_has_175_billion():
    assert round(parameter_count(TrainConfig.of("gpt3-175b").model) / 1e9) == 175


def test_a_preset_is_not_changed_by_who_uses_it():
    before = dict(PRESETS["tiny"])
    TrainConfig.of("tiny", layers=7)
    assert PRESETS["tiny"] == before
