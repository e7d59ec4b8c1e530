"""A plan of tensor parallelism: which layers of a model, by patterns of their names, are shared out
in which style; and what is said of a plan that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from torch import nn

from ..i18n import t
from .styles import STYLES, kind_of


@dataclass(frozen=True)
class Cut:
    """A style with its particulars. `groups`: so many weights lie one after the other in one, and
    each is cut (3 for a fused query, key, value). `unit`: features that stay together (a head's
    size)."""

    style: str
    groups: int = 1
    unit: int = 1


class Attributes(tuple[str, ...]):
    """Attributes("num_heads", …): what a module counts, and now has 1/N of."""

    def __new__(cls, *names: str) -> Attributes:
        return super().__new__(cls, names)


Entry = str | Cut | Attributes
TensorPlan = Mapping[str, Entry | list[Entry]]


def matched(module: nn.Module, plan: TensorPlan) -> list[tuple[str, Entry]]:
    """Every entry with the name of each module that it is for."""
    names = [name for name, _ in module.named_modules()]
    found = []
    for pattern, entries in plan.items():
        matched = [name for name in names if fnmatchcase(name, pattern)]
        if not matched:
            near = get_close_matches(pattern, names, 1, cutoff=0)
            raise ValueError(
                t(
                    f"the plan's {pattern!r} is the name of no module; the nearest is {near[0]!r}.",
                    f"计划中的 {pattern!r} 没有匹配任何模块；最接近的名称是 {near[0]!r}。",
                )
            )
        for entry in entries if isinstance(entries, list) else [entries]:
            found += [(name, Cut(entry) if isinstance(entry, str) else entry) for name in matched]
    styles: dict[str, str] = {}
    for name, entry in found:
        if isinstance(entry, Attributes) or entry.style == "enter":
            continue
        if (one := styles.setdefault(name, entry.style)) != entry.style:
            raise ValueError(
                t(
                    f"{name}: the plan gives it two styles, {one!r} and {entry.style!r}.",
                    f"{name}：计划给了它两种切分方式，{one!r} 和 {entry.style!r}。",
                )
            )
    return found


def is_style(entry: Entry, style: str) -> bool:
    return isinstance(entry, Cut) and entry.style == style


def refuse_entry(module: nn.Module, name: str, entry: Entry, ranks: int) -> None:
    """Raise ValueError for an entry that does not fit the module or the number of ranks."""
    if isinstance(entry, Attributes):
        for attribute in entry:
            _divides(f"{name}.{attribute}".lstrip("."), getattr(module, attribute), ranks)
        return
    if entry.style not in STYLES:
        raise ValueError(
            t(
                f"{name}: there is no style {entry.style!r}; choose {', '.join(STYLES)}.",
                f"{name}：没有名为 {entry.style!r} 的切分方式，可选：{'、'.join(STYLES)}。",
            )
        )
    style, found = STYLES[entry.style], kind_of(module)
    if style.size is None:
        return
    unlike = found is None or found[0] not in style.kinds
    if unlike or getattr(module, "groups", 1) != 1 or getattr(module, "in_proj_weight", 1) is None:
        raise ValueError(
            t(
                f"{name}: {type(module).__name__} cannot be cut by {entry.style!r}, which is for"
                f" {', '.join(style.kinds)} (convolutions in one group, attention with one fused"
                " projection).",
                f"{name}：{type(module).__name__} 不能按 {entry.style!r} 切分，这种方式用于"
                f" {'、'.join(style.kinds)}（卷积只能有一组，注意力的投影须合为一个权重）。",
            )
        )
    if not style.uneven:
        size = getattr(module, found[1].sizes[style.size == "inputs"])
        _divides(
            f"{name}.{found[1].sizes[style.size == 'inputs']}",
            size,
            ranks,
            entry.groups,
            entry.unit,
        )


def _divides(what: str, size: int, ranks: int, groups: int = 1, unit: int = 1) -> None:
    runs, rest = divmod(size, groups * unit)
    if rest:
        raise ValueError(
            t(
                f"{what} = {size} is not {groups} groups in units of {unit}.",
                f"{what} = {size} 不能分成 {groups} 组、每 {unit} 个一份。",
            )
        )
    if runs % ranks == 0:
        return
    fits = [n for n in range(1, runs + 1) if runs % n == 0]
    below, above = [n for n in fits if n < ranks][-1:], [n for n in fits if n > ranks][:1]
    nearest = [str(n) for n in below + above]
    units_en = f" in units of {groups * unit}" if groups * unit > 1 else ""
    units_zh = f"（每 {groups * unit} 个不可分）" if groups * unit > 1 else ""
    raise ValueError(
        t(
            f"{what} = {size}{units_en} cannot be shared out equally to {ranks} ranks; degrees that"
            f" work: {' or '.join(nearest)}.",
            f"{what} = {size}{units_zh} 无法平分给 {ranks} 个 rank；"
            f"可行的并行度：{' 或 '.join(nearest)}。",
        )
    )
