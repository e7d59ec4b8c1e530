"""What `doctor --calibrate` found out about this machine, kept in the user's cache, as a Cluster
that predicts its runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from ...config import Cluster, ConfigError
from ...files import write_text
from ...i18n import t

SCHEMA = 2
_COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "send")


def calibration_file() -> Path:
    """Where the calibration of this machine is kept: LAB_UTILS_CACHE, else XDG_CACHE_HOME or
    ~/.cache, in lab_utils/."""
    own = os.environ.get("LAB_UTILS_CACHE")
    return (
        Path(own)
        if own
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lab_utils"
    ) / "calibration.json"


def load_calibration(path: Path | None = None) -> Mapping[str, Any] | None:
    """The calibration kept in `path` (default: `calibration_file()`), or None if there is none.
    Raises ConfigError for a file that is none."""
    path = path or calibration_file()
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    except (ValueError, RecursionError):
        found = None
    if not _is_calibration(found):
        raise ConfigError(
            t(
                f"{path} is no calibration of this version: run python -m lab_utils doctor"
                " --calibrate again.",
                f"{path} 不是本版本的校准文件：请重新运行 python -m lab_utils doctor --calibrate。",
            )
        )
    return found


def _is_calibration(found: Any) -> bool:
    """Whether a cluster can be made of it, for every number of ranks that it knows."""
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not found.get("ranks"):
        return False
    try:
        clusters = [
            cluster_of(found, int(n), precision)
            for n in found["ranks"]
            for precision in ("fp32", "bf16")
        ]
        rates = [
            rate
            for c in clusters
            for rate in (
                c.flops_per_second,
                c.attention_efficiency,
                c.hbm_bytes_per_second,
                c.launch_seconds,
                *c.kernel_bytes_per_second.values(),
                *(x for _, share in c.memory_share_by_size for x in (_, share)),
                *(
                    x
                    for table in c.collectives.values()
                    for points in table.values()
                    for point in points
                    for x in point
                ),
            )
        ]
        tables = [table for c in clusters for table in c.collectives.values()]
        curves = [table[op] for table in tables for op in _COLLECTIVES]
        curves += [c.memory_share_by_size for c in clusters]
        complete = all(curves) and all(len(point) == 2 for curve in curves for point in curve)
        return complete and all(isinstance(r, int | float) and isfinite(r) and r > 0 for r in rates)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False


def save_calibration(
    ranks: Mapping[str, Any], machine: Mapping[str, Any], path: Path | None = None
) -> Path:
    """Keep what was measured; returns the file."""
    path = path or calibration_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"schema": SCHEMA, "machine": dict(machine), "ranks": dict(ranks)}
    write_text(path, json.dumps(found, indent=1) + "\n")
    return path


def cluster_of(calibration: Mapping[str, Any], ranks: int = 1, precision: str = "fp32") -> Cluster:
    """This machine as `ranks` ranks see it that compute in `precision` at once.

    Rates are those measured with as many ranks at once as there are cores, or fewer; more ranks
    than cores take turns.
    """
    tables, cores = calibration["ranks"], calibration["machine"]["cores"]
    at_once = max(
        (n for n in map(int, tables) if n <= max(1, min(ranks, cores))),
        default=min(map(int, tables)),
    )
    here = tables[str(at_once)]
    kind = "bf16" if precision.startswith("bf16") and "bf16" in here["products"] else "fp32"
    overhead = here["kernels"]["call_seconds"]
    rate, half = saturation(here["products"][kind])
    fused = here["kernels"]["attention"][kind]
    as_products = sum(flops / rate * (1 + half * (2 / s + 1 / d)) for s, d, flops, _ in fused)
    attention = as_products / sum(seconds for *_, seconds in fused)
    rates, by_size = here["kernels"]["bytes_per_second"], here["kernels"]["by_size"]
    shares = tuple((nbytes, min(1.0, rate / by_size[0][1])) for nbytes, rate in by_size)
    return Cluster(
        name=calibration["machine"]["name"],
        ranks_per_node=2**30,
        memory_bytes=calibration["machine"].get("memory_bytes"),
        flops_per_second=rate,
        matmul_half_size=half,
        attention_efficiency=attention,
        hbm_bytes_per_second=rates["copy"],
        launch_seconds=overhead,
        collectives={
            int(n): {op: tuple(map(tuple, points)) for op, points in table["collectives"].items()}
            for n, table in tables.items()
            if int(n) > 1
        },
        kernel_bytes_per_second=rates,
        memory_share_by_size=shares,
        overlaps=False,
        cores=cores,
        sources={"all": f"measured on this machine, {calibration['machine']['date']}"},
    )


def saturation(products: Iterable[Sequence[float]]) -> tuple[float, float]:
    """(rate R, half size s) of the straight line that seconds per FLOP are in Σ 1/side: (1 +
    s·Σ)/R.

    `products`: (m, k, n, seconds). The line with the least squared relative error; s ≥ 0.
    """
    points = [(1 / m + 1 / k + 1 / n, seconds / (2 * m * k * n)) for m, k, n, seconds in products]
    weights = [1 / y**2 for _, y in points]
    total = sum(weights)
    mean_x, mean_y = (
        sum(w * p[i] for w, p in zip(weights, points, strict=True)) / total for i in (0, 1)
    )
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = (
        max(
            0.0,
            sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
            / spread,
        )
        if spread
        else 0.0
    )
    flat = mean_y - slope * mean_x
    # all of it grows with Σ: the fastest product sets the rate
    if flat <= 0:
        flat = min(y for _, y in points) / 2
    return 1 / flat, slope / flat
