"""Predicted against measured seconds of a step on this machine, layout by layout: `python
tests/measured/step_times.py [--wall]`.

Uses the calibration that `doctor --calibrate` keeps, runs every layout for real and writes
step_times.json beside this file. Two things are measured. *Busy*: seconds of processor time in
which a rank computes, on one thread, against the predicted compute and update; other programs do
not disturb it. *Wall* (with --wall): the whole step through `train`, against the whole prediction;
it means something only on a machine that does nothing else, so the file says which share of all
cores other programs used in the two seconds before ("others_busy"), and the load averages, which
still hold the calibration.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from lab_utils import Cluster, TrainConfig, train
from lab_utils.estimate.hardware.calibration import cluster_of, load_calibration
from lab_utils.estimate.time.step import step_time
from lab_utils.launch import launch

HERE = Path(__file__).parent
_TINY, _SMALL = dict(preset="tiny", global_batch=24), dict(preset="small", global_batch=8)
LAYOUTS: list[dict[str, Any]] = [
    _SMALL,
    _SMALL | dict(precision="bf16"),
    _SMALL | dict(micro_batch=2),
    _SMALL | dict(recompute="full"),
    _SMALL | dict(recompute="selective"),
    _SMALL | dict(attention="explicit"),
    _SMALL | dict(dp=2),
    _SMALL | dict(dp=2, micro_batch=2),
    _SMALL | dict(dp=2, precision="bf16"),
    _SMALL | dict(dp=2, gradient_sync="naive"),
    _SMALL | dict(dp=2, zero=1),
    _SMALL | dict(dp=2, zero=2),
    _SMALL | dict(dp=2, zero=3),
    _SMALL | dict(tp=2),
    _SMALL | dict(tp=2, sequence_parallel=True),
    _SMALL | dict(tp=2, recompute="full"),
    _SMALL | dict(pp=2, micro_batch=2),
    _SMALL | dict(pp=2, micro_batch=2, schedule="gpipe"),
    _SMALL | dict(pp=2, micro_batch=2, schedule="interleaved", virtual_stages=3),
    _SMALL | dict(dp=2, tp=2),
    _SMALL | dict(dp=4),
    _SMALL | dict(pp=4, micro_batch=2),
    _TINY,
    _TINY | dict(dp=2),
    _TINY | dict(tp=2),
    _TINY | dict(global_batch=4),
    _SMALL | dict(hidden=512, layers=3),
    _SMALL | dict(norm="rmsnorm", activation="swiglu", positions="rope"),
    _SMALL | dict(optimizer="sgd", dp=2),
    _SMALL | dict(seq=256, global_batch=4),
]


def busy_seconds(config: TrainConfig) -> float:
    """Processor seconds of the fastest of four steps, of the rank with most to do."""
    return max(launch(_busy_on_rank, config.parallel.world_size, config, timeout=120.0, threads=1))


def _busy_on_rank(config: TrainConfig) -> float:
    from lab_utils.data.loader import Loader
    from lab_utils.engines.ours import OurEngine
    from lab_utils.parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    engine, batch, times = OurEngine(config, mesh), Loader(config, mesh["dp"].rank).batch(0), []
    for _ in range(5):
        began = time.thread_time()  # not the threads that carry messages
        engine.forward_backward(batch)
        engine.update()
        times.append(time.thread_time() - began)
        mesh.ledger.clear()
    return min(times[1:])


def one_thread(calibration: Mapping[str, Any], config: TrainConfig) -> Cluster:
    """What one thread computes where every rank has a core of its own; messages are not looked
    at."""
    tables = {n: table for n, table in calibration["ranks"].items() if table["threads"] == 1}
    machine = cluster_of(
        {**calibration, "ranks": tables}, config.parallel.world_size, config.precision
    )
    return machine.replace(
        cores=config.parallel.world_size, collectives={}, link_bytes_per_second=1e30
    )


def wall_seconds(config: TrainConfig) -> float:
    """Seconds of the median step, the slowest rank's; of two runs the faster."""
    return min(max(rank.time["step"] for rank in train(config).ranks) for _ in range(2))


def main(wall: bool = False, path: Path = HERE / "step_times.json") -> dict[str, Any]:
    """Measure all layouts, and write the file."""
    calibration = load_calibration()
    if calibration is None:
        sys.exit("calibrate first: python -m lab_utils doctor --calibrate")
    others, before, rows = psutil.cpu_percent(interval=2.0) / 100, os.getloadavg(), []
    for flags in LAYOUTS:
        config = TrainConfig.of(**flags, steps=8)
        alone = step_time(config, one_thread(calibration, config))
        row = {
            "flags": flags,
            "predicted_busy": alone.compute + alone.optimizer,
            "measured_busy": busy_seconds(config),
        }
        row["error_busy"] = row["predicted_busy"] / row["measured_busy"] - 1
        if wall:
            whole = step_time(
                config, cluster_of(calibration, config.parallel.world_size, config.precision)
            )
            row |= {
                "predicted": whole.step,
                "measured": wall_seconds(config),
                "bottleneck": whole.bottleneck,
            }
            row["error"] = row["predicted"] / row["measured"] - 1
        rows.append(row)
        print(
            ", ".join(
                f"{name} {value:.4f}" if isinstance(value, float) else f"{value}"
                for name, value in row.items()
            ),
            flush=True,
        )
        found = {
            "machine": calibration["machine"],
            "others_busy": others,
            "load_before": before,
            "load_after": os.getloadavg(),
            "rows": rows,
            "median_error_busy": median(abs(row["error_busy"]) for row in rows),
        }
        if wall:
            found["median_error"] = median(abs(row["error"]) for row in rows)
        # what there is, should the next one fail
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print({name: value for name, value in found.items() if name != "rows"})
    return found


if __name__ == "__main__":
    main(wall="--wall" in sys.argv)
