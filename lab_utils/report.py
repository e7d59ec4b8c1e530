"""Report: what one optimizer step costs, rank by rank; the same shape estimated or measured. No
torch in here.

`estimate` and `train` both return one; `compare` (comparison.py) lays two side by side, term by
term. Bytes are bytes, times are seconds of the median step, FLOPs are of the whole job and one
step. A term that was not looked at is None, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite, nan
from typing import Any, Literal

from .i18n import t
from .report_shape import refuse_damaged

SCHEMA = 1
MEMORY_TERMS = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "offloaded",
    "weight_copies",
    "gathered",
    "buckets",
    "temporary",
    "peak",
)
TIME_TERMS = ("compute", "communication", "bubble", "data", "step", "hidden")


@dataclass(frozen=True)
class Traffic:
    """One kind of call in one step on one rank.

    `bytes` is the unsharded tensor of the collective, padding included (point-to-point: what the
    sender sends); `wire_bytes` is what this rank sends with a ring.
    """

    op: str
    axis: str
    purpose: Literal["gradient", "parameter", "activation", "update", "control"]
    calls: int
    bytes: int
    wire_bytes: int


@dataclass(frozen=True)
class RankReport:
    """One rank: where it stands on the mesh, and its memory, traffic and time."""

    rank: int
    coords: Mapping[str, int]
    memory: Mapping[str, Any] = field(default_factory=dict)
    traffic: tuple[Traffic, ...] = ()
    time: Mapping[str, float | None] = field(default_factory=dict)

    def total(self, what: Literal["calls", "bytes", "wire_bytes"] = "bytes", **where: str) -> int:
        """Sum over the traffic entries that match, e.g. `total("wire_bytes", purpose="gradient",
        axis="dp")`."""
        return sum(
            getattr(entry, what)
            for entry in self.traffic
            if all(getattr(entry, k) == v for k, v in where.items())
        )


@dataclass(frozen=True)
class Report:
    """What `estimate` and `train` return; `to_json` writes the keys that design and README
    describe."""

    kind: Literal["estimated", "measured"]
    device: str
    config: Mapping[str, Any]
    parameters: int
    ranks: tuple[RankReport, ...]
    engine: str = "ours"
    loss: tuple[float, ...] = ()
    flops: Mapping[str, Any] = field(default_factory=dict)
    tokens_per_second: float | None = None
    mfu: float | None = None
    loss_scale: tuple[float, ...] = ()  # fp16: of every step
    skipped_steps: tuple[int, ...] = ()  # fp16: those whose gradients overflowed
    segments: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    basis: str = ""  # estimated: by whose kernels' rules, and whether that was ever measured

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts, ready for json."""
        return {"schema": SCHEMA, "world_size": self.world_size, **asdict(self)}

    def to_json(self, indent: int | None = 1) -> str:
        """The report as JSON text. What is no number (the loss of a run that diverged) is null, for
        JSON has no word for it."""
        plain = _finite(self.to_dict())
        return json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Report:
        """Read `to_dict`'s result back; keys that this version does not know are ignored.

        Raises ValueError for another schema, and for what is damaged, with the place.
        """
        if not isinstance(raw, Mapping):
            raise ValueError(
                t(
                    "this is no report: a report is a JSON object.",
                    "这不是报告：报告应是一个 JSON 对象。",
                )
            )
        if raw.get("schema") != SCHEMA:
            found = raw.get("schema")
            raise ValueError(
                t(
                    f"this is no report of schema {SCHEMA}: its schema is {found!r}.",
                    f"这不是 schema {SCHEMA} 的报告：它的 schema 是 {found!r}。",
                )
            )
        refuse_damaged(raw)
        ranks = tuple(
            RankReport(
                **_known(RankReport, r)
                | {"traffic": tuple(Traffic(**_known(Traffic, e)) for e in r["traffic"])}
            )
            for r in raw["ranks"]
        )
        plain = _known(cls, raw)
        return cls(
            **plain
            | {"ranks": ranks}
            | {
                k: tuple(plain.get(k, ()))
                for k in ("loss_scale", "skipped_steps", "segments", "notes")
            }
            | {"loss": tuple(nan if x is None else x for x in plain.get("loss", ()))}
        )

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read `to_json`'s text back."""
        return cls.from_dict(json.loads(text))


def _finite(value: Any) -> Any:
    """The same with None for every number that is none."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _known(cls: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in raw.items() if k in cls.__dataclass_fields__}
