"""The colours of the ZeRO tool: one for each kind of bytes, in every panel (and in the memory
anatomy tool)."""

from __future__ import annotations

FILLS = {
    "parameters": "blue5",
    "gathered": "sand",
    "gradients": "blue3",
    "buckets": "stone",
    "optimizer": "blue2",
    "offloaded": "paper",  # outlined: it is in the host's memory
}
OUTLINED = {"stroke": "blue4", "stroke-width": 1.5}
