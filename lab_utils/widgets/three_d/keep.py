"""`python -m lab_utils.widgets.three_d.keep`: count all bytes that the tool asks for, search all
its plans, and keep them in held.json. Takes a minute."""

from __future__ import annotations

import json

from ..frame.controls import states
from .costs import QUESTION, SETTING, SITES, cost_of
from .held import FILE, found_best, kept
from .tool import controls


def main() -> None:
    """Write held.json anew."""
    kept().update(bytes={}, best={})
    by_name = {control.name: control for control in controls()}
    for state in states([by_name[name] for name in SETTING]):
        cost_of(state)
    for state in states([by_name[name] for name in QUESTION]):
        site = SITES[state["site"]]
        found_best(site.gpu, site.gpus, state["model"], state["share"] * site.gpus)
    rows = json.dumps(kept(), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    FILE.write_text(rows + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
