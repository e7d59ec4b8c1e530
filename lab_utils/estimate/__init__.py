"""`estimate(config, cluster) → Report`: what a run will cost, before it runs. Never imports torch."""

from __future__ import annotations

from ..config import Cluster, ConfigError, TrainConfig
from ..i18n import t
from ..layout.parameters import parameter_count
from ..report import RankReport, Report
from ..verb import callable_package
from .hardware import this_machine
from .memory import OPTIMIZER_BYTES, model_state_bytes
from .ops import step_flops
from .time import data_parallel_step
from .traffic import step_traffic

__all__ = ["estimate"]


def estimate(config: TrainConfig, cluster: Cluster | None = None) -> Report:
    """Predict one optimizer step of `config` on `cluster` (default: this machine's CPU, bytes and FLOPs only).

    Returns a Report of kind "estimated", in bytes, seconds and FLOPs. Terms that are not estimated yet (saved
    activations, peak) are None. Raises ConfigError for what is not estimated yet, rather than guessing.
    """
    _refuse_what_is_not_estimated(config)
    cluster = cluster or this_machine()
    memory = model_state_bytes(config) | {"activations": None, "peak": None}
    traffic = step_traffic(config)
    time: dict[str, float | None] = {}
    if cluster.flops_per_second is not None:
        step = data_parallel_step(config, cluster)
        time = {"compute": step.compute_seconds, "communication": step.exposed_seconds, "bubble": 0.0, "data": 0.0,
                "step": step.step_seconds, "hidden": step.hidden_seconds}  # fmt: skip
    ranks = tuple(RankReport(r, {"dp": r, "pp": 0, "tp": 0}, memory, traffic, time) for r in range(config.parallel.dp))
    flops = step_flops(config)
    tokens = config.global_batch * config.model.seq
    return Report(
        kind="estimated", device=cluster.name, config=config.to_dict(), parameters=parameter_count(config.model), ranks=ranks, flops=flops,
        tokens_per_second=tokens / time["step"] if time else None,
        mfu=flops["model"] / (time["step"] * cluster.flops_per_second * config.parallel.dp) if time else None,
        notes=(t("MFU is taken against the cluster's achievable FLOP/s, not the data sheet's.",
                 "MFU 以集群可达到的算力为分母，而不是标称峰值。"),) if time else (),
    )  # fmt: skip


def _refuse_what_is_not_estimated(config: TrainConfig) -> None:
    p = config.parallel
    wanted = [f"--tp {p.tp}"] * (p.tp > 1) + [f"--pp {p.pp}"] * (p.pp > 1) + [f"--zero {p.zero}"] * (p.zero > 0)
    wanted += [f"--recompute {config.recompute}"] * (config.recompute != "none")
    wanted += [f"--optimizer {config.optimizer}"] * (config.optimizer not in OPTIMIZER_BYTES)
    wanted += [f"--precision {config.precision}"] * (config.precision not in ("fp32", "bf16"))
    if wanted:
        raise ConfigError(t(f"not estimated yet: {', '.join(wanted)}. Data parallelism (--dp) with fp32 or bf16 and sgd or adamw is.",
                            f"暂不能估算：{'、'.join(wanted)}。目前可以估算数据并行（--dp），精度 fp32 或 bf16，优化器 sgd 或 adamw。"))


callable_package(__name__, estimate)
