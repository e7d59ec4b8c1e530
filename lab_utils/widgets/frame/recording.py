"""Real runs that a tool lays over its estimates, kept in a file that says on what and when they
were measured. One is written anew by

    python -c "from lab_utils import train; from lab_utils.widgets.ROOM import measured
    measured.RECORDING.write(train)"

`train` is handed in because no tool imports torch.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...config import TrainConfig
from ...i18n import t
from ...report import Report

STEPS = 3  # the second step is the one that is counted
Case = Mapping[str, Any]  # what was run, as plain JSON values
Train = Callable[[TrainConfig], Report]


class Recording:
    """What real runs showed, by case. `cases` are all that are recorded, `config(**case)` is the
    run, and `read(case, report)` takes from its report what is kept, as plain JSON values."""

    def __init__(
        self,
        file: Path,
        cases: Callable[[], Iterable[Case]],
        config: Callable[..., TrainConfig],
        read: Callable[[Case, Report], Any],
    ) -> None:
        self.file, self.cases, self._config, self._read = file, cases, config, read

    def measure(self, case: Case, train: Train) -> tuple[Any, str]:
        """Run a case for real; returns what would be kept, and the device."""
        report = train(self._config(**case).replace(steps=STEPS))
        return self._read(case, report), report.device

    def write(self, train: Train) -> None:
        """Measure every case and write the file anew."""
        results = [(dict(case), *self.measure(case, train)) for case in self.cases()]
        conditions = {
            "device": results[0][2],
            "torch": version("torch"),
            "date": datetime.date.today().isoformat(),
        }
        lines = (json.dumps({"case": case, "found": found}) for case, found, _ in results)
        runs = ",\n".join(lines)
        self.file.write_text(
            f'{{"measured": {json.dumps(conditions)},\n"runs": [\n{runs}\n]}}\n', encoding="utf-8"
        )
        self.__dict__.pop("_kept", None)  # the next question reads the new file

    def about(self, lang: str) -> str:
        """On what and when it was measured: torch's version, the processor, the day."""
        conditions = self._kept["measured"]
        device = conditions["device"].split(",")[0]
        return t(", ", "，", lang).join(
            (f"torch {conditions['torch']}", device, conditions["date"])
        )

    @property
    def runs(self) -> list[tuple[dict[str, Any], Any]]:
        """Every recorded case with what was found."""
        return [(run["case"], run["found"]) for run in self._kept["runs"]]

    def found(self, **case: Any) -> Any:
        """What a real run of this case showed; None where it was not run."""
        return self._by_case.get(_key(case))

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return json.loads(self.file.read_text(encoding="utf-8"))

    @property
    def _by_case(self) -> dict[str, Any]:
        kept = self._kept
        if "by_case" not in kept:
            kept["by_case"] = {_key(run["case"]): run["found"] for run in kept["runs"]}
        return kept["by_case"]


def _key(case: Case) -> str:
    return json.dumps(case, sort_keys=True)
