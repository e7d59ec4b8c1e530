"""Published iterations that took no part in any fit, and in no choice of the fit's form: what the
constants fitted on SC21's tables say of them.

Run it for the table: `python tests/estimate/published_aside.py`. Typed from memory of the papers,
which were not at hand; the increases and the MFU that they print agree with the numbers here. From
Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", table 3
(configurations) and table 5 (seconds of an iteration), A100-80GB, sequences of 2,048, one replica:
everything recomputed without sequence parallelism, and attention alone with it.
Llama 3: Grattafiori et al. 2024, table 4, 405B on H100s, sequences of 8,192.

Carried out as SC21's Megatron-LM did, all eight of Korthikanti's come out too slow, by 3.5 to
11.5 % (mean 6.6 %). One mechanism is adopted, from that year's sources: backward, messages travel
under the products that do not wait for them (Framework.overlap_products); mean 4.1 %, and 22B and
175B within 1.5 %. What is left is 530B and 1T, too slow by 4 to 9 %: SC21's own rows of the very
same replicas (table 1), which the fit meets within 3 %, reach 9 % fewer FLOP/s than Korthikanti's,
and nothing that either paper says explains that. Llama's two are within 2.4 % if interleaved with
one layer a stage, which is not printed (and by memory/ would not fit with dp 64:
test_fused_framework.py).

Tried besides, each with its effect, and not adopted: a kernel that adds each further micro-batch's
gradients, which SC21's programs ran and nobody is charged for (fitted anew: table 1 2.1 → 1.9 %,
ZeRO-3 530B 7.2 → 11.1 %, H100 9.6 → 9.7 %); messages between stages that do not block
(Korthikanti 4.1 → 3.2 %, but that year's still did). For H100, beside 7.2 % with the micro-batches
that fit (9.6 % with micro-batches of one): a fused framework's kernels (8.5 %); gathers of updated
weights shown as far as they exceed the first forward pass (6.2 %, but interleaved chunks are
gathered one by one under p passes each); sums of gradients under p chunks' backward passes where
interleaved (8.6 %); bf16 gradients (8.9 %); `overlap_products` instead of tensor-parallel messages
in pieces (6.5 %). None of these is in use: they were looked at with the errors in sight.
"""

from __future__ import annotations

from functools import cache
from math import exp, log
from typing import NamedTuple

from published import TABLE_1, TABLE_2_PTD, mean, peak

from lab_utils.config import Cluster, ModelConfig, ParallelConfig, TrainConfig
from lab_utils.estimate.hardware import HARDWARE
from lab_utils.estimate.hardware.fitted import SC21
from lab_utils.estimate.time.frameworks import (
    MEGATRON_2022,
    MEGATRON_CORE,
    MEGATRON_SC21,
    Framework,
)
from lab_utils.estimate.time.step import step_parts


class Aside(NamedTuple):
    """One published iteration. `flops`: of a GPU, recomputed ones included; `configs`: the layout,
    in all ways that it may have been run where that is not printed."""

    name: str
    gpu: str
    configs: tuple[TrainConfig, ...]
    seconds: float
    flops: float


# h, L, heads, pp, virtual stages, global batch, micro-batch; seconds with everything recomputed,
# and with attention recomputed and sequence parallelism; tp = 8, V = 51200
_KORTHIKANTI = {
    "22B": (6144, 48, 64, 1, 1, 4, 4, 1.42, 1.10),
    "175B": (12288, 96, 96, 8, 3, 64, 1, 18.13, 13.75),
    "530B": (20480, 105, 128, 35, 3, 280, 1, 49.05, 37.83),
    "1T": (25600, 128, 160, 64, 1, 512, 1, 94.42, 71.49),
}


def _korthikanti(size: str, recompute: str) -> Aside:
    h, layers, heads, pp, v, batch, micro, full, selective = _KORTHIKANTI[size]
    everything, s, vocab = recompute == "full", 2048, 51200
    model = ModelConfig(
        layers=layers, hidden=h, heads=heads, vocab=vocab, seq=s, tied=True, attention="explicit"
    )
    parallel = ParallelConfig(
        tp=8,
        pp=pp,
        virtual_stages=v,
        schedule="interleaved" if v > 1 else "1f1b",
        sequence_parallel=not everything,
    )
    config = TrainConfig(
        model=model,
        parallel=parallel,
        global_batch=batch,
        micro_batch=micro,
        precision="bf16-pure",
        recompute=recompute,
    )
    # SC21, section 5.1; Korthikanti et al., appendix A
    times, attention, head = (96, 6, 16) if everything else (72, 3, 12)
    share = 1 + s / (attention * h) + vocab / (head * layers * h)
    flops = times * batch * s * layers * h**2 * share / (8 * pp)
    seconds = full if everything else selective
    return Aside(f"{size}, {recompute}", "A100-80", (config,), seconds, flops)


def _llama(dp: int, tflops: float) -> Aside:
    """Of a model of 128 layers, eight a rank: as many as all ranks but the two at the ends have, so
    the same pace. The number of virtual stages is not printed."""
    configs = []
    for v in (1, 2, 4, 8):
        parallel = ParallelConfig(
            tp=8,
            pp=16,
            dp=dp,
            zero=1,
            sequence_parallel=True,
            virtual_stages=v,
            schedule="interleaved" if v > 1 else "1f1b",
        )
        base = TrainConfig.of("llama3.1-405b", layers=128)
        configs.append(
            TrainConfig(
                model=base.model,
                parallel=parallel,
                global_batch=2048,
                micro_batch=1,
                precision="bf16-pure",
            )
        )
    tokens = 2048 * 8192
    # causal attention by half; the paper does not say
    flops = tokens * (6 * 405.85e9 + 6 * 126 * 16384 * 8192) / (128 * dp)
    return Aside(f"405B, dp {dp}", "H100-SXM", tuple(configs), flops / tflops / 1e12, flops)


KORTHIKANTI = tuple(
    _korthikanti(size, policy) for size in _KORTHIKANTI for policy in ("full", "selective")
)
LLAMA = (_llama(64, 430), _llama(128, 400))


def machine(row: Aside) -> Cluster:
    return HARDWARE[row.gpu].replace(**SC21.fields())


def predicted(row: Aside, framework: Framework) -> float:
    """Seconds of the fastest of the row's ways."""
    return min(step_parts(config, machine(row), framework).step for config in row.configs)


@cache
def errors(rows: tuple[Aside, ...], framework: Framework) -> tuple[float, ...]:
    """Predicted seconds over published, less 1: above 0 is too slow."""
    return tuple(predicted(row, framework) / row.seconds - 1 for row in rows)


@cache
def one_constant(rows: tuple[Aside, ...]) -> tuple[float, ...]:
    """The same of the share of the data sheet's peak that SC21's rows reach."""
    seen = [*TABLE_1, *TABLE_2_PTD]
    share = exp(sum(log(row.tflops * 1e12 / peak(row)) for row in seen) / len(seen))
    return tuple(
        row.flops / (share * machine(row).peak_flops_per_second) / row.seconds - 1 for row in rows
    )


def main() -> None:
    """Print every row."""
    for rows, frameworks in (
        (KORTHIKANTI, (MEGATRON_SC21, MEGATRON_2022)),
        (LLAMA, (MEGATRON_CORE,)),
    ):
        for framework in frameworks:
            found, constant = errors(rows, framework), one_constant(rows)
            print(
                f"{framework.name}: mean {mean(found):.1%}, worst {max(map(abs, found)):.1%}; one"
                f" share of the peak, fitted where ours was: mean {mean(constant):.1%}, worst"
                f" {max(map(abs, constant)):.1%}"
            )
            for row, error, trivial in zip(rows, found, constant, strict=True):
                print(f"    {row.name:>16}: {row.seconds:6.2f} s, {error:+.1%} ({trivial:+.1%})")


if __name__ == "__main__":
    main()
