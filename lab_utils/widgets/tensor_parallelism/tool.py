"""Items over ranks: the largest share, rank by rank."""

from __future__ import annotations

from ...i18n import t
from ..frame.challenge import Need, Step
from ..frame.controls import Panel, Slider, State
from ..frame.explorer import Explorer
from ..frame.scene import Item, Scene, line, rect, text

ITEMS, MOST = 120, 32
WIDTH, HEIGHT, FLOOR = 640, 200, 180
BAR = WIDTH / MOST


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    ranks = Slider(
        name="ranks",
        label=("Ranks N", "rank 数 N"),
        options=[(n, str(n)) for n in range(1, MOST + 1)],
        play=True,
    )
    panel = Panel(name="shares", scene=scene, controls=("ranks",), width=WIDTH, height=HEIGHT)
    return Explorer(
        "tensor_parallelism",
        ("Tensor parallelism", "张量并行"),
        (ranks,),
        (panel,),
        (_step(40, 3), _step(20, 6)),
        lang,
    )


def shares(ranks: int) -> list[int]:
    """Items on each rank; sizes differ by one at most."""
    return [len(range(rank, ITEMS, ranks)) for rank in range(ranks)]


def scene(state: State, lang: str) -> Scene:
    """A bar for each rank."""
    held = shares(state["ranks"])
    most = t(f"{max(held)} items at most on one rank", f"单个 rank 最多 {max(held)} 份", lang)
    items: list[Item] = [line("floor", 0, FLOOR, WIDTH, FLOOR)]
    for rank, count in enumerate(held):
        height = 140 * count / ITEMS
        items.append(rect(f"bar{rank}", rank * BAR, FLOOR - height, BAR - 4, height, "blue3"))
    items.append(text("most", 0, 20, most, bold=True))
    return {"items": items, "alt": most}


def _step(most: int, solution: int) -> Step:
    """Bring the largest share down to `most` items."""

    def far(state: State, lang: str) -> str | None:
        largest = max(shares(state["ranks"]))
        if largest <= most:
            return None
        return t(
            f"{largest} items on rank 0, {most} wanted.",
            f"rank 0 有 {largest} 份，目标 {most} 份。",
            lang,
        )

    return Step(
        task=(f"At most {most} items on any rank.", f"让每个 rank 最多只有 {most} 份。"),
        needs=(Need(controls=("ranks",), far=far),),
        why=(
            f"{ITEMS} / {solution} = {ITEMS // solution}: nothing is left over.",
            f"{ITEMS} / {solution} = {ITEMS // solution}：正好分完。",
        ),
        solution={"ranks": solution},
    )
