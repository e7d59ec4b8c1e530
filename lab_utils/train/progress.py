"""The live loss of a run, put together in the parent from what each rank reports."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..config import TrainConfig
from ..i18n import t


class LossBoard:
    """Receives (step, loss sum) from the ranks; when all have reported a step, shows the global
    mean. Costs no message."""

    def __init__(self, config: TrainConfig, progress: bool | Callable[[int, float], None]) -> None:
        self.ranks, self.tokens = config.parallel.world_size, config.global_batch * config.model.seq
        self.sums: dict[int, list[float]] = defaultdict(list)
        self.show = progress if callable(progress) else None
        self.bar: Any = None
        if progress is True:
            from tqdm import tqdm

            self.bar = tqdm(
                total=config.steps,
                desc=t("training", "训练"),
                unit=t("step", "步"),
                file=sys.stderr,
            )

    def __call__(self, rank: int, event: tuple[int, float]) -> None:
        step, loss_sum = event
        self.sums[step].append(loss_sum)
        if len(self.sums[step]) == self.ranks:
            loss = sum(self.sums.pop(step)) / self.tokens
            if self.bar is not None:
                self.bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                self.bar.update()
            if self.show is not None:
                self.show(step, loss)

    def __enter__(self) -> LossBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.close()
