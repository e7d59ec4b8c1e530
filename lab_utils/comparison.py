"""`compare(estimated, measured)`: two reports of the same run, term by term, as a table and as a
figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .i18n import t
from .report import MEMORY_TERMS, TIME_TERMS, RankReport, Report
from .text import Table, difference, table

_CHINESE = {
    "job": "整个任务",
    "memory": "内存",
    "traffic": "通信",
    "time": "时间",
    "FLOPs": "浮点运算量",
    "parameters": "参数",
    "gradients": "梯度",
    "optimizer": "优化器状态",
    "activations": "激活值",
    "offloaded": "卸载到主机的状态",
    "weight_copies": "权重副本",
    "gathered": "收集来的参数",
    "batch": "批次数据",
    "buckets": "桶的额外占用",
    "temporary": "临时张量",
    "peak": "峰值",
    "at peak:": "峰值时：",
    "gradient": "梯度",
    "parameter": "参数",
    "activation": "激活值",
    "update": "更新",
    "control": "控制",
    "calls": "次数",
    "bytes": "数据量",
    "wire_bytes": "实发字节数",
    "compute": "计算",
    "communication": "未被掩盖的通信",
    "bubble": "气泡",
    "data": "数据",
    "step": "一步",
    "hidden": "被掩盖的通信",
}


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
        return t(f"{self.group} · {self.term}", f"{_CHINESE[self.group]} · {self.short_label}")

    @property
    def short_label(self) -> str:
        """The term in the reader's language."""
        prefix, rest = (
            ("at peak:", self.term[9:]) if self.term.startswith("at peak:") else ("", self.term)
        )
        words = [rest] if rest in _CHINESE else rest.split(" ")
        return t(
            self.term,
            _CHINESE.get(prefix, "") + " ".join(_CHINESE.get(word, word) for word in words),
        )

    @property
    def error(self) -> float | None:
        """(estimated − measured) ÷ measured; None where a side is missing, ±inf where measured is 0
        and estimated is not."""
        if self.estimated is None or self.measured is None:
            return None
        if self.estimated == self.measured:
            return 0.0
        return (
            (self.estimated - self.measured) / self.measured
            if self.measured
            else float("inf") * self.estimated
        )


@dataclass(frozen=True)
class Comparison:
    """Rows of `compare`: `print` and a notebook's `display` show them as a table, `figure()` as
    bars beside each other."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return self._table()

    def _table(self) -> Table:
        several = len({r.rank for r in self.rows}) > 1
        head = (
            t("term", "项目"),
            t("estimated", "估算"),
            t("measured", "实测"),
            t("error", "误差"),
        )
        # nothing on either side is not worth a line
        rows = [r for r in self.rows if r.estimated or r.measured]
        names = [f"rank {r.rank} · {r.label}" if several else r.label for r in rows]
        return table(
            [
                head,
                *(
                    (name, number(r.estimated, r), number(r.measured, r), difference(r.error))
                    for name, r in zip(names, rows, strict=True)
                ),
            ]
        )

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def only(self, *groups: str) -> Comparison:
        """The rows of these groups ("job", "memory", "traffic", "time") that have both sides."""
        return Comparison(tuple(r for r in self.rows if r.group in groups and r.error is not None))

    def worst(self) -> Row | None:
        """The row that is furthest off, among those with both sides."""
        return max(
            (r for r in self.rows if r.error is not None), key=lambda r: abs(r.error), default=None
        )

    def exact(self, *groups: str) -> bool:
        """Whether every row of these groups (all groups if none is named) has both sides, and they
        are equal."""
        rows = [r for r in self.rows if not groups or r.group in groups]
        return bool(rows) and all(r.error == 0 for r in rows)

    def figure(self) -> Any:
        """A plotly figure: for each group its terms, estimated over measured; what is not exact
        stands out, the worst most."""
        from .comparison_figure import comparison_figure

        return comparison_figure(self)


def compare(estimated: Report, measured: Report, ranks: Iterable[int] = (0,)) -> Comparison:
    """Lay two reports of the same run side by side, for the given ranks.

    Raises ValueError if their configs differ (a comparison of two different runs would mean
    nothing), or for a rank that they do not have.
    """
    differ = sorted(
        k
        for k in {*estimated.config, *measured.config}
        if estimated.config.get(k) != measured.config.get(k)
    )
    if differ:
        raise ValueError(
            t(
                f"these reports are of different runs: {', '.join(differ)} differ.",
                f"这两份报告不是同一个运行：{'、'.join(differ)} 不同。",
            )
        )
    rows = [Row(0, "job", "FLOPs", estimated.flops.get("model"), measured.flops.get("model"))]
    for rank in ranks:
        if not 0 <= rank < min(estimated.world_size, measured.world_size):
            raise ValueError(
                t(
                    f"there is no rank {rank}: the reports have ranks 0 to"
                    f" {measured.world_size - 1}.",
                    f"没有 rank {rank}：报告中的 rank 为 0 到 {measured.world_size - 1}。",
                )
            )
        rows += _rows(rank, estimated.ranks[rank], measured.ranks[rank])
    return Comparison(tuple(r for r in rows if r.estimated is not None or r.measured is not None))


def _rows(rank: int, e: RankReport, m: RankReport) -> Iterator[Row]:
    for term in MEMORY_TERMS:
        yield Row(rank, "memory", term, e.memory.get(term), m.memory.get(term))
    at_peak = [side.memory.get("at_peak") or {} for side in (e, m)]
    if all(at_peak):
        for term in dict.fromkeys((*at_peak[0], *at_peak[1])):
            yield Row(rank, "memory", f"at peak: {term}", *(side.get(term, 0) for side in at_peak))
    for key in dict.fromkeys((x.op, x.axis, x.purpose) for x in (*e.traffic, *m.traffic)):
        where = dict(zip(("op", "axis", "purpose"), key, strict=True))
        for what in ("calls", "bytes", "wire_bytes"):
            yield Row(
                rank,
                "traffic",
                f"{key[2]} {key[0]} @{key[1]} {what}",
                e.total(what, **where),
                m.total(what, **where),
            )
    for term in TIME_TERMS:
        yield Row(rank, "time", term, e.time.get(term), m.time.get(term))


def number(value: float | None, row: Row) -> str:
    """A value of a row as a learner reads it: whole bytes, calls and FLOPs, times in
    milliseconds."""
    if value is None:
        return "–"
    return f"{1e3 * value:,.2f} ms" if row.group == "time" else f"{value:,.0f}"
