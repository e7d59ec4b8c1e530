"""Named hardware. Every number carries its kind and its source; none was measured on a machine of
ours unless it says so.

Sources: [ml-eng] the Machine Learning Engineering open book by Stas Bekman (accelerator tables; its
"maximum achievable matmul FLOPS" measurements, commit 744d01e); [dgx] NVIDIA's DGX A100 and DGX
H100 data sheets (InfiniBand ports per node); [viewer] LLM-Viewer's hardware table; [scaling] How to
Scale Your Model (Google DeepMind), TPU chapter; [sheet] the vendor's data sheet of that part;
[pcie] the PCI Express specification, x16, one way.
"""

from __future__ import annotations

from typing import NamedTuple

from ...config import Cluster, ConfigError
from ...i18n import t
from .calibration import cluster_of, load_calibration
from .fitted import SC21
from .fitted import SOURCE as FITTED_SOURCE

_LATENCY = "assumption: 5 µs per message inside a node, 15 µs between nodes, 4 µs per kernel"
_HOST_MEMORY = 25e9  # assumption: 200 GB/s of a server shared by eight GPUs
# of the data sheet, where nobody measured: A100, H100 and B200 reach 87, 80 and 78 % [ml-eng]
_ASSUMED = 0.8


class _Row(NamedTuple):
    """GB, TB/s, dense bf16 TFLOP/s (fp16 where there is no bf16), what of them was measured, GB/s
    one way, and sources."""

    memory_gb: float
    hbm_tb: float
    sheet_tflops: float
    achieved_tflops: float | None
    link_gb: float
    network_gb: float | None
    host_link_gb: float | None
    source: str
    achieved: str = "measured by others, maximum achievable [ml-eng]"


_ROWS = {
    "V100-32": _Row(
        32,
        0.9,
        125,
        None,
        150,
        12.5,
        16,
        "specification, fp16 [sheet]; network: 8 GPUs share 100 GB/s of a DGX-2's ports",
    ),
    "A100-40": _Row(40, 1.555, 312, None, 300, 25, 32, "specification [viewer]"),
    "A100-80": _Row(80, 2.0, 312, 271.2, 300, 25, 32, "specification [ml-eng]"),
    "H100-SXM": _Row(80, 3.35, 989, 794.5, 450, 50, 64, "specification [ml-eng]"),
    "H200": _Row(
        141,
        4.8,
        989,
        783,
        450,
        50,
        64,
        "specification [ml-eng]",
        "measured on one H200: 8,192³ bf16 products, 769 to 798 TFLOP/s",
    ),
    "B200": _Row(180, 8.0, 2250, 1745, 900, 50, 64, "specification [ml-eng]"),
    "GB200": _Row(
        186,
        8.0,
        2500,
        1822,
        900,
        50,
        None,
        "specification [ml-eng]; 72 GPUs are one NVLink domain: gpus-per-node 72",
    ),
    "MI300X": _Row(
        192,
        5.3,
        1300,
        668.4,
        448,
        50,
        64,
        "specification [ml-eng]; 448 GB/s to seven peers together, 64 to one",
    ),
    "TPUv5e": _Row(16, 0.81, 197, None, 45, None, None, "specification, per link [scaling]"),
    "TPUv5p": _Row(95, 2.76, 459, None, 90, None, None, "specification, per link [scaling]"),
    "L4": _Row(
        24, 0.30, 121, None, 32, None, 32, "specification [sheet]; between GPUs PCIe 4.0 [pcie]"
    ),
    "T4": _Row(
        16,
        0.32,
        65,
        None,
        16,
        None,
        16,
        "specification, fp16 [sheet]; between GPUs PCIe 3.0 [pcie]",
    ),
    "RTX4090": _Row(
        24, 1.008, 165, None, 32, None, 32, "specification [sheet]; between GPUs PCIe 4.0 [pcie]"
    ),
}


def _gpu(name: str, row: _Row) -> Cluster:
    rate = row.achieved_tflops or _ASSUMED * row.sheet_tflops
    achieved = (
        row.achieved
        if row.achieved_tflops
        else (
            f"assumption: {_ASSUMED:.0%} of the data sheet, which A100, H100 and B200 reach"
            " [ml-eng]"
        )
    )
    network = (
        "specification, per GPU [dgx]"
        if name in ("A100-40", "A100-80", "H100-SXM")
        else "assumption: as a DGX H100's, 400 Gb/s a GPU"
    )
    sources = {
        "memory_bytes": row.source,
        "flops_per_second": f"{achieved}, dense",
        "peak_flops_per_second": f"{row.source}, dense",
        "hbm_bytes_per_second": row.source,
        "link_bytes_per_second": f"one way, {row.source}",
        "network_bytes_per_second": network if row.network_gb else "not known: one node only",
        "host_link_bytes_per_second": "specification [pcie]",
        "latency": _LATENCY,
        "host_memory_bytes_per_second": "assumption: 200 GB/s of a server shared by eight GPUs",
        "efficiencies": FITTED_SOURCE,
        "kernels": "rules of torch 2.13's CUDA kernels, not measured on a GPU; taken for ROCm and"
        " XLA too",
    }
    return Cluster(
        name=name,
        memory_bytes=row.memory_gb * 1e9,
        flops_per_second=rate * 1e12,
        peak_flops_per_second=row.sheet_tflops * 1e12,
        hbm_bytes_per_second=row.hbm_tb * 1e12,
        launch_seconds=4e-6,
        link_bytes_per_second=row.link_gb * 1e9,
        link_latency_seconds=5e-6,
        network_bytes_per_second=None if row.network_gb is None else row.network_gb * 1e9,
        network_latency_seconds=15e-6,
        host_link_bytes_per_second=None if row.host_link_gb is None else row.host_link_gb * 1e9,
        host_memory_bytes_per_second=_HOST_MEMORY,
        kernels="cuda",
        sources=sources,
        **SC21.fields(),
    )


HARDWARE: dict[str, Cluster] = {name: _gpu(name, row) for name, row in _ROWS.items()}


def cluster(name: str, gpus_per_node: int = 8) -> Cluster:
    """A named GPU, `gpus_per_node` to a node. Raises ConfigError with the known names."""
    if name not in HARDWARE:
        raise ConfigError(
            t(
                f"there is no GPU {name!r} in the table; known: {', '.join(HARDWARE)}.",
                f"表中没有名为 {name!r} 的 GPU，可选：{'、'.join(HARDWARE)}。",
            )
        )
    return HARDWARE[name].replace(ranks_per_node=gpus_per_node)


def this_machine(ranks: int = 1, precision: str = "fp32") -> Cluster:
    """The CPU that this runs on, as `ranks` ranks see it: with the speeds that `doctor --calibrate`
    measured, if it was run.

    Without, bytes are estimated and times are not. Raises ConfigError for a calibration that cannot
    be read.
    """
    found = load_calibration()
    return (
        cluster_of(found, ranks, precision) if found else Cluster(name="cpu", ranks_per_node=2**30)
    )
