"""Every kind of trouble that an answer may make, read from troubles.md, each with what it earns:
`ALL`, `SOME` or `NONE` of its exercise's points. The other exercises of the same notebook are
right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from classroom import right_answers

ALL, SOME, NONE = "all", "some", "none"
PLACE = re.compile(r"^## (all|some|none): (.+) · (.+)\n\n```python\n((?:.*\n)*?)```$", re.M)
LABS = {"ring_all_reduce": "lab05", "zero1": "lab06", "zero2": "lab06", "zero3": "lab06"}
# a ring that is right, within a function
RIGHT = """\
    import torch as _torch
    n, flat = axis.size, tensor.view(-1)
    chunks = [flat[begin:end] for begin, end in chunk_bounds(len(flat), n)]
    for phase in (0, 1):
        for step in range(n - 1):
            leaving = chunks[(axis.rank - step + phase) % n]
            arriving = chunks[(axis.rank - step - 1 + phase) % n]
            came = _torch.empty_like(arriving)
            right, left = (axis.rank + 1) % n, (axis.rank - 1) % n
            axis.exchange(leaving, right, came, left, purpose="gradient")
            arriving.copy_(came if phase else combine(arriving, came))
"""


class Trouble(NamedTuple):
    """One: the exercise, the answer's cell, what it earns, its name in both languages."""

    check: str
    name: str
    chinese: str
    earns: str
    cell: str


def troubles(lab: str, port: int = 0, folder: str = "/") -> list[Trouble]:
    """All of a lab, with a server's port and the folder of the class filled in."""
    text = Path(__file__).with_name("troubles.md").read_text(encoding="utf-8")
    found = []
    for part in re.split(r"^# ", text, flags=re.M)[1:]:
        check, _, body = part.partition("\n")
        places = PLACE.findall(body)
        assert len(places) == body.count("\n## "), check
        if LABS[check] != lab:
            continue
        fill = {"PORT": str(port), "FOLDER": folder, "    RIGHT\n": RIGHT}
        fill["RIGHT\n"] = right_answers(lab)[check] + "\n"
        for earns, name, chinese, cell in places:
            for word, value in fill.items():
                cell = cell.replace(word, value)
            found.append(Trouble(check, name, chinese, earns, cell))
    return found
