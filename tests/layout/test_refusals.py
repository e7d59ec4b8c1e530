"""What the engine does not carry out is refused before a process starts, with what does work."""

from __future__ import annotations

import pytest

from lab_utils import TrainConfig, i18n, train
from lab_utils.config import ConfigError
from lab_utils.layout.refusals import refuse_what_cannot_run


@pytest.mark.parametrize(("flags", "named"), [
    ({"tp": 2}, "--tp 2"), ({"pp": 2}, "--pp 2"), ({"zero": 1, "dp": 2}, "--zero 1"), ({"precision": "bf16"}, "--precision bf16"),
    ({"recompute": "full"}, "--recompute full"), ({"optimizer": "lion"}, "--optimizer lion"), ({"sequence_parallel": True}, "--sequence-parallel"),
    ({"virtual_stages": 2}, "--virtual-stages 2"),
])  # fmt: skip
def test_layouts_and_formats(flags, named, monkeypatch):
    for lang, works in (("en", "what runs"), ("zh", "目前可以运行")):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(ConfigError) as refusal:
            train(TrainConfig.of("tiny", **flags))
        assert named in str(refusal.value)
        assert works in str(refusal.value)
        assert "--precision fp32" in str(refusal.value).partition(works)[2]


def test_torch_has_no_naive_way():
    with pytest.raises(ConfigError, match="always sends buckets"):
        train(TrainConfig.of("tiny", dp=2, gradient_sync="naive"), engine="torch")


def test_engines():
    refuse_what_cannot_run(TrainConfig.of("tiny", dp=4), "torch")
    with pytest.raises(ConfigError, match="choose ours, torch"):
        train(TrainConfig.of("tiny"), engine="megatron")
