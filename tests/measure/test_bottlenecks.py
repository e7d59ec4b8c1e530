"""What a step is said to be bound by, against where its time was seen to go: kernel by kernel, from
torch's profiler. About 20 s with the calibration.

The wire's turn is in test_calibrate.py. Here runs of one process on one thread. Fused attention and
products whose shortest side is 32 or more are limited by arithmetic (they do 2·32/3/4 > 5 FLOPs for
every byte that they move once); thinner products only stream their weights, and they and everything
else (norms, softmax written out, gradients set to zero, the optimizer) are limited by memory.
"""

from __future__ import annotations

import pytest
from torch.profiler import ProfilerActivity, profile

from lab_utils.config import TrainConfig
from lab_utils.data.loader import Loader
from lab_utils.engines.ours import OurEngine
from lab_utils.estimate.hardware.calibration import cluster_of
from lab_utils.estimate.time.step import step_time
from lab_utils.launch import launch
from lab_utils.parallel.mesh import Mesh

# and which argument is the left factor
PRODUCTS = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}
FUSED = {
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
}
CASES = {
    "large products": (
        "compute",
        dict(preset="small", hidden=512, layers=2, seq=128, vocab=512, global_batch=8),
    ),
    "wide MLPs": (
        "compute",
        dict(
            preset="small",
            hidden=256,
            ffn=2048,
            layers=3,
            seq=128,
            vocab=256,
            global_batch=8,
            optimizer="sgd",
        ),
    ),
    "few tokens, many weights": (
        "memory bandwidth",
        dict(preset="small", hidden=256, layers=4, seq=8, vocab=40_000, global_batch=1),
    ),
    # 67 MB of scores: past every cache. At 34 MB, on the edge of one, the calibration's line
    # between two sizes names memory and arithmetic in turn
    "scores written out": (
        "memory bandwidth",
        dict(
            preset="tiny",
            hidden=64,
            heads=8,
            layers=1,
            seq=512,
            global_batch=8,
            attention="explicit",
        ),
    ),
}


def _kernel_seconds(config: TrainConfig) -> dict[str, float]:
    """Seconds of three steps by what limits the kernel."""
    mesh = Mesh(config.parallel)
    engine, batch = OurEngine(config, mesh), Loader(config, mesh["dp"].rank).batch(0)

    def step() -> None:
        engine.forward_backward(batch)
        engine.update()
        mesh.ledger.clear()

    step()
    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        for _ in range(3):
            step()
    found = {"compute": 0.0, "memory bandwidth": 0.0}
    for row in seen.key_averages(group_by_input_shape=True):
        if row.key.startswith("aten::"):
            found[
                "compute" if _is_arithmetic(row.key, row.input_shapes) else "memory bandwidth"
            ] += row.self_cpu_time_total / 1e6
    return found


def _is_arithmetic(kernel: str, shapes: list[list[int]]) -> bool:
    if kernel not in PRODUCTS:
        return kernel in FUSED
    (m, k), n = shapes[PRODUCTS[kernel]][-2:], shapes[PRODUCTS[kernel] + 1][-1]
    return min(m, k, n) >= 32


@pytest.mark.parametrize("case", CASES)
def test_the_bottleneck_that_is_named_is_where_the_time_goes(case, calibration):
    resource, flags = CASES[case]
    config = TrainConfig.of(**flags)
    measured = launch(_kernel_seconds, 1, config, timeout=120.0, threads=1)[0]
    predicted = step_time(config, cluster_of(calibration, 1))
    share = measured[resource] / sum(measured.values())
    print(
        f"{case}: {share:.0%} of the kernels' time,"
        f" {predicted.savings[resource] / predicted.step:.0%} of the predicted step"
        f" ({predicted.bottleneck})"
    )
    assert share >= 0.6  # what it was built to be, it is
    assert predicted.bottleneck == resource
