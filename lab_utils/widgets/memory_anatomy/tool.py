"""The memory-anatomy tool: what fills a GPU's memory, term by term, for any model, layout and GPU;
and does it fit?

One panel of sums (terms, frame.sums): the page adds the estimator's bytes up, so that some hundred
million settings need no kernel. A GPU is priced by the rules of CUDA's kernels, which follow
torch's derivative formulas and were not measured on a GPU; the CPU by its own, which were.
"""

from __future__ import annotations

from pathlib import Path

from ..frame.controls import Control, State, Words
from ..frame.explorer import Explorer
from ..frame.sums import Amount, Refusal, SumPanel
from ..frame.sums_scene import HEIGHT, WIDTH
from . import costs
from .challenge import ladder
from .measured import RECORDING, records
from .options import CPU, DEGREES, START, controls, device_bytes, presets
from .terms import degree, terms

KEPT = Path(__file__).with_name("table.json")
# what a layout can fail on
REFUSED_BY = (("model", "pp"), ("model", "tp", "sequence_parallel"))


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    panel, every = panel_and_controls()
    panel = panel.looked_up({control.name: control for control in every})
    return Explorer(
        "memory_anatomy",
        ("GPU memory: what fills it?", "GPU 显存解剖：都被什么占了？"),
        every,
        (panel,),
        ladder(every, panel.name, len(panel.terms)),
        lang,
    )


def keep() -> None:
    """Write the table that travels with the package anew, a minute: after a change in
    `estimate` that the tests point out."""
    panel, every = panel_and_controls()
    panel.keep({control.name: control for control in every})


def panel_and_controls() -> tuple[SumPanel, tuple[Control, ...]]:
    """The only panel, and all controls."""
    parts = terms()
    every = controls(term.label for term in parts)
    panel = SumPanel(
        name="memory",
        width=WIDTH,
        height=HEIGHT,
        terms=parts,
        fill="filled",
        limit=Amount(controls=("gpu",), count=lambda s: (device_bytes(s["gpu"]),)),
        bars=Amount(
            controls=("pp",),
            count=lambda s: {1: (0, -1, -1), 2: (1, -1, 3)}.get(s["pp"], (1, 2, 3)),
        ),
        moments=(("", ""), (", in the update", "，更新时")),
        bar_names=(
            ("every rank", "每个 rank"),
            ("first stage", "首个阶段"),
            ("middle stage", "中间阶段"),
            ("last stage", "末个阶段"),
        ),
        phrases=_phrases(),
        refusals=tuple(Refusal(controls=names, why=_why) for names in REFUSED_BY),
        numbers={"ranks": (tuple(degree(axis) for axis in DEGREES),)},
        named=tuple(control for control in every if control.name in ("model", "gpu")),
        record_controls=tuple(START),
        records=records(tuple(START), {"gpu": CPU, "filled": len(parts)}),
        kept=KEPT,
        presets=presets(len(parts)),
    )
    return panel, every


def _why(state: State, lang: str) -> str | None:
    return costs.refusal(lang, **state)


def _phrases() -> dict[str, Words]:
    about = RECORDING.about("en"), RECORDING.about("zh")
    return {
        "subject": ("{model} on {ranks} × {gpu}", "{model}，{ranks} × {gpu}"),
        "note": (
            "Each term at its most; a peak is at most their sum. GPUs: CUDA's kernels by torch's"
            " formulas, not measured. CPU: measured.",
            "各项取各自的最大值，任何时刻都不超过其总和。GPU 按 CUDA 算子内核的规则（torch"
            " 求导公式），未经实测；CPU 已实测。",
        ),
        "agree": (
            f"▲ measured in a real run ({about[0]}): measured = estimated, to the byte.",
            f"▲ 真实运行的实测值（{about[1]}）：实测 = 估算，逐字节相等。",
        ),
        "differ": (
            f"▲ measured in a real run ({about[0]}): measured ≠ estimated.",
            f"▲ 真实运行的实测值（{about[1]}）：实测 ≠ 估算。",
        ),
    }
