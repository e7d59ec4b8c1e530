"""The table that travels with a tool: every picture of every panel, each distinct item once,
deflated.

A tool of 2,000 states and 50 items each is 5 MB as plain JSON and about a tenth of that in here.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from .scene import Scene

Table = dict[str, Any]


def pack(scenes: Sequence[Scene | None]) -> Table:
    """{"items": every distinct item, "scenes": for each scene [alt, indices into items], None where
    there is none}."""
    pool: dict[tuple[Any, ...], int] = {}
    packed = [
        scene
        and [
            scene["alt"],
            [pool.setdefault(tuple(item.items()), len(pool)) for item in scene["items"]],
        ]
        for scene in scenes
    ]
    return {"items": [dict(item) for item in pool], "scenes": packed}


def unpack(table: Mapping[str, Any]) -> list[Scene | None]:
    """The scenes of `pack`, put together as explorer.js does it."""
    return [
        entry and {"items": [table["items"][i] for i in entry[1]], "alt": entry[0]}
        for entry in table["scenes"]
    ]


def compress(table: Any) -> str:
    """JSON, deflated by zlib, in base64: the page reads it back with DecompressionStream."""
    return base64.b64encode(
        zlib.compress(json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode(), 9)
    ).decode()


def decompress(words: str) -> Any:
    """The table of `compress`."""
    return json.loads(zlib.decompress(base64.b64decode(words)))


def pooled(controls: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """A table over some controls: each distinct value once, and for every state the position of its
    value; None stands first."""
    pool: dict[Any, int] = {None: 0}
    return {
        "controls": list(controls),
        "at": [pool.setdefault(value, len(pool)) for value in values],
        "values": list(pool),
    }
