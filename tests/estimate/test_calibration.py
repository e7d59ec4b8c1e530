"""What a calibration file becomes: a Cluster whose rates are the ones that were put in."""

from __future__ import annotations

import json
import os

import pytest

from lab_utils.config import ConfigError, TrainConfig
from lab_utils.estimate import estimate
from lab_utils.estimate.hardware import this_machine
from lab_utils.estimate.hardware.calibration import (
    calibration_file,
    cluster_of,
    load_calibration,
    saturation,
    save_calibration,
)
from lab_utils.estimate.time.roofline import share_of_rate
from lab_utils.estimate.time.step import step_time

SHAPES = [(64, 64, 64), (1024, 64, 256), (1024, 256, 1024), (2048, 512, 512)]


def products(rate: float, half: float, overhead: float) -> list[list[float]]:
    return [
        [m, k, n, overhead + 2 * m * k * n / rate * (1 + half * (1 / m + 1 / k + 1 / n))]
        for m, k, n in SHAPES
    ]


def table(ranks: int, rate: float) -> dict:
    rates = dict.fromkeys(
        ("norm", "activation", "add", "softmax", "loss", "embedding", "cast", "copy", "optimizer"),
        1e10,
    )
    fused = {kind: [[64, 16, 10**9, 10**9 / (rate / 4)]] for kind in ("fp32", "bf16")}
    kernels = {
        "bytes_per_second": rates,
        "by_size": [[2**20, 1e10], [2**26, 2e9]],
        "call_seconds": 5e-6,
        "attention": fused,
    }
    wires = {
        op: [[64, 1e-4], [65536, 2e-4]]
        for op in ("all_reduce", "reduce_scatter", "all_gather", "send")
    }
    measured = {"fp32": products(rate, 30, 0.0), "bf16": products(3 * rate, 90, 0.0)}
    return {
        "ranks": ranks,
        "threads": max(1, 2 // ranks),
        "products": measured,
        "kernels": kernels,
        "collectives": wires if ranks > 1 else {},
    }


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_UTILS_CACHE", str(tmp_path / "new"))
    machine = {"name": "cpu, 2 cores", "cores": 2, "date": "2026-11-21"}
    return save_calibration(
        {"1": table(1, 2e11), "2": table(2, 1e11), "4": table(4, 5e10)}, machine
    )


def test_the_line_through_the_products_gives_rate_and_half_size_back():
    rate, half = saturation(products(1e11, 40, 0.0))
    assert rate == pytest.approx(1e11, rel=1e-6)
    assert half == pytest.approx(40, rel=1e-6)


def test_products_that_are_no_line_still_give_a_rate():
    rate, half = saturation([[64, 64, 64, 1e-3], [1024, 1024, 1024, 1e-3]])
    assert rate > 0
    assert half >= 0


def test_a_calibration_is_kept_and_found(kept):
    assert kept == calibration_file()
    found = load_calibration()
    machine = cluster_of(found, 2)
    assert machine.flops_per_second == pytest.approx(1e11, rel=1e-6)
    assert machine.matmul_half_size == pytest.approx(30, rel=1e-6)
    assert cluster_of(found, 1).flops_per_second == pytest.approx(2e11, rel=1e-6)
    assert cluster_of(found, 2, "bf16").flops_per_second == pytest.approx(3e11, rel=1e-6)
    # two of them compute at once, the others wait
    assert cluster_of(found, 8).flops_per_second == pytest.approx(1e11, rel=1e-6)
    assert machine.collectives[2]["all_reduce"] == ((64, 1e-4), (65536, 2e-4))
    assert "2026-11-21" in machine.sources["all"]


def test_estimate_predicts_this_machines_times_once_it_is_calibrated(kept):
    config = TrainConfig.of("tiny", dp=2)
    report = estimate(config)
    assert report.ranks[0].time["step"] > 0
    assert report.ranks[0].time["communication"] > 0
    assert report.ranks[0].time["hidden"] == 0  # two cores hide nothing
    kept.unlink()
    assert not estimate(config).ranks[0].time


def test_a_file_that_is_no_calibration_is_said_to_be_none(kept):
    for text in ("no json", json.dumps({"schema": 99}), "[]"):
        kept.write_text(text)
        with pytest.raises(ConfigError, match="calibrate again"):
            this_machine()


def test_a_damaged_calibration_is_said_to_be_one_and_a_pipe_is_none(kept):
    good = json.loads(kept.read_text())

    def damage(value, way):
        """Every value of the file gone or replaced, one after the other."""
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            before = value[key]
            for wrong in (None, "word", [], -1.0):
                value[key] = wrong
                yield (*way, key, wrong)
            value[key] = before
            if isinstance(before, dict | list):
                yield from damage(before, (*way, key))

    for way in damage(good, ()):
        kept.write_text(json.dumps(good))
        try:
            machine = this_machine(2)
            step_time(TrainConfig.of("tiny", dp=2), machine)
        except ConfigError:
            continue
        assert "machine" in way or "ranks" in way, way
    kept.unlink()
    os.mkfifo(kept)
    assert load_calibration() is None


def test_large_tensors_are_slower_by_what_was_measured(kept):
    machine = cluster_of(load_calibration(kept), 1)
    assert [
        share_of_rate(machine, nbytes) for nbytes in (0, 2**20, 2**23, 2**26, 2**30)
    ] == pytest.approx([1, 1, 0.6, 0.2, 0.2])
    for seq, share in ((64, 1.0), (2048, 0.6)):
        config = TrainConfig.of("tiny", seq=seq, attention="explicit", global_batch=1)
        free = step_time(config, machine.replace(memory_share_by_size=())).step
        left = free / step_time(config, machine).step
        assert left == pytest.approx(1.0, rel=0.02) if share == 1.0 else left < share
