"""torch's own parallelism trains the same model as one process of ours, in every strategy and in
their products."""

from __future__ import annotations

import pytest
from alike import BASE, LLAMA, check_alike, run_all, run_alone
from equality import Run, gradient_error, loss_error

from lab_utils import launch
from lab_utils.engines.fragments import assemble
from lab_utils.layout.parameters import parameter_shapes

SP, INTERLEAVED = (
    dict(sequence_parallel=True),
    dict(schedule="interleaved", virtual_stages=2, layers=4),
)
# what is changed, beside BASE; clipping only bites if its norm is that of the whole model
CASES = {
    "one rank, accumulated": dict(micro_batch=2),
    "ddp": dict(dp=2, clip=0.3),
    "ddp, accumulated, recomputed": dict(dp=2, micro_batch=2, recompute="full"),
    "ddp, llama, recomputed in part": dict(dp=2, recompute="selective", **LLAMA),
    "ddp, tied, 3 ranks": dict(dp=3, global_batch=9, tied=True),
    "zero 1": dict(dp=2, zero=1, clip=0.3),
    "zero 1, adamw, accumulated": dict(dp=2, zero=1, optimizer="adamw", micro_batch=2),
    "zero 2": dict(dp=2, zero=2, clip=0.3),
    "zero 2, accumulated": dict(dp=2, zero=2, micro_batch=2),
    "zero 3": dict(dp=2, zero=3, clip=0.3),
    "zero 3, tied, accumulated, recomputed": dict(
        dp=2, zero=3, tied=True, micro_batch=2, recompute="full"
    ),
    "zero 3, adamw, llama, 3 ranks": dict(dp=3, zero=3, global_batch=9, optimizer="adamw", **LLAMA),
    "tp": dict(tp=2, clip=0.3),
    "tp, adamw, uneven vocabulary": dict(tp=2, optimizer="adamw", vocab=257, micro_batch=4),
    "tp, sequence parallel": dict(tp=2, clip=0.3, **SP),
    "tp, sequence parallel, llama, recomputed": dict(tp=2, recompute="full", **SP, **LLAMA),
    "tp, sequence parallel, tied": dict(tp=2, tied=True, **SP),
    "pp, gpipe": dict(pp=2, schedule="gpipe", micro_batch=2),
    "pp, 1f1b": dict(pp=2, micro_batch=2, clip=0.3),
    "pp, 1f1b, llama, recomputed, 4 stages": dict(
        pp=4, layers=4, micro_batch=1, recompute="full", **LLAMA
    ),
    "pp, interleaved": dict(pp=2, micro_batch=2, **INTERLEAVED),
    "dp × tp": dict(dp=2, tp=2, clip=0.3, micro_batch=2),
    "dp × tp, zero 3, sequence parallel": dict(dp=2, tp=2, zero=3, clip=0.3, **SP),
    "dp × pp": dict(dp=2, pp=2, micro_batch=2),
    "dp × pp, zero 3, interleaved": dict(dp=2, pp=2, zero=3, micro_batch=1, **INTERLEAVED),
    "tp × pp, sequence parallel": dict(tp=2, pp=2, micro_batch=2, **SP),
    "dp × tp × pp": dict(dp=2, tp=2, pp=2, micro_batch=2),
    "dp × tp × pp, zero 3, sequence parallel": dict(
        dp=2, tp=2, pp=2, zero=3, micro_batch=2, clip=0.3, **SP
    ),
    "ddp, another seed": dict(dp=2, seed=1),
    "ddp, bf16": dict(dp=2, precision="bf16"),
    "zero 2, bf16": dict(dp=2, zero=2, precision="bf16"),
    "zero 3, bf16, accumulated": dict(dp=2, zero=3, precision="bf16", micro_batch=2),
    "tp, bf16, sequence parallel": dict(tp=2, precision="bf16", **SP),
    "dp × tp, zero 3, bf16": dict(dp=2, tp=2, zero=3, precision="bf16"),
    "pp, bf16": dict(pp=2, precision="bf16", micro_batch=2),
}
CONFIGS = {name: BASE.replace(**flags) for name, flags in CASES.items()}


@pytest.fixture(scope="module")
def torch_runs() -> dict[str, Run]:
    return run_all(CONFIGS, "torch")


@pytest.fixture(scope="module")
def one_process() -> dict[str, Run]:
    return run_alone(CONFIGS)


@pytest.mark.parametrize("name", CASES)
def test_equal_to_one_process_of_ours(name, torch_runs, one_process):
    check_alike(
        name, torch_runs[name], one_process[name], tolerance=5e-3 if "bf16" in name else 1e-6
    )


def test_clipping_bites_and_a_seed_matters(one_process):
    """Else the comparisons above would not see that either is wrong."""
    plain = one_process["zero 2, accumulated"]
    assert loss_error(one_process["ddp"], plain) > 1e-3
    assert gradient_error(one_process["ddp, another seed"], plain) > 0.1


ZERO_BUBBLE = [
    BASE.replace(schedule="zero-bubble", micro_batch=1, clip=0.3, **flags)
    for flags in (dict(pp=4, layers=4), dict(dp=2, pp=2))
]


def zero_bubble_on_rank() -> list[tuple[list[float], list]]:
    """Driven as the bench does it: torch's zero-bubble leaves the way of autograd on which FLOPs
    are counted."""
    from lab_utils.data.loader import Loader
    from lab_utils.engines import make_engine
    from lab_utils.parallel.mesh import Mesh

    found = []
    for config in ZERO_BUBBLE:
        mesh = Mesh(config.parallel)
        engine, loader, losses, gradients = (
            make_engine(config, "torch", mesh),
            Loader(config, mesh["dp"].rank),
            [],
            [],
        )
        for step in range(config.steps):
            losses.append(engine.forward_backward(loader.batch(step)))
            gradients = gradients if step else engine.fragments()
            engine.update()
        found.append((losses, gradients))
    return found


def test_zero_bubble():
    by_rank = launch(zero_bubble_on_rank, 4, threads=1)
    for i, config in enumerate(ZERO_BUBBLE):
        losses = [
            sum(sums) / (config.global_batch * config.model.seq)
            for sums in zip(*(rank[i][0] for rank in by_rank), strict=True)
        ]
        run = Run(
            losses,
            assemble(
                (fragment for rank in by_rank for fragment in rank[i][1]),
                parameter_shapes(config.model),
            ),
        )
        check_alike(
            f"zero-bubble, {config.parallel.dp} × {config.parallel.pp}",
            run,
            run_alone({"": config})[""],
            1e-6,
        )
