"""Whether a run fits into the memory of a GPU or of this machine, and the smallest change with
which it would."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

from ..config import Cluster, ConfigError, ModelConfig, TrainConfig, flag_fields
from ..config.presets import PRESETS
from ..i18n import t
from ..layout.parameters import parameter_count
from ..layout.refusals import refuse_what_cannot_run
from ..machine import RANK_BYTES
from ..sizes import size
from .memory.fast.standing import alike
from .memory.terms import memory_of_rank
from .program.share import alike_in_ring

# assumption: CUDA context, NCCL's buffers and what the allocator cannot use
RESERVED_BYTES = 4e9


def rank_peaks(config: TrainConfig, kernels: str) -> dict[tuple[int, int], int]:
    """The most bytes that a rank has alive at once, by (pp, tp); ranks along dp are alike, and
    of those along cp the one counts that needs most."""
    p = config.parallel
    places = {(pp, alike(config, tp)) for pp, tp in product(range(p.pp), range(p.tp))}
    ring = {alike_in_ring(config, cp) for cp in range(p.cp)}
    peaks = {
        place: max(memory_of_rank(config, *place, kernels, cp)["peak"] for cp in ring)
        for place in places
    }
    return {(pp, tp): peaks[pp, alike(config, tp)] for pp, tp in product(range(p.pp), range(p.tp))}


def bytes_of_ranks(config: TrainConfig, ranks: Iterable[int] | None = None) -> int:
    """What these ranks (default: all) take together on one machine's CPU."""
    p, peaks = config.parallel, rank_peaks(config, "cpu")
    if ranks is None:
        return p.replicas * sum(peaks.values()) + p.world_size * RANK_BYTES
    return sum(peaks[r // (p.tp * p.cp) % p.pp, r % p.tp] + RANK_BYTES for r in ranks)


def does_not_fit_gpu(config: TrainConfig, cluster: Cluster, peak: int | None = None) -> str | None:
    """The sentence that says so, if the fullest rank (`peak` bytes, if that is known) needs more
    than a GPU of the cluster can give."""
    if cluster.memory_bytes is None:
        return None
    peak = peak or max(rank_peaks(config, cluster.kernels).values())
    if peak <= cluster.memory_bytes - RESERVED_BYTES:
        return None
    have = (size(cluster.memory_bytes), size(RESERVED_BYTES))
    return t(
        f"does not fit: the fullest rank peaks at {size(peak)}, and one {cluster.name} has"
        f" {have[0]}, of which {have[1]} are left to its context, NCCL and the allocator.",
        f"放不下：占用最多的 rank 峰值为 {size(peak)}，而 {cluster.name} 的显存为 {have[0]}，"
        f"其中 {have[1]} 要留给 CUDA 上下文、NCCL 与分配器。",
    )


def does_not_fit_free(config: TrainConfig, free: int) -> str | None:
    """The same of a GPU here with so many bytes free; nothing is set aside."""
    peak = max(rank_peaks(config, "cuda").values())
    if peak <= free:
        return None
    return t(
        f"does not fit: the fullest rank peaks at {size(peak)}, and {size(free)} of its GPU are"
        " free.",
        f"放不下：占用最多的 rank 峰值为 {size(peak)}，而它的 GPU 只有 {size(free)} 可用。",
    )


def does_not_fit_here(
    config: TrainConfig, free: int, ranks: Iterable[int] | None = None
) -> str | None:
    """The same of this machine's ranks (default: all) and its `free` bytes."""
    need = bytes_of_ranks(config, ranks)
    if need <= free:
        return None
    return t(
        f"does not fit this machine: its ranks need {size(need)} of memory together, and"
        f" {size(free)} are free.",
        f"这台机器放不下：各进程共需 {size(need)} 内存，而可用的只有 {size(free)}。",
    )


def what_would_fit(config: TrainConfig, fits: Callable[[TrainConfig], bool]) -> str:
    """The advice that ends such a sentence: flags with which it fits, or a smaller model that
    does."""
    for flags in _smaller(config):
        try:
            other = config.replace(**flags)
            refuse_what_cannot_run(other)
        except ConfigError:
            continue
        if fits(other):
            words = " ".join(f"--{name.replace('_', '-')} {v}" for name, v in flags.items())
            return t(f"It would with {words}.", f"加上 {words} 就放得下。")
    for name, other in _smaller_models(config):
        if fits(other):
            words = f"--preset {name}"
        elif other.micro_batch > 1 and fits(other.replace(micro_batch=1)):
            words = f"--preset {name} --micro-batch 1"
        else:
            continue
        return t(f"{words} is the largest model that would.", f"放得下的最大预设模型是 {words}。")
    return t("Take more ranks, or a smaller model.", "请增加进程数，或换更小的模型。")


def _smaller(config: TrainConfig) -> Iterator[dict[str, Any]]:
    """Changes that leave the losses as they are, from the cheapest to the dearest."""
    p = config.parallel
    micro = {} if config.micro_batch == 1 else {"micro_batch": 1}
    zeros = [{"zero": zero} for zero in range(p.zero + 1, 4)] if p.replicas > 1 else []
    full = {} if config.recompute == "full" else {"recompute": "full"}
    yield from (flags for flags in (micro, full, {**micro, **full}) if flags)
    yield from zeros
    yield from ({**micro, **full, **zero} for zero in zeros)


def _smaller_models(config: TrainConfig) -> Iterator[tuple[str, TrainConfig]]:
    """Named shapes with the same layout and batch, the largest first."""
    known, found = flag_fields(), []
    rest = {k: v for k, v in config.to_dict().items() if known[k][0] is not ModelConfig}
    own = parameter_count(config.model)
    for name in PRESETS:
        try:
            other = TrainConfig.of(name, **rest)
            refuse_what_cannot_run(other)
        except ConfigError:
            continue
        if (count := parameter_count(other.model)) < own:
            found.append((count, name, other))
    yield from ((name, other) for _, name, other in sorted(found, key=lambda one: -one[0]))
