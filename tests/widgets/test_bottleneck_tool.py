"""The bottleneck tool without a browser: its dots and bars are the estimator's, its recording lies
under its own roof."""

from __future__ import annotations

import pytest

from lab_utils.config import TrainConfig
from lab_utils.estimate.hardware import cluster
from lab_utils.estimate.ops import block_ledger
from lab_utils.estimate.plan.needs import needed_bytes
from lab_utils.estimate.time import step_time
from lab_utils.widgets.bottlenecks import costs, roof_scene, step_scene
from lab_utils.widgets.bottlenecks.dots import recorded, write
from lab_utils.widgets.frame.controls import start_state


@pytest.fixture(scope="module")
def start(tool_of) -> dict:
    return start_state(tool_of("bottlenecks", "en").controls)


def shown(scene: dict) -> dict[str, dict]:
    return {item["key"]: item for item in scene["items"]}


def test_a_dot_for_every_operation_of_the_ledger(start):
    for model in costs.MODELS:
        state = start | {"model": model, "batch": 8}
        config = TrainConfig.of(model, seq=start["length"], global_batch=8)
        ops = block_ledger(config.model, 8, "bf16", convention="cuda")["blocks.0"]
        items = shown(roof_scene.scene(state, "en"))
        for op, dot in zip(ops, costs.dots_of(state), strict=True):
            assert f"op-{dot.name}" in items
            assert dot.intensity == op.forward_flops / op.forward_hbm_bytes


def test_no_dot_is_above_the_roof_and_larger_batches_only_climb(start):
    gpu = costs.gpu_of(start)
    before: dict[str, float] = {}
    for batch in costs.BATCHES:
        for dot in costs.dots_of(start | {"batch": batch}):
            most = min(gpu.peak_flops_per_second, dot.intensity * gpu.hbm_bytes_per_second)
            assert dot.flops_per_second <= most
            assert dot.intensity >= before.get(dot.name, 0)
            before[dot.name] = dot.intensity


def test_the_bars_are_the_estimators_step(start):
    state = start | {"ranks": 64, "network": "10"}
    config = TrainConfig.of(
        "gpt2", dp=64, global_batch=64, micro_batch=1, precision="bf16", bucket_mib=25
    )
    step = step_time(config, cluster("H100-SXM").replace(network_bytes_per_second=1.25e9))
    items = shown(step_scene.scene(state, "en"))
    length = sum(items[key]["width"] for key in ("compute", "wait", "update"))
    assert items["wait"]["width"] / length == pytest.approx(
        step.communication / step.step, abs=1e-3
    )
    assert step.bottleneck == "network: dp"
    assert items["free-network: dp"]["fill"] == "fire"


def test_a_changed_constant_of_the_hardware_is_seen(start, monkeypatch):
    ridge, batch_1 = costs.ridge(costs.gpu_of(start)), costs.step_of(start).step
    gpu = cluster("H100-SXM")
    assert ridge == pytest.approx(989 / 3.35)
    assert batch_1 == pytest.approx(5.94e-3, rel=0.01)
    slower = gpu.replace(hbm_bytes_per_second=gpu.hbm_bytes_per_second / 2)
    monkeypatch.setattr(costs, "cluster", lambda _: slower)
    assert costs.ridge(costs.gpu_of(start)) == pytest.approx(2 * ridge)
    assert costs._step.__wrapped__(*(start[name] for name in costs.SETTING)).step > 1.3 * batch_1


def test_the_recording_lies_under_its_own_roof_and_rises_with_the_batch(start):
    found = recorded()
    assert tuple(found.layer) == costs.BATCHES
    for batch, (intensity, rate) in found.layer.items():
        assert rate <= min(found.flops_per_second, intensity * found.bytes_per_second)
        assert intensity == pytest.approx(batch / 2, rel=0.05)
    assert found.layer[64][1] > 4 * found.layer[1][1]
    items = shown(roof_scene.scene(start | {"batch": 8}, "en"))
    assert items["core8"]["r"] > items["core16"]["r"]
    # on the same plane, four powers of ten below the GPU's
    assert items["core8"]["cy"] > items["op-attention.output"]["cy"] + 100


def test_precision_moves_bytes_and_memory_says_whether_it_fits(start):
    autocast, pure = (start | {"precision": name, "batch": 8} for name in ("bf16", "bf16-pure"))
    moved = [
        sum(dot.flops_per_second for dot in costs.dots_of(state)) for state in (autocast, pure)
    ]
    assert moved[1] > moved[0]  # nothing is cast on the way
    assert costs.step_of(pure).step < costs.step_of(autocast).step
    large = start | {"model": "llama3-8b", "batch": 1}
    need = costs.bytes_of(large)
    assert need == needed_bytes(
        TrainConfig.of("llama3-8b", seq=1024, global_batch=1, precision="bf16", bucket_mib=25),
        kernels="cuda",
    )
    assert need > costs.free_bytes(cluster("H100-SXM"))  # 16 bytes a parameter and more
    assert "does not fit" in step_scene.scene(large, "en")["alt"]
    assert shown(step_scene.scene(large, "en"))["memory"]["fill"] == "fire"
    assert "fits" in step_scene.scene(start, "en")["alt"]


def test_a_recording_keeps_the_fastest_of_its_rounds(tmp_path, monkeypatch):
    from lab_utils.measure import roofline
    from lab_utils.widgets.bottlenecks import dots

    class Fake:
        rounds = iter(range(1, 100))

        def measure_roof(self, _):
            return roofline.Roof(float(next(self.rounds)), 1.0)

        def layer_dot(self, batch):
            return roofline.Dot(str(batch), batch, 2, 1.0 / next(self.rounds))

    monkeypatch.setattr(dots, "FILE", tmp_path / "dots.json")
    write(Fake())
    dots.recorded.cache_clear()
    assert dots.recorded().flops_per_second == 5
    assert dots.recorded().layer[64] == (32, 64 * 40)
    dots.recorded.cache_clear()
