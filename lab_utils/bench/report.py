"""Rows as a table, and as JSON with what they were measured on."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

from ..i18n import t
from ..machine import cores
from ..text import table
from .rows import Ratio


def as_text(results: list[Ratio]) -> str:
    """The rows as a table."""
    head = (
        "",
        t("median ratio", "比值中位数"),
        t("quartiles", "四分位"),
        t("ms per step, first", "每步毫秒（前者）"),
        t("second", "（后者）"),
    )
    lines = []
    for row in results:
        low, high = row.spread
        name = f"{row.strategy}: {row.first} ÷ {row.second}" + (
            t("  (noise)", "（噪声）") if row.first == row.second else ""
        )
        lines.append(
            (
                name,
                f"{row.median:.3f}",
                f"{low:.3f} – {high:.3f}",
                f"{1e3 * row.first_seconds:.1f}",
                f"{1e3 * row.second_seconds:.1f}",
            )
        )
    return table([head, *lines])


def as_json(results: list[Ratio], **circumstances: Any) -> dict[str, Any]:
    """The rows, and what they were measured on."""
    return {
        "versions": _versions(),
        "machine": platform.machine(),
        "cores": cores(),
        **circumstances,
        "rows": [asdict(row) | {"median": row.median, "spread": row.spread} for row in results],
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("llm-training-lab", "torch", "deepspeed"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
