"""What a report's JSON must look like to be read: a damaged one is named by the place, not by the
error that it would lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .i18n import t

_NUMBER = (int, float)


def refuse_damaged(raw: Mapping[str, Any]) -> None:
    """Raise ValueError, with the first place that is not as it should be."""
    _words(raw, "", kind=("estimated", "measured"))
    _typed(raw, "", device=str, engine=(str,), config=dict, parameters=int, ranks=list)
    for name in ("flops", "loss", "loss_scale", "skipped_steps", "segments", "notes"):
        _typed(raw, "", **({name: dict if name == "flops" else list} if name in raw else {}))
    _all(raw.get("loss", []), "loss", _number_or_none)
    _all(raw.get("flops", {}), "flops", lambda x: _number_or_none(x) or isinstance(x, str))
    _check(bool(raw["ranks"]), "ranks")
    for number, rank in enumerate(raw["ranks"]):
        _rank(rank, f"ranks[{number}]")


def _rank(rank: Any, place: str) -> None:
    _check(isinstance(rank, Mapping), place)
    _typed(rank, place, rank=int, coords=dict, memory=dict, traffic=list, time=dict)
    _all(rank["coords"], f"{place}.coords", lambda x: isinstance(x, int))
    _all(rank["time"], f"{place}.time", _number_or_none)
    for term, value in rank["memory"].items():
        where = f"{place}.memory.{term}"
        if term == "at_peak" and value is not None:
            _check(isinstance(value, Mapping), where)
            _all(value, where, _number)
        else:
            _check(_number_or_none(value), where)
    for i, entry in enumerate(rank["traffic"]):
        where = f"{place}.traffic[{i}]"
        _check(isinstance(entry, Mapping), where)
        _typed(entry, where, op=str, axis=str, calls=int, bytes=int, wire_bytes=int)
        _words(entry, where, purpose=("gradient", "parameter", "activation", "update", "control"))


def _typed(raw: Mapping[str, Any], place: str, **types: Any) -> None:
    for name, kind in types.items():
        value = raw.get(name)
        _check(isinstance(value, kind) and not isinstance(value, bool), f"{place}.{name}")


def _words(raw: Mapping[str, Any], place: str, **words: tuple[str, ...]) -> None:
    for name, known in words.items():
        value = raw.get(name)
        _check(isinstance(value, str) and value in known, f"{place}.{name}")


def _all(values: Any, place: str, fits: Callable[[Any], bool]) -> None:
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    for key, value in pairs:
        _check(fits(value), f"{place}.{key}")


def _number(value: Any) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


def _number_or_none(value: Any) -> bool:
    return value is None or _number(value)


def _check(holds: bool, place: str) -> None:
    if not holds:
        place = place.lstrip(".")
        raise ValueError(
            t(
                f"this report is damaged at {place}: write it again by `train --json` or"
                " `estimate --json`.",
                f"这份报告在 {place} 处已损坏：请用 `train --json` 或 `estimate --json` 重新生成。",
            )
        )
