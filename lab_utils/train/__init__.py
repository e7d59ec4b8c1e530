"""`train(config) → Report`: run it for real, on as many processes as the layout has ranks. The
caller needs no torch.

On each rank loop.py clears the ledger before every step and calls the engine's `forward_backward`
and `update`; the second step's ledger is what is reported. engines/ours.py says how a step goes on
from there, down to the wire.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..config import ConfigError, TrainConfig
from ..data.windows import open_windows
from ..files import writable
from ..launch.room import refuse_too_many_threads
from ..layout.parameters import parameter_count
from ..layout.refusals import refuse_what_cannot_run
from ..report import Report
from ..verb import callable_package
from .gradients import save_gradients
from .progress import LossBoard
from .room import refuse_what_does_not_fit

if TYPE_CHECKING:
    from .loop import RankResult

__all__ = ["train"]


def train(
    config: TrainConfig,
    *,
    engine: Literal["ours", "torch", "deepspeed"] = "ours",
    threads: int | None = None,
    timeout: float = 600.0,
    progress: bool | Callable[[int, float], None] = False,
    gradients: str | Path | None = None,
    force: bool = False,
) -> Report:
    """Train `config` and report what one optimizer step really cost, rank by rank.

    `engine`: "ours", or "torch" or "deepspeed" for those libraries' own ways behind the same
    report. `threads`: CPU threads per rank.
    `timeout`: seconds that a rank may keep the others waiting. `progress`: True for a bar, or a
    function that is called with (step, mean loss). `gradients`: a file for the first step's
    gradients before clipping (NumPy .npz, by parameter name). `force`: start it even if the
    estimate says that it does not fit this machine's memory. Raises ConfigError for what cannot
    run, LaunchError when a rank fails, GradientsNotWrittenError (an OSError that carries the
    report) where only that file could not be written.
    """
    from ..launch import launch

    refuse_what_cannot_run(config, engine)
    if engine == "deepspeed":
        from ..engines.deepspeed_setup import why_not

        if reason := why_not():  # before a process starts
            raise ConfigError(reason)
    # a text that cannot be read is refused here, in one sentence, not by a rank
    open_windows(config)
    writable(gradients and Path(gradients))
    refuse_too_many_threads(threads)
    if not force:
        refuse_what_does_not_fit(config)
    with LossBoard(config, progress) as board:
        results = launch(
            _rank_main,
            config.parallel.world_size,
            config,
            engine,
            gradients is not None,
            timeout=timeout,
            threads=threads,
            on_event=board,
            force=force,
        )
    report = _merge(config, engine, results)
    # under torchrun every rank comes by here
    if gradients is not None and os.environ.get("RANK", "0") == "0":
        save_gradients(Path(gradients), config, results, report)
    return report


def _rank_main(config: TrainConfig, engine: str, keep_gradients: bool) -> RankResult:
    from .loop import run_rank  # torch is imported on the ranks only

    return run_rank(config, engine, keep_gradients)


def _merge(config: TrainConfig, engine: str, results: list[RankResult]) -> Report:
    tokens = config.global_batch * config.model.seq
    # the slowest rank sets the pace
    step = max((r.report.time["step"] for r in results if r.report.time["step"]), default=None)
    return Report(
        kind="measured",
        engine=engine,
        device=results[0].device,
        config=config.to_dict(),
        parameters=parameter_count(config.model),
        ranks=tuple(r.report for r in results),
        loss=tuple(
            sum(sums) / tokens for sums in zip(*(r.loss_sums for r in results), strict=True)
        ),
        flops={kind: sum(r.flops[kind] for r in results) for kind in results[0].flops}
        | {"causal_attention": "whole"},
        tokens_per_second=tokens / step if step else None,
        loss_scale=tuple(scale for scale, _ in results[0].loss_scale),
        skipped_steps=tuple(i for i, (_, skipped) in enumerate(results[0].loss_scale) if skipped),
    )


callable_package(__name__, train)
