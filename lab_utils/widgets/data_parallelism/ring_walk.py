"""One data-parallel step as a walk: shards, forward, backward, then the ring chunk by chunk, then
equal weights again.

The hops come from layout/ring.py and are carried out here on sets of rank numbers, so a chunk's
count is the number of gradients that are really in its sum.
"""

from __future__ import annotations

import functools

from ...i18n import t
from ...layout.ring import Hop, ring_all_reduce
from ..frame.controls import Option, State
from ..frame.scene import Item, Scene, arrow, rect, text

# "start", "forward", "backward", the number of ring steps done, "update"
Moment = str | int
Sums = list[list[frozenset[int]]]

WIDTH, HEIGHT = 760, 358
# up to so many ranks every rank and every step is drawn; above, the first three and the last
DRAWN_WHOLE = 8
_LEFT, _RIGHT, _GAP = 116, 745, 26
_BATCH, _WEIGHTS, _LOSS, _GRADIENT, _BOTTOM = 34, 66, 98, 154, 352
_ROW = 24


def moments(ranks: int) -> list[Option]:
    """The options of the walk's slider for so many ranks."""
    last, half = 2 * (ranks - 1), ranks - 1
    ring: list[Option]
    if ranks <= DRAWN_WHOLE:
        ring = [
            (i, (f"ring step {i} of {last}", f"环形第 {i} 步，共 {last} 步"))
            for i in range(1, last + 1)
        ]
    else:
        ring = [
            (half, (f"ring steps 1 to {half}", f"环形第 1 至 {half} 步")),
            (last, (f"ring steps {ranks} to {last}", f"环形第 {ranks} 至 {last} 步")),
        ]
    before: list[Option] = [
        ("start", ("start", "开始")),
        ("forward", ("forward pass", "前向传播")),
        ("backward", ("backward pass", "反向传播")),
    ]
    return [*before, *ring, ("update", ("update", "更新权重"))]


@functools.cache
def ring_sums(ranks: int) -> list[Sums]:
    """Whose gradients are in each chunk: after each step of the ring (first: before it), by rank
    and chunk."""
    held: Sums = [[frozenset((rank,)) for _ in range(ranks)] for rank in range(ranks)]
    history = [held]
    for hops in ring_all_reduce(ranks):
        before, held = held, [list(chunks) for chunks in held]
        for hop in hops:
            sent, own = before[hop.sender][hop.chunk], before[hop.receiver][hop.chunk]
            held[hop.receiver][hop.chunk] = sent | own if hop.action == "add" else sent
        history.append(held)
    return history


def scene(state: State, lang: str) -> Scene:
    """The walk of `state["ranks"]` ranks at `state["moment"]`."""
    ranks, moment = state["ranks"], state["moment"]
    return {
        "items": _frame(ranks, moment, lang) + _gradients(ranks, moment, lang),
        "alt": _summary(ranks, moment, lang),
    }


def _shown(ranks: int) -> list[int]:
    """The ranks, and the chunks, that are drawn."""
    return list(range(ranks)) if ranks <= DRAWN_WHOLE else [0, 1, 2, ranks - 1]


def _columns(ranks: int) -> tuple[dict[int, float], float]:
    """Left edge of each drawn rank, and the width of all. A column stays empty for the ranks that
    are left out."""
    shown = _shown(ranks)
    places = len(shown) + (ranks > DRAWN_WHOLE)
    pitch = min(210, (_RIGHT - _LEFT) / places)
    return {rank: _LEFT + min(rank, places - 1) * pitch + _GAP / 2 for rank in shown}, pitch - _GAP


def _rows(ranks: int) -> tuple[dict[int, float], float]:
    """Top edge of each drawn chunk, and the height of all."""
    shown = _shown(ranks)
    places = len(shown) + (ranks > DRAWN_WHOLE)
    height = (_BOTTOM - _GRADIENT) / places
    return {chunk: _GRADIENT + min(chunk, places - 1) * height for chunk in shown}, height


def _frame(ranks: int, moment: Moment, lang: str) -> list[Item]:
    """Names, batch shards, weights and losses."""
    columns, width = _columns(ranks)
    weights, fill = ("w₁", "blue5") if moment == "update" else ("w₀", "blue1")
    rows = [
        (_BATCH, t("batch", "批次", lang)),
        (_WEIGHTS, t("weights", "权重", lang)),
        (_LOSS, t("loss", "损失", lang)),
        (_GRADIENT - 27, t("gradient", "梯度", lang)),
    ]
    items = [text(f"row{y}", 0, y + 17, words, bold=True) for y, words in rows]
    for rank, x in columns.items():
        middle = x + width / 2
        items += [
            text(f"rank{rank}", middle, 22, f"rank {rank}", anchor="middle", bold=True),
            rect(f"batch{rank}", x, _BATCH, width, _ROW, "sand", rx=3),
            text(
                f"batch-name{rank}",
                middle,
                _BATCH + 17,
                t(f"shard {rank}", f"分片 {rank}", lang),
                "on-sand",
                12,
                "middle",
            ),
            rect(f"weights{rank}", x, _WEIGHTS, width, _ROW, fill, rx=3),
            text(f"weights-name{rank}", middle, _WEIGHTS + 17, weights, f"on-{fill}", 13, "middle"),
            rect(f"loss{rank}", x, _LOSS, width, _ROW, "void", rx=3, stroke="rule"),
        ]
        if moment != "start":
            items.append(
                text(
                    f"loss-name{rank}",
                    middle,
                    _LOSS + 17,
                    f"ℓ{_subscript(rank)}",
                    "ink",
                    13,
                    "middle",
                )
            )
    if ranks > DRAWN_WHOLE:
        middle = (columns[2] + width + columns[ranks - 1]) / 2
        items += [
            text(f"more{y}", middle, y + 17, "⋯", "soft", 20, "middle")
            for y in (_BATCH, _WEIGHTS, _LOSS, (_GRADIENT + _BOTTOM) // 2)
        ]
    return items


def _gradients(ranks: int, moment: Moment, lang: str) -> list[Item]:
    """The chunks of every gradient, and those on their way."""
    columns, width = _columns(ranks)
    rows, height = _rows(ranks)
    arrived = {(hop.receiver, hop.chunk) for hop in _hops(ranks, moment)}
    items = [
        text(f"chunk-name{c}", 0, y + height / 2 + 4, t(f"chunk {c}", f"块 {c}", lang), "soft", 12)
        for c, y in rows.items()
        if ranks > 1
    ]
    if ranks > DRAWN_WHOLE:
        items.append(text("more-chunks", 14, rows[2] + 1.5 * height + 4, "⋮", "soft", 16))
    for rank, x in columns.items():
        for chunk, y in rows.items():
            fill, words, title = _chunk(ranks, rank, chunk, moment, lang)
            look: dict[str, str] = {"stroke": "rule"} if fill == "void" else {}
            if (rank, chunk) in arrived:
                look["class"] = "late"
            box = rect(
                f"cell{rank}-{chunk}",
                x,
                y + 1.5,
                width,
                height - 3,
                fill,
                rx=3,
                title=title,
                **look,
            )
            items.append(box)
            if words:
                items.append(_count(rank, chunk, words, fill, (rank, chunk) in arrived))
                items[-1] |= {"x": round(x + width / 2, 1), "y": round(y + height / 2 + 4.5, 1)}
    return items + _on_the_way(ranks, moment)


def _count(rank: int, chunk: int, words: str, fill: str, is_new: bool) -> Item:
    """How many gradients are in a chunk. A new number is a new element, which appears when the
    chunk has landed."""
    key = f"count{rank}-{chunk}-{words}" if is_new else f"count{rank}-{chunk}"
    look = {"pointer-events": "none"} | ({"class": "landing"} if is_new else {})
    return text(key, 0, 0, words, f"on-{fill}", 13, "middle", **look)


def _on_the_way(ranks: int, moment: Moment) -> list[Item]:
    """The chunks that are passed on, each where it has just arrived: from one picture to the next
    they fly one rank further. What leaves at the right edge comes in again at the left as another
    element, so that nothing flies back over the whole ring."""
    if not 1 < ranks <= DRAWN_WHOLE:
        return []
    done = 0 if moment in ("start", "forward", "backward") else 2 * (ranks - 1)
    done = moment if isinstance(moment, int) else done
    columns, width = _columns(ranks)
    rows, height = _rows(ranks)
    pitch = columns[1] - columns[0]
    items = []
    for first in ring_all_reduce(ranks)[0]:
        for lap in range(3):
            place = first.sender + done - lap * ranks
            inside = 0 <= place < ranks
            x = columns[0] + min(max(place, -0.5), ranks - 0.5) * pitch
            seen = 0.0 if not inside or not isinstance(moment, int) else 1.0
            look = {"stroke": "fire", "stroke-width": 3, "fill-opacity": 0.15, "opacity": seen}
            items.append(
                rect(
                    f"fly{first.chunk}-{lap}",
                    x,
                    rows[first.chunk] + 1.5,
                    width,
                    height - 3,
                    "fire",
                    rx=3,
                    **look,
                    **{"class": "fly", "pointer-events": "none"},
                )
            )
    for hop in _hops(ranks, moment):
        y, start = rows[hop.chunk] + height / 2, columns[hop.sender] + width
        items.append(arrow(f"hop{hop.sender}", start + 3, y, start + _GAP - 3, "fire"))
        # the ring closes: what leaves at the right edge enters at the left
        if hop.receiver == 0:
            items.append(arrow("hop-home", columns[0] - _GAP + 3, y, columns[0] - 3, "fire"))
    return items


def _hops(ranks: int, moment: Moment) -> list[Hop]:
    return (
        ring_all_reduce(ranks)[moment - 1]
        if isinstance(moment, int) and ranks <= DRAWN_WHOLE
        else []
    )


def _chunk(
    ranks: int, rank: int, chunk: int, moment: Moment, lang: str
) -> tuple[str, str, str | None]:
    """Colour, words and tooltip of one chunk of one rank."""
    if moment in ("start", "forward"):
        return "void", "", None
    if moment == "backward":
        return "blue1", f"1/{ranks}", None
    if ranks > DRAWN_WHOLE:
        # layout/ring.py: the reduce-scatter leaves chunk r complete on rank r, the all-gather every
        # chunk everywhere
        complete = moment != ranks - 1 or rank == chunk
        return (
            ("blue5", f"{ranks}/{ranks}", None)
            if complete
            else ("blue3", t("partial", "部分和", lang), None)
        )
    held = sorted(ring_sums(ranks)[moment if isinstance(moment, int) else -1][rank][chunk])
    share = len(held) / ranks
    fill = (
        "blue5"
        if share == 1
        else (
            "blue1"
            if len(held) == 1
            else "blue2"
            if share <= 0.5
            else "blue3"
            if share <= 0.75
            else "blue4"
        )
    )
    title = t(
        f"rank {rank}, chunk {chunk}: sum of the gradients of ranks {', '.join(map(str, held))}",
        f"rank {rank} 的块 {chunk}：rank {'、'.join(map(str, held))} 的梯度之和",
        lang,
    )
    return fill, f"{len(held)}/{ranks}", title


def _summary(ranks: int, moment: Moment, lang: str) -> str:
    """What the picture says."""
    if ranks == 1:
        return t(*_ALONE[moment], lang)
    steps = moment if isinstance(moment, int) else 2 * (ranks - 1)
    sent = f"{steps / ranks:.4g}"
    so_far = t(
        f"So far each rank has sent {sent} × its gradient.",
        f"至此，每个 rank 发送了 {sent} 份梯度。",
        lang,
    )
    if moment == "start":
        return t(
            f"{ranks:,} ranks start from the same weights w₀. Each takes its own shard of the"
            " global batch.",
            f"{ranks:,} 个 rank 从相同的权重 w₀ 出发，各自取全局批次的一个分片。",
            lang,
        )
    if moment == "forward":
        return t(
            "Forward pass: each rank computes the loss of its own shard. Nothing travels.",
            "前向传播：每个 rank 计算自己那个分片的损失，不需要通信。",
            lang,
        )
    if moment == "backward":
        return t(
            "Backward pass: each rank has a whole gradient, but of its own shard only, 1 of"
            f" {ranks:,} contributions. One model needs their sum.",
            f"反向传播：每个 rank 都有了完整的梯度，但只来自自己的分片，是 {ranks:,} 份贡献中的 1"
            " 份。要保持同一个模型，就得求和。",
            lang,
        )
    if moment == "update":
        return t(
            f"Each rank divides the sum by {ranks:,} and updates: the same weights w₁ everywhere. "
            f"Each sent one chunk in each of {steps:,} steps: {sent} times its gradient.",
            f"每个 rank 把总和除以 {ranks:,} 再更新：各处得到相同的权重 w₁。共 {steps:,} 步，"
            f"每步发送一块，合计 {sent} 份梯度。",
            lang,
        )
    if steps < ranks - 1:
        return t(
            f"Ring step {steps}, reduce-scatter: each rank sends one chunk to its right neighbour,"
            f" which adds it to its own. The fullest chunks hold {steps + 1} of {ranks}"
            f" contributions. {so_far}",
            f"环形第 {steps} 步，reduce-scatter："
            "每个 rank 把一块发给右邻，右邻把它加到自己的块上。"
            f"最满的块已含 {ranks} 份贡献中的 {steps + 1} 份。{so_far}",
            lang,
        )
    if steps == ranks - 1:
        return t(
            f"Ring step {steps:,} ends the reduce-scatter: each rank owns one finished chunk, with"
            f" all {ranks:,} contributions. {so_far}",
            f"环形第 {steps:,} 步，reduce-scatter 完成：每个 rank 各有一块凑齐了全部 {ranks:,}"
            f" 份贡献。{so_far}",
            lang,
        )
    finished = f"{steps - ranks + 2:,}"
    return t(
        f"Ring step {steps:,}, all-gather: finished chunks travel on and are copied. Each rank has"
        f" {finished} of {ranks:,} finished chunks. {so_far}",
        f"环形第 {steps:,} 步，all-gather：凑齐的块继续传给右邻，右邻直接复制。"
        f"{ranks:,} 块中，每个 rank 已有 {finished} 块。{so_far}",
        lang,
    )


_ALONE = {
    "start": ("One rank takes the whole batch.", "只有一个 rank，由它处理整个批次。"),
    "forward": ("Forward pass: the loss of the whole batch.", "前向传播：得到整个批次的损失。"),
    "backward": (
        "Backward pass: the gradient is whole at once. There is nobody to share it with.",
        "反向传播：梯度一次就完整了，没有别的 rank 需要同步。",
    ),
    "update": (
        (
            "The weights are updated and nothing was sent. All other layouts are measured against"
            " this step."
        ),
        "更新权重，没有发送任何数据。其他并行布局都以这一步为基准。",
    ),
}


def _subscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
