"""The names that a tool's settings have in the address of its page: #stage=2&ranks=64, the same in
both languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .controls import Control, option_lists, say

_WORDS = {
    "copy": ("Copy the link to this setting", "复制此设置的链接"),
    "copied": ("Copied.", "已复制。"),
    "unknown": (
        "The address asks for {list}, which this tool does not have. All else is as it asks.",
        "地址中的 {list} 在这个工具里不存在，其余设置均已照办。",
    ),
}


def address(controls: Mapping[str, Control], lang: str) -> dict[str, Any]:
    """What address.js is given. Raises ValueError for two options of a control with one name."""
    return {
        "ids": {name: _lists(control, controls) for name, control in controls.items()},
        "words": {key: say(words, lang) for key, words in _WORDS.items()},
    }


def option_id(value: Any) -> str:
    """The name of an option's value: a number as short as it can be, off and on for a box, the
    fields of a tuple with a hyphen between."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return re.sub(r"e([+-])0*", lambda power: "e" + power[1].strip("+"), f"{value:g}")
    if isinstance(value, tuple):
        return "-".join(map(option_id, value))
    return str(value)


def _lists(control: Control, controls: Mapping[str, Control]) -> list[list[str]]:
    lists = [[option_id(v) for v, _ in listed] for listed in option_lists(control, controls)]
    for ids in lists:
        if len({*ids}) < len(ids):
            raise ValueError(f"two options of {control.name!r} have one name: {', '.join(ids)}.")
    return lists
