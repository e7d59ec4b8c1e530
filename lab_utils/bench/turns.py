"""Both contenders of a row in the same processes, taking turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

from ..config import TrainConfig
from ..i18n import t
from ..layout.refusals import refuse_what_cannot_run
from .rows import CONTENDERS, Ratio, Row, config_of

if TYPE_CHECKING:
    from ..parallel.mesh import Mesh


def bench(
    config: TrainConfig,
    row: Row,
    pairs: int = 15,
    steps: int = 4,
    threads: int = 1,
    force: bool = False,
) -> Ratio:
    """Time one row; `steps` optimizer steps make a block (seconds are per step). Raises ConfigError
    for what cannot run, or unless `force` for more ranks than this machine holds."""
    from ..launch import launch

    for name in (row.first, row.second):
        refuse_what_cannot_run(config_of(name, config), CONTENDERS[name])
    return launch(
        _row_on_rank,
        config.parallel.world_size,
        config,
        row,
        pairs,
        steps,
        timeout=600.0,
        threads=threads,
        force=force,
    )[0]


def _row_on_rank(config: TrainConfig, row: Row, pairs: int, steps: int) -> Ratio:
    from ..parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    contenders = [
        _Contender(config_of(name, config), CONTENDERS[name], mesh)
        for name in (row.first, row.second)
    ]
    for contender in contenders:
        contender.block(2 * steps)  # warm-up: first steps allocate
    times = []
    for pair in range(pairs):
        in_turn = contenders if pair % 2 == 0 else contenders[::-1]
        measured = {id(contender): contender.block(steps) for contender in in_turn}
        times.append(tuple(measured[id(contender)] / steps for contender in contenders))
    return Ratio(
        *row,
        config.parallel.world_size,
        tuple(b / a for a, b in times),
        median(a for a, _ in times),
        median(b for _, b in times),
    )


class _Contender:
    """One engine, training its model on the same batch again and again.

    Where it trains on one rank of several, the first one works, and the others wait for it.
    """

    def __init__(self, config: TrainConfig, engine: str, everybody: Mesh) -> None:
        from ..data.loader import Loader
        from ..engines import make_engine
        from ..parallel.mesh import Mesh

        self.everybody = everybody
        alone = config.parallel.world_size < math.prod(everybody.sizes.values())
        self.works = everybody.rank == 0 or not alone
        self.mesh = Mesh(config.parallel) if alone else everybody
        if self.works:
            self.engine = make_engine(config, engine, self.mesh)
            self.batch = Loader(config, self.mesh["dp"].rank, device=self.mesh.device).batch(0)

    def block(self, steps: int) -> float:
        """Seconds that the slowest rank needed for `steps` optimizer steps."""
        import time

        self._slowest(0.0)  # all start together
        began = time.perf_counter()
        for _ in range(steps if self.works else 0):
            self.engine.forward_backward(self.batch)
            self.engine.update()
            self.mesh.ledger.clear()
        if self.mesh.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.mesh.device)
        return self._slowest(time.perf_counter() - began)

    def _slowest(self, seconds: float) -> float:
        import torch

        most = torch.tensor([seconds], dtype=torch.float64, device=self.mesh.device)
        for axis in ("dp", "pp", "tp"):
            self.everybody[axis].all_reduce(most, purpose="control", reduction="max").wait()
        return most.item()


def deepspeed_runs(say: Callable[[str], None]) -> bool:
    """Whether DeepSpeed trains on this machine; where it does not, why is said."""
    import torch

    from ..engines.deepspeed_setup import why_not

    reason = why_not("cuda" if torch.cuda.is_available() else "cpu")
    if reason:
        say(t(f"Rows of DeepSpeed are left out. {reason}", f"略去 DeepSpeed 的各行。{reason}"))
    return reason is None
