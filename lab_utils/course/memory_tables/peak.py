"""When a step holds most, and of what its peak consists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...config import TrainConfig
from ...i18n import t
from ...report import Report
from ...text import Table, table
from ...widgets.frame.units import percent

if TYPE_CHECKING:
    from ...measure.curve import Reading


def curve_of(config: TrainConfig) -> list[Reading]:
    """Live bytes after each operation of a steady step; for `launch`, on one rank."""
    from ...data.loader import Loader
    from ...engines.ours import OurEngine
    from ...measure.curve import memory_curve
    from ...parallel.mesh import Mesh

    engine = OurEngine(config, Mesh(config.parallel))
    first, second = Loader(config.replace(steps=2))
    engine.forward_backward(first)
    engine.update()
    return memory_curve(engine, second)


def place_of(phase: str, part: str) -> str:
    """Where in a step something happens: "forward", "loss", "middle" of the backward pass, or
    "update"."""
    if part == "head_loss":
        return "loss"
    return {"forward": "forward", "update": "update"}.get(phase, "middle")


def tops(moments: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    """The most bytes alive while each block works, forward and backward, from (phase, part,
    bytes)."""
    found: dict[tuple[str, str], int] = {}
    for phase, part, nbytes in moments:
        if part.startswith("blocks"):
            found[phase, part] = max(nbytes, found.get((phase, part), 0))
    return found


def measured_tops(readings: Iterable[Reading]) -> dict[tuple[str, str], int]:
    """`tops` of a measured curve."""
    return tops((r.phase, r.part, r.live_bytes) for r in readings)


def estimated_tops(config: TrainConfig) -> dict[tuple[str, str], int]:
    """`tops` of the estimate's own curve."""
    from ...estimate.memory.curve import step_curve

    return tops(
        (m.phase, ".".join(m.label.split(".")[:2]), m.peak_bytes) for m in step_curve(config)
    )


def _run_words(run: Report) -> str:
    config = TrainConfig.from_dict(run.config)
    count, vocab = config.global_batch, config.model.vocab
    tokens = count * config.model.seq
    weights = "bf16" if config.precision == "bf16-pure" else "fp32"
    return t(
        f"{tokens} tokens, vocabulary {vocab:,}, {weights}",
        f"{tokens} 个词元，词表 {vocab}，{weights}",
    )


def peaks_table(runs: Iterable[tuple[Report, Report]]) -> Table:
    """Of what each peak consists, of (measured, estimated)."""
    terms = {
        "activations": t("activations", "激活值"),
        "temporary": t("temporary", "临时张量"),
        "optimizer": t("optimizer", "优化器"),
        "parameters": t("parameters", "参数"),
        "gradients": t("gradients", "梯度"),
    }
    rows: list[Sequence[Any]] = [
        ("", t("peak, bytes", "峰值，字节"), *terms.values(), t("equal", "一致"))
    ]
    for run, expected in runs:
        memory, foreseen = run.ranks[0].memory, expected.ranks[0].memory
        shares = [percent(memory["at_peak"].get(term, 0) / memory["peak"]) for term in terms]
        same = memory["at_peak"] == foreseen["at_peak"]
        rows.append((_run_words(run), f"{memory['peak']:,}", *shares, same))
    return table(rows)
