"""Published training throughputs, the constants fitted on them, and what those say about rows that
they have not seen.

Run it for the table: `python tests/estimate/published.py`. Sources, copied by hand:
SC21: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM", tables 1 and 2.
H100: Megatron-Core's README (NVIDIA/Megatron-LM), the figure of weak scaling on H100 SXM, BF16; MFU
is of 989 TFLOP/s.

"Held out" says that a row took no part in a fit, and no more: the form of the model was changed
about a dozen times with the errors on these tables in sight (fused score passes, 64 MiB buckets,
one ring for ZeRO-3, the overlap's cost), so no table is untouched. Expect larger errors on a
cluster that is not here, as on the H100's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import exp, log
from typing import NamedTuple

from lab_utils.config import Cluster, ModelConfig, ParallelConfig, TrainConfig, divisors
from lab_utils.estimate.fit import RESERVED_BYTES
from lab_utils.estimate.hardware import HARDWARE
from lab_utils.estimate.hardware.fitted import Fitted
from lab_utils.estimate.plan.needs import needed_bytes
from lab_utils.estimate.plan.search import VIRTUAL_STAGES
from lab_utils.estimate.time.frameworks import (
    DEEPSPEED_ZERO3,
    MEGATRON_CORE,
    MEGATRON_SC21,
    Framework,
)
from lab_utils.estimate.time.stages import StageClock
from lab_utils.estimate.time.step import step_parts


class Row(NamedTuple):
    """One published run: TFLOP/s per GPU, counted as its paper counts."""

    table: str
    size: str
    config: TrainConfig
    tflops: float


_BUCKET_MIB = 64.0  # as the planner's: libraries send tens of megabytes at a time


def _shape(
    h: int, layers: int, heads: int, vocab: int, seq: int, attention: str, tied: bool = True
) -> ModelConfig:
    return ModelConfig(
        layers=layers, hidden=h, heads=heads, vocab=vocab, seq=seq, tied=tied, attention=attention
    )


def _sc21(
    size: str,
    h: int,
    layers: int,
    heads: int,
    tp: int,
    pp: int,
    v: int,
    micro: int,
    batch: int,
    gpus: int,
    tflops: float,
    table: str,
) -> Row:
    zero = 3 if "ZeRO-3" in table else 0
    parallel = ParallelConfig(
        tp=tp,
        pp=pp,
        dp=gpus // (tp * pp),
        virtual_stages=v,
        schedule="interleaved" if v > 1 else "1f1b",
        zero=zero,
        bucket_mib=_BUCKET_MIB,
    )
    model = _shape(h, layers, heads, 51200, 2048, "explicit")
    config = TrainConfig(
        model=model,
        parallel=parallel,
        global_batch=batch,
        micro_batch=micro,
        precision="bf16-pure",
        recompute="full",
    )
    return Row(table, size, config, tflops)


# size, h, L, heads, tp, pp, virtual stages, micro-batch, global batch, GPUs, TFLOP/s; s = 2048, V =
# 51200, everything recomputed
TABLE_1 = [
    _sc21(*row, "SC21 table 1")
    for row in (
        ("1.7B", 2304, 24, 24, 1, 1, 1, 16, 512, 32, 137),
        ("3.6B", 3072, 30, 32, 2, 1, 1, 16, 512, 64, 138),
        ("7.5B", 4096, 36, 32, 4, 1, 1, 16, 512, 128, 142),
        ("18B", 6144, 40, 48, 8, 1, 1, 8, 1024, 256, 135),
        ("39B", 8192, 48, 64, 8, 2, 1, 4, 1536, 512, 138),
        ("76B", 10240, 60, 80, 8, 4, 3, 2, 1792, 1024, 140),
        ("145B", 12288, 80, 96, 8, 8, 2, 2, 2304, 1536, 148),
        ("310B", 16384, 96, 128, 8, 16, 2, 1, 2160, 1920, 155),
        ("530B", 20480, 105, 128, 8, 35, 3, 1, 2520, 2520, 163),
        ("1T", 25600, 128, 160, 8, 64, 1, 1, 3072, 3072, 163),
    )
]
# table 2 prints the product of tp and pp; tp = 8 as in table 1, and no virtual stages (not printed)
TABLE_2_PTD = [
    _sc21(*row, "SC21 table 2, PTD")
    for row in (
        ("175B", 12288, 96, 96, 8, 12, 1, 1, 1536, 384, 153),
        ("175B", 12288, 96, 96, 8, 12, 1, 1, 1536, 768, 149),
        ("175B", 12288, 96, 96, 8, 12, 1, 1, 1536, 1536, 141),
        ("530B", 20480, 105, 128, 8, 35, 1, 1, 2240, 560, 171),
        ("530B", 20480, 105, 128, 8, 35, 1, 1, 2240, 1120, 167),
        ("530B", 20480, 105, 128, 8, 35, 1, 1, 2240, 2240, 159),
    )
]
TABLE_2_ZERO_175B = [
    _sc21(*row, "SC21 table 2, ZeRO-3 175B")
    for row in (
        ("175B", 12288, 96, 96, 1, 1, 1, 4, 1536, 384, 144),
        ("175B", 12288, 96, 96, 1, 1, 1, 2, 1536, 768, 88),
        ("175B", 12288, 96, 96, 1, 1, 1, 1, 1536, 1536, 44),
    )
]
TABLE_2_ZERO_530B = [
    _sc21(*row, "SC21 table 2, ZeRO-3 530B")
    for row in (
        ("530B", 20480, 105, 128, 1, 1, 1, 4, 2560, 640, 138),
        ("530B", 20480, 105, 128, 1, 1, 1, 2, 2240, 1120, 98),
        ("530B", 20480, 105, 128, 1, 1, 1, 1, 2240, 2240, 48),
    )
]


def _h100(
    size: str,
    heads: int,
    h: int,
    layers: int,
    tp: int,
    pp: int,
    gpus: int,
    batch: int,
    tflops: float,
) -> Row:
    """An untied head makes the printed sizes. Not printed, so assumed: sequence parallelism
    wherever tp > 1, fused attention that recomputes nothing but its own products, the distributed
    optimizer (ZeRO-1), and of micro-batches and virtual stages those that are predicted to be
    fastest, of all that fit (`candidates`)."""
    dp = gpus // (tp * pp)
    parallel = ParallelConfig(
        tp=tp, pp=pp, dp=dp, zero=1, sequence_parallel=tp > 1, bucket_mib=_BUCKET_MIB
    )
    model = _shape(h, layers, heads, 131072, 4096, "sdpa", tied=False)
    config = TrainConfig(
        model=model, parallel=parallel, global_batch=batch, micro_batch=1, precision="bf16-pure"
    )
    return Row("H100", size, config, tflops)


H100 = [
    _h100(*row)
    for row in (
        ("1.7B", 16, 2048, 24, 1, 1, 48, 192, 408.8),
        ("7.1B", 32, 4096, 30, 2, 1, 96, 192, 465.9),
        ("16B", 48, 6144, 32, 4, 1, 192, 192, 489.1),
        ("32B", 56, 7168, 48, 8, 1, 384, 192, 459.6),
        ("70B", 64, 8192, 84, 8, 2, 768, 384, 419.7),
        ("119B", 80, 10240, 92, 8, 4, 1536, 768, 420.5),
        ("177B", 96, 12288, 96, 8, 6, 2304, 1152, 432.8),
        ("314B", 128, 16384, 96, 8, 8, 3072, 1536, 474.4),
        ("462B", 144, 18432, 112, 8, 16, 6144, 3072, 459.9),
    )
]


def counted_flops(row: Row) -> float:
    """FLOPs of one step as the row's source counts them.

    SC21, section 5.1: F = 96·B·s·L·h²·(1 + s/(6h) + V/(16·L·h)), the second forward pass included;
    Megatron-Core counts without it: three quarters of the blocks' share, F = 72·B·s·L·h²·(1 +
    s/(6h) + V/(12·L·h)).
    """
    m, b = row.config.model, row.config.global_batch
    times, head = (72, 12) if row.table == "H100" else (96, 16)
    return (
        times
        * b
        * m.seq
        * m.layers
        * m.hidden**2
        * (1 + m.seq / (6 * m.hidden) + m.vocab / (head * m.layers * m.hidden))
    )


def framework_of(row: Row) -> Framework:
    return (
        MEGATRON_CORE
        if row.table == "H100"
        else DEEPSPEED_ZERO3
        if row.config.parallel.zero == 3
        else MEGATRON_SC21
    )


def machine(row: Row, c: Fitted) -> Cluster:
    sheet = HARDWARE["H100-SXM" if row.table == "H100" else "A100-80"]
    # its own collapse says so: 16 to 18 GB/s a node
    rings = 1 if row.config.parallel.zero == 3 else None
    return sheet.replace(**c.fields(), rings_across_nodes=rings)


def predicted(row: Row, c: Fitted) -> float:
    """TFLOP/s per GPU."""
    cluster, framework = machine(row, c), framework_of(row)
    clock = StageClock(cluster, framework)
    seconds = min(
        step_parts(config, cluster, framework, clock=clock).step for config in candidates(row)
    )
    return counted_flops(row) / seconds / row.config.parallel.world_size / 1e12


@cache
def candidates(row: Row) -> tuple[TrainConfig, ...]:
    """The row's layout, with every micro-batch and number of virtual stages that fit where these
    are not printed, of those that the planner tries; at least those of one sequence and one stage a
    rank."""
    if row.table != "H100":
        return (row.config,)
    gpu = HARDWARE["H100-SXM"]
    found = tuple(
        staged
        for micro in divisors(row.config.global_batch // row.config.parallel.dp)
        for staged in _staged(replace(row.config, micro_batch=micro))
        if needed_bytes(staged, framework_of(row), gpu.kernels) <= gpu.memory_bytes - RESERVED_BYTES
    )
    return found or (row.config,)


def _staged(config: TrainConfig) -> list[TrainConfig]:
    p, found = config.parallel, [config]
    for v in VIRTUAL_STAGES:
        if p.pp > 1 and config.micro_batches % p.pp == 0 and v <= config.model.layers // p.pp:
            parallel = replace(p, virtual_stages=v, schedule="interleaved")
            found.append(replace(config, parallel=parallel))
    return found


# What is known before any row is looked at: a copy on an H200 reaches 4.3 of 4.8 TB/s (measured),
# so memory is not fitted; rings reach about 0.78 of NVLink (235 of 300 GB/s on a DGX A100,
# nccl-tests); products in training stay below the book's maximum.
PRIOR = Fitted(matmul=0.85, half_size=32.0, hbm=0.9, wire=0.78)
# a constant that is e times its prior costs as much as 3.2 % of error on every row
_TRUST = 1e-3


def fit(rows: Sequence[Row]) -> Fitted:
    """Three constants (matmul, half_size, wire) with the least squared relative error on `rows`,
    drawn a little towards PRIOR; then a fourth, overlap, on the ZeRO-3 rows of 175B, because
    Megatron's rows on A100 overlap nothing.

    A simplex walk over their logarithms (Nelder and Mead 1965).
    """
    start = [log(PRIOR.matmul), log(PRIOR.half_size), log(PRIOR.wire)]

    def made(x: Sequence[float]) -> Fitted:
        return Fitted(exp(x[0]), exp(x[1]), PRIOR.hbm, exp(x[2]))

    def cost(x: Sequence[float]) -> float:
        c = made(x)
        error = sum(log(predicted(row, c) / row.tflops) ** 2 for row in rows) / len(rows)
        return error + _TRUST * sum((a - b) ** 2 for a, b in zip(x, start, strict=True))

    base = made(nelder_mead(cost, start))

    def overlapping(x: Sequence[float]) -> float:
        return sum(
            log(predicted(row, replace(base, overlap=exp(x[0]))) / row.tflops) ** 2
            for row in TABLE_2_ZERO_175B
        )

    return replace(base, overlap=exp(nelder_mead(overlapping, [log(0.2)], rounds=25)[0]))


def nelder_mead(
    cost: Callable[[Sequence[float]], float],
    start: Sequence[float],
    step: float = 0.2,
    rounds: int = 80,
) -> list[float]:
    corners = [list(start)] + [
        [x + step * (i == j) for j, x in enumerate(start)] for i in range(len(start))
    ]
    ranked = sorted((cost(x), x) for x in corners)
    for _ in range(rounds):
        best, worst = ranked[0], ranked[-1]
        middle = [sum(x[i] for _, x in ranked[:-1]) / (len(ranked) - 1) for i in range(len(start))]

        def along(
            factor: float, middle: list[float] = middle, worst: list[float] = worst[1]
        ) -> tuple[float, list[float]]:
            x = [m + factor * (m - w) for m, w in zip(middle, worst, strict=True)]
            return cost(x), x

        new = along(1.0)
        if new < best:
            new = min(new, along(2.0))
        elif new >= ranked[-2]:
            new = along(0.5) if new < worst else along(-0.5)
        if new < worst:
            ranked = sorted([*ranked[:-1], new])
        else:
            ranked = sorted(
                [best]
                + [
                    (cost(y := [(a + b) / 2 for a, b in zip(x, best[1], strict=True)]), y)
                    for _, x in ranked[1:]
                ]
            )
    return ranked[0][1]


def peak(row: Row) -> float:
    """FLOP/s of the data sheet."""
    return HARDWARE["H100-SXM" if row.table == "H100" else "A100-80"].peak_flops_per_second


def baseline(rows: Sequence[Row]) -> float:
    """The one TFLOP/s for all rows that has the least squared relative error on `rows`."""
    return exp(sum(log(row.tflops) for row in rows) / len(rows))


class Errors(NamedTuple):
    """Relative errors of a model on some rows; of one constant fitted on those very rows; and of
    one fitted where the model was (as a share of the data sheet's peak)."""

    fitted_on: str
    table: str
    predicted: tuple[float, ...]
    ours: tuple[float, ...]
    one_constant: tuple[float, ...]
    constant_held_out: tuple[float, ...]

    @property
    def held_out(self) -> bool:
        """Whether no constant was fitted on these rows."""
        return self.table not in self.fitted_on and self.table != "SC21 table 2, ZeRO-3 175B"

    @property
    def mean(self) -> float:
        return mean(self.ours)

    @property
    def worst(self) -> float:
        return max(map(abs, self.ours))


def mean(errors: Sequence[float]) -> float:
    """Mean of the absolute errors."""
    return sum(map(abs, errors)) / len(errors)


TABLES = {
    "SC21 table 1": TABLE_1,
    "SC21 table 2, PTD": TABLE_2_PTD,
    "SC21 table 2, ZeRO-3 175B": TABLE_2_ZERO_175B,
    "SC21 table 2, ZeRO-3 530B": TABLE_2_ZERO_530B,
    "H100": H100,
}
FITS = (("SC21 table 1",), ("SC21 table 2, PTD",), ("SC21 table 1", "SC21 table 2, PTD"))


@cache
def all_errors() -> tuple[tuple[Fitted, tuple[Errors, ...]], ...]:
    """For each fit: its constants, and its errors on every table."""
    found = []
    for names in FITS:
        seen = [row for name in names for row in TABLES[name]]
        constants, elsewhere, errors = fit(seen), baseline(seen), []
        for table, rows in TABLES.items():
            one, ours = baseline(rows), [predicted(row, constants) for row in rows]
            errors.append(
                Errors(
                    " + ".join(names),
                    table,
                    tuple(ours),
                    tuple(x / row.tflops - 1 for x, row in zip(ours, rows, strict=True)),
                    tuple(one / row.tflops - 1 for row in rows),
                    tuple(elsewhere * peak(row) / peak(seen[0]) / row.tflops - 1 for row in rows),
                )
            )
        found.append((constants, tuple(errors)))
    return tuple(found)


def main() -> None:
    """Print every prediction of every fit."""
    for constants, errors in all_errors():
        print(
            f"fitted on {errors[0].fitted_on}: "
            + ", ".join(f"{name} {value:.3g}" for name, value in vars(constants).items())
        )
        for e in errors:
            print(
                f"  {e.table} ({'held out' if e.held_out else 'fitted'}): mean {e.mean:.1%}, worst"
                f" {e.worst:.1%}"
            )
            print(
                "    trivial: one constant fitted on these very rows: mean"
                f" {mean(e.one_constant):.1%}, worst {max(map(abs, e.one_constant)):.1%}; one share"
                f" of the peak, fitted where ours was: mean {mean(e.constant_held_out):.1%}"
            )
            for row, tflops, error in zip(TABLES[e.table], e.predicted, e.ours, strict=True):
                p = row.config.parallel
                layout = (
                    f"{row.size:>5} on {p.world_size:5,} GPUs, tp {p.tp} pp {p.pp:2} dp {p.dp:4}"
                )
                print(
                    f"    {layout}: published {row.tflops:5.1f}, predicted {tflops:5.1f} TFLOP/s"
                    f" ({error:+.1%})"
                )


if __name__ == "__main__":
    main()
