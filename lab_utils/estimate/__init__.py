"""`estimate(config, cluster) → Report`: what a run will cost, before it runs. Never imports torch."""

from __future__ import annotations

from itertools import product

from ..config import Cluster, ConfigError, TrainConfig
from ..i18n import t
from ..layout.parameters import parameter_count
from ..layout.refusals import refuse_layout
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
    activations, peak; times of other layouts than data parallelism) are None. Raises ConfigError for a layout that makes
    no sense, and for what is not estimated yet, rather than guessing.
    """
    refuse_layout(config)
    _refuse_what_is_not_estimated(config)
    cluster = cluster or this_machine()
    time = _step_time(config, cluster)
    flops = step_flops(config)
    tokens = config.global_batch * config.model.seq
    return Report(
        kind="estimated", device=cluster.name, config=config.to_dict(), parameters=parameter_count(config.model), ranks=_ranks(config, time), flops=flops,
        tokens_per_second=tokens / time["step"] if time else None,
        mfu=flops["model"] / (time["step"] * cluster.flops_per_second * config.parallel.world_size) if time else None,
        notes=(t("MFU is taken against the cluster's achievable FLOP/s, not the data sheet's.",
                 "MFU 以集群可达到的算力为分母，而不是标称峰值。"),) if time else (),
    )  # fmt: skip


def _ranks(config: TrainConfig, time: dict[str, float | None]) -> tuple[RankReport, ...]:
    p = config.parallel
    grid = list(product(range(p.dp), range(p.pp), range(p.tp)))
    memory = {(pp, tp): model_state_bytes(config, pp, tp) | {"activations": None, "peak": None} for d, pp, tp in grid if d == 0}
    own_pieces = p.zero > 0 and p.sequence_parallel         # only then do dp ranks differ
    traffic = {(d, pp, tp): step_traffic(config, d, pp, tp) for d, pp, tp in grid if d == 0 or own_pieces}
    return tuple(
        RankReport(rank, {"dp": d, "pp": pp, "tp": tp}, memory[pp, tp], traffic[d if own_pieces else 0, pp, tp], time)
        for rank, (d, pp, tp) in enumerate(grid)
    )


def _step_time(config: TrainConfig, cluster: Cluster) -> dict[str, float | None]:
    p = config.parallel
    if cluster.flops_per_second is None or p.world_size > p.dp or p.zero:
        return {}
    step = data_parallel_step(config, cluster)
    return {"compute": step.compute_seconds, "communication": step.exposed_seconds, "bubble": 0.0, "data": 0.0,
            "step": step.step_seconds, "hidden": step.hidden_seconds}  # fmt: skip


def _refuse_what_is_not_estimated(config: TrainConfig) -> None:
    if config.optimizer not in OPTIMIZER_BYTES:
        known = ", ".join(OPTIMIZER_BYTES)
        raise ConfigError(t(f"--optimizer {config.optimizer} is not estimated yet; choose {known}.",
                            f"暂不能估算 --optimizer {config.optimizer}，可选：{known}。"))


callable_package(__name__, estimate)
