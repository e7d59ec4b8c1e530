"""`estimate(config, cluster) → Report`: what a run will cost, before it runs. Never imports
torch."""

from __future__ import annotations

from itertools import product

from ..config import Cluster, TrainConfig
from ..i18n import t
from ..layout.parameters import parameter_count
from ..layout.refusals import refuse_layout
from ..report import RankReport, Report
from ..verb import callable_package
from .fit import does_not_fit_gpu
from .hardware.table import this_machine
from .limits import refuse_beyond
from .memory.fast.standing import alike
from .memory.terms import memory_of_rank
from .ops import step_flops
from .program.conventions import CONVENTIONS
from .program.share import alike_in_ring
from .time.step import peak_flops_per_second, rates_are_known, step_time
from .traffic import traffic_of_dp_ranks
from .update import differs_by_data_rank

__all__ = ["estimate"]


def estimate(config: TrainConfig, cluster: Cluster | None = None) -> Report:
    """Predict one optimizer step of `config` on `cluster` (default: this machine's CPU, with times
    once `doctor --calibrate` has measured it).

    Bytes follow the kernels of that machine, CPU or CUDA; the report's `basis` says which.
    Returns a Report of kind "estimated", in bytes, seconds and FLOPs. Raises ConfigError for a
    layout that makes no sense, or for more ranks than a report lists.
    """
    refuse_layout(config)
    refuse_beyond(config)
    cluster = cluster or this_machine(config.parallel.world_size, config.precision)
    time = _step_time(config, cluster)
    flops = step_flops(config)
    tokens = config.global_batch * config.model.seq
    ranks = _ranks(config, time, cluster.kernels)
    return Report(
        kind="estimated",
        device=cluster.name,
        config=config.to_dict(),
        parameters=parameter_count(config.model),
        ranks=ranks,
        basis=CONVENTIONS[cluster.kernels].basis,
        flops=flops,
        tokens_per_second=tokens / time["step"] if time else None,
        mfu=(
            flops["model"]
            / (time["step"] * peak_flops_per_second(cluster) * config.parallel.world_size)
            if time
            else None
        ),
        notes=_notes(config, cluster, ranks, bool(time)),
    )


def _notes(
    config: TrainConfig, cluster: Cluster, ranks: tuple[RankReport, ...], timed: bool
) -> tuple[str, ...]:
    """What MFU is taken against, and whether the run fits into the cluster's GPUs."""
    fullest = max(rank.memory["peak"] for rank in ranks)
    shortage = does_not_fit_gpu(config, cluster, fullest) if cluster.kernels != "cpu" else None
    return tuple(note for note in (_mfu_note(cluster) if timed else None, shortage) if note)


def _ranks(
    config: TrainConfig, time: dict[str, float | None], kernels: str
) -> tuple[RankReport, ...]:
    """All ranks; what equal ranks have in common they share."""
    p = config.parallel
    # Muon's owners differ: each works on other matrices
    by_rank = differs_by_data_rank(config)
    own = config.optimizer == "muon"
    like = [tp if own else alike(config, tp) for tp in range(p.tp)]
    ring = [alike_in_ring(config, cp) for cp in range(p.cp)]
    different = list(product(range(p.pp), sorted(set(like))))
    memory = {
        (*place, cp, data): memory_of_rank(config, *place, kernels, cp, data)
        for place, cp in product(different, sorted(set(ring)))
        for data in (range(p.replicas) if by_rank else (0,))
    }
    traffic = {place: traffic_of_dp_ranks(config, *place) for place in different}
    return tuple(
        RankReport(
            rank,
            {"dp": d, "pp": pp, "cp": cp, "tp": tp},
            memory[pp, like[tp], ring[cp], (d * p.cp + cp) * by_rank],
            traffic[pp, like[tp]][d * p.cp + cp],
            time,
        )
        for rank, (d, pp, cp, tp) in enumerate(
            product(range(p.dp), range(p.pp), range(p.cp), range(p.tp))
        )
    )


def _step_time(config: TrainConfig, cluster: Cluster) -> dict[str, float | None]:
    if not rates_are_known(config, cluster):
        return {}
    step = step_time(config, cluster)
    return {
        "compute": step.compute + step.optimizer,
        "communication": step.communication,
        "bubble": step.bubble,
        "data": 0.0,
        "step": step.step,
        "hidden": step.hidden,
    }


def _mfu_note(cluster: Cluster) -> str:
    if cluster.peak_flops_per_second:
        return t(
            "MFU is taken against the data sheet's bf16 peak.", "MFU 以标称的 bf16 峰值算力为分母。"
        )
    return t(
        "MFU is taken against the FLOP/s that large products reach here.",
        "MFU 以本机大矩阵乘达到的算力为分母。",
    )


callable_package(__name__, estimate)
