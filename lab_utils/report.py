"""Report: what one optimizer step costs, rank by rank; the same shape estimated or measured. No torch in here.

`estimate` and `train` both return one; `compare` lays two side by side, term by term. Bytes are bytes, times are
seconds of the median step, FLOPs are of the whole job and one step. A term that was not looked at is None, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from .i18n import t
from .text import table

SCHEMA = 1
MEMORY_TERMS = ("parameters", "gradients", "optimizer", "activations", "offloaded", "weight_copies", "gathered", "buckets", "temporary", "peak")
TIME_TERMS = ("compute", "communication", "bubble", "data", "step", "hidden")


@dataclass(frozen=True)
class Traffic:
    """One kind of call in one step on one rank.

    `bytes` is the unsharded tensor of the collective, padding included (point-to-point: what the sender sends);
    `wire_bytes` is what this rank sends with a ring.
    """

    op: str
    axis: str
    purpose: Literal["gradient", "parameter", "activation", "control"]
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
        """Sum over the traffic entries that match, e.g. `total("wire_bytes", purpose="gradient", axis="dp")`."""
        return sum(getattr(entry, what) for entry in self.traffic if all(getattr(entry, k) == v for k, v in where.items()))


@dataclass(frozen=True)
class Report:
    """What `estimate` and `train` return; `to_json` writes the keys that design and README describe."""

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
    loss_scale: tuple[float, ...] = ()          # fp16: of every step
    skipped_steps: tuple[int, ...] = ()         # fp16: those whose gradients overflowed
    segments: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts, ready for json."""
        return {"schema": SCHEMA, "world_size": self.world_size, **asdict(self)}

    def to_json(self, indent: int | None = 1) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Report:
        """Read `to_dict`'s result back; keys that this version does not know are ignored.

        Raises ValueError for another schema.
        """
        if not isinstance(raw, Mapping):
            raise ValueError(t("this is no report: a report is a JSON object.", "这不是报告：报告应是一个 JSON 对象。"))
        if raw.get("schema") != SCHEMA:
            found = raw.get("schema")
            raise ValueError(t(f"this is no report of schema {SCHEMA}: its schema is {found!r}.", f"这不是 schema {SCHEMA} 的报告：它的 schema 是 {found!r}。"))
        ranks = tuple(
            RankReport(**_known(RankReport, r) | {"traffic": tuple(Traffic(**_known(Traffic, e)) for e in r["traffic"])}) for r in raw["ranks"]
        )
        plain = _known(cls, raw)
        return cls(**plain | {"ranks": ranks} | {k: tuple(plain.get(k, ())) for k in ("loss", "loss_scale", "skipped_steps", "segments", "notes")})

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read `to_json`'s text back."""
        return cls.from_dict(json.loads(text))


def _known(cls: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in raw.items() if k in cls.__dataclass_fields__}


_CHINESE = {
    "job": "整个任务", "memory": "内存", "traffic": "通信", "time": "时间", "FLOPs": "浮点运算量",
    "parameters": "参数", "gradients": "梯度", "optimizer": "优化器状态", "activations": "激活值", "offloaded": "卸载到主机的状态",
    "weight_copies": "权重副本", "gathered": "聚合的参数",
    "buckets": "桶的额外占用", "temporary": "临时张量", "peak": "峰值",
    "gradient": "梯度", "parameter": "参数", "activation": "激活值", "control": "控制", "calls": "次数", "bytes": "数据量", "wire_bytes": "实发字节数",
    "compute": "计算", "communication": "暴露的通信", "bubble": "气泡", "data": "数据", "step": "一步", "hidden": "隐藏的通信",
}  # fmt: skip


class Row(NamedTuple):
    """One term of one rank, estimated beside measured."""

    rank: int
    group: str
    term: str
    estimated: float | None
    measured: float | None

    @property
    def label(self) -> str:
        """Group and term in the reader's language."""
        words = [self.term] if self.term in _CHINESE else self.term.split(" ")
        return t(f"{self.group} · {self.term}", f"{_CHINESE[self.group]} · {' '.join(_CHINESE.get(word, word) for word in words)}")

    @property
    def error(self) -> float | None:
        """(estimated − measured) ÷ measured; None where a side is missing, ±inf where measured is 0 and estimated is not."""
        if self.estimated is None or self.measured is None:
            return None
        if self.estimated == self.measured:
            return 0.0
        return (self.estimated - self.measured) / self.measured if self.measured else float("inf") * self.estimated


@dataclass(frozen=True)
class Comparison:
    """Rows of `compare`: `print` shows them as a table, `figure()` is a plotly bar chart of the errors."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        several = len({r.rank for r in self.rows}) > 1
        head = (t("term", "项目"), t("estimated", "估算"), t("measured", "实测"), t("error", "误差"))
        names = [f"rank {r.rank} · {r.label}" if several else r.label for r in self.rows]
        return table([head, *((name, _number(r.estimated, r), _number(r.measured, r), _percent(r.error)) for name, r in zip(names, self.rows, strict=True))])

    def only(self, *groups: str) -> Comparison:
        """The rows of these groups ("job", "memory", "traffic", "time") that have both sides."""
        return Comparison(tuple(r for r in self.rows if r.group in groups and r.error is not None))

    def worst(self) -> Row | None:
        """The row that is furthest off, among those with both sides."""
        return max((r for r in self.rows if r.error is not None), key=lambda r: abs(r.error), default=None)

    def exact(self, *groups: str) -> bool:
        """Whether every row of these groups (all groups if none is named) has both sides, and they are equal."""
        rows = [r for r in self.rows if not groups or r.group in groups]
        return bool(rows) and all(r.error == 0 for r in rows)

    def figure(self) -> Any:
        """A plotly bar chart: each term's error in percent, the wrong one standing out."""
        import plotly.graph_objects as go

        rows = [r for r in self.rows if r.error is not None]
        figure = go.Figure(go.Bar(x=[100 * r.error for r in rows], y=[f"rank {r.rank} · {r.label}" for r in rows], orientation="h"))
        return figure.update_layout(xaxis_title=t("error, % of measured", "误差（占实测的百分比）"), yaxis_autorange="reversed", template="simple_white")


def compare(estimated: Report, measured: Report, ranks: Iterable[int] = (0,)) -> Comparison:
    """Lay two reports of the same run side by side, for the given ranks.

    Raises ValueError if their configs differ (a comparison of two different runs would mean nothing), or for a rank
    that they do not have.
    """
    differ = sorted(k for k in {*estimated.config, *measured.config} if estimated.config.get(k) != measured.config.get(k))
    if differ:
        raise ValueError(t(f"these reports are of different runs: {', '.join(differ)} differ.", f"这两份报告不是同一个运行：{'、'.join(differ)} 不同。"))
    rows = [Row(0, "job", "FLOPs", estimated.flops.get("model"), measured.flops.get("model"))]
    for rank in ranks:
        if not 0 <= rank < min(estimated.world_size, measured.world_size):
            raise ValueError(t(f"there is no rank {rank}: the reports have ranks 0 to {measured.world_size - 1}.",
                               f"没有 rank {rank}：报告中的 rank 为 0 到 {measured.world_size - 1}。"))
        e, m = estimated.ranks[rank], measured.ranks[rank]
        for term in MEMORY_TERMS:
            rows.append(Row(rank, "memory", term, e.memory.get(term), m.memory.get(term)))
        for key in dict.fromkeys((x.op, x.axis, x.purpose) for x in (*e.traffic, *m.traffic)):
            where = dict(zip(("op", "axis", "purpose"), key, strict=True))
            for what in ("calls", "bytes", "wire_bytes"):
                rows.append(Row(rank, "traffic", f"{key[2]} {key[0]} @{key[1]} {what}", e.total(what, **where), m.total(what, **where)))
        rows += [Row(rank, "time", term, e.time.get(term), m.time.get(term)) for term in TIME_TERMS]
    return Comparison(tuple(r for r in rows if r.estimated is not None or r.measured is not None))


def _number(value: float | None, row: Row) -> str:
    if value is None:
        return "–"
    return f"{1e3 * value:,.2f} ms" if row.group == "time" else f"{value:,.0f}"


def _percent(error: float | None) -> str:
    return "" if error is None else t("exact", "完全一致") if error == 0 else f"{error:+.1%}"
