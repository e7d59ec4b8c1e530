"""The same run on one GPU. Skipped where there is none; then nothing here has been shown."""

import pytest
import torch

from lab_utils import TrainConfig, compare, estimate, train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def test_one_rank_trains_on_the_gpu_as_on_the_cpu(monkeypatch):
    config = TrainConfig.of("tiny", steps=6)
    on_gpu = train(config)
    assert on_gpu.device == torch.cuda.get_device_name(0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    on_cpu = train(config)
    assert "gloo" in on_cpu.device
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=1e-4)      # other kernels, other order of summation


def test_bytes_and_flops_on_the_gpu_are_the_estimated_ones():
    config = TrainConfig.of("tiny", steps=4)
    rows = {row.term: row for row in compare(estimate(config), train(config)).rows}
    for term in ("parameters", "gradients", "optimizer", "FLOPs"):
        assert rows[term].error == 0, term
