"""The same run on one GPU. Skipped where there is none; then nothing here has been shown."""

import pytest
import torch

from lab_utils import TrainConfig, compare, estimate, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_one_rank_trains_on_the_gpu_as_on_the_cpu(monkeypatch):
    config = TrainConfig.of("tiny", steps=6)
    on_gpu = train(config)
    assert on_gpu.device == torch.cuda.get_device_name(0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    on_cpu = train(config)
    assert "gloo" in on_cpu.device
    # other kernels, other order of summation
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=1e-4)


def test_bytes_and_flops_on_the_gpu_are_the_estimated_ones():
    config = TrainConfig.of("tiny", steps=4)
    rows = {row.term: row for row in compare(estimate(config), train(config)).rows}
    for term in ("parameters", "gradients", "optimizer", "FLOPs"):
        assert rows[term].error == 0, term


@pytest.mark.parametrize(
    "flags",
    [
        {"zero": 1},
        {"zero": 3},
        {"zero": 2, "offload": True},
        {"recompute": "full"},
        {"recompute": "selective", "attention": "explicit"},
        {"precision": "bf16"},
        {"precision": "bf16-pure"},
        {"precision": "fp16"},
        {"precision": "bf16", "zero": 3},
    ],
    ids=str,
)
def test_strategies_and_precisions_on_the_gpu(flags, monkeypatch):
    config = TrainConfig.of("tiny", steps=6, micro_batch=6, **flags)
    on_gpu = train(config)
    for term in ("parameters", "gradients", "optimizer", "offloaded"):
        assert on_gpu.ranks[0].memory.get(term, 0) == estimate(config).ranks[0].memory[term], term
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    on_cpu = train(config.replace(precision="fp32"))
    assert on_gpu.loss == pytest.approx(
        on_cpu.loss, rel=1e-4 if config.precision == "fp32" else 2e-2
    )
