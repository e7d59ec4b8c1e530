"""Named hardware. Every number carries its kind and its source; none was measured on a machine of ours unless it says so.

Sources: [ml-eng] the Machine Learning Engineering open book by Stas Bekman (accelerator tables; its "maximum achievable
matmul FLOPS" measurements); [dgx] NVIDIA's DGX A100 and DGX H100 data sheets (InfiniBand ports per node).
"""

from __future__ import annotations

from ..config import Cluster, ConfigError
from ..i18n import t

_LATENCY = "assumption: 5 µs per message inside a node, 15 µs between nodes"


def _gpu(name: str, memory_gb: float, matmul_tflops: float, matmul_source: str, hbm_tb: float, link_gb: float, network_gb: float | None) -> Cluster:
    sources = {
        "memory_bytes": "specification [ml-eng]", "flops_per_second": f"{matmul_source}, bf16, dense", "hbm_bytes_per_second": "specification [ml-eng]",
        "link_bytes_per_second": "specification, one way [ml-eng]", "network_bytes_per_second": "specification, per GPU [dgx]", "latency": _LATENCY,
    }  # fmt: skip
    return Cluster(
        name=name, memory_bytes=memory_gb * 1e9, flops_per_second=matmul_tflops * 1e12, hbm_bytes_per_second=hbm_tb * 1e12,
        link_bytes_per_second=link_gb * 1e9, link_latency_seconds=5e-6,
        network_bytes_per_second=None if network_gb is None else network_gb * 1e9, network_latency_seconds=15e-6, sources=sources,
    )  # fmt: skip


_ACHIEVED, _SHEET = "measured by others, maximum achievable [ml-eng]", "specification, not achieved [ml-eng]"
HARDWARE: dict[str, Cluster] = {
    c.name: c
    for c in (
        _gpu("A100-80", 80, 271.2, _ACHIEVED, 2.0, 300, 25),
        _gpu("H100-SXM", 80, 794.5, _ACHIEVED, 3.35, 450, 50),
        _gpu("H200", 141, 989, _SHEET, 4.8, 450, 50),
        _gpu("B200", 180, 1745, _ACHIEVED, 8.0, 900, 50),
    )
}


def cluster(name: str, gpus_per_node: int = 8) -> Cluster:
    """A named GPU, `gpus_per_node` to a node. Raises ConfigError with the known names."""
    if name not in HARDWARE:
        raise ConfigError(t(f"there is no GPU {name!r} in the table; known: {', '.join(HARDWARE)}.",
                            f"表中没有名为 {name!r} 的 GPU，可选：{'、'.join(HARDWARE)}。"))
    return HARDWARE[name].replace(ranks_per_node=gpus_per_node)


def this_machine() -> Cluster:
    """The CPU that this runs on: bytes are estimated, times are not, because its speed is not known without measuring."""
    return Cluster(name="cpu", ranks_per_node=2**30)
