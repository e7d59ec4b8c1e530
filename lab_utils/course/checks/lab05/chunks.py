"""Exercise 1: where N nearly equal chunks begin and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....i18n import t
from ...hints import Ladder
from ..ranks import begin_case, crash, observe, saw
from ..verdict import Failure, Measured

Bounds = list[tuple[int, int]]
VISIBLE = ((12, 4), (9, 4), (7, 3), (5, 4), (3, 4), (0, 3), (1_000_003, 8))      # (numel, n)


def reference(numel: int, n: int) -> Bounds:
    """n chunks whose sizes differ by one at most, the longer ones first; used wherever another exercise needs a right one."""
    return [(chunk * (numel // n) + min(chunk, numel % n), (chunk + 1) * (numel // n) + min(chunk + 1, numel % n)) for chunk in range(n)]


def examine(answer: Callable[[int, int], Bounds], cases: Sequence[tuple[int, int]]) -> Failure | Measured:
    """The first case that fails, or the sizes of the chunks in each."""
    seen = observe(_on_rank, 1, answer, cases)
    rows = [(t("elements", "元素数"), "N", t("sizes of the chunks", "各块大小"))]
    for number, (numel, n) in enumerate(cases):
        case = t(f"numel = {numel:,}, n = {n}", f"numel = {numel:,}、n = {n}")
        facts = seen.complete(number)
        if facts is None:
            return crash(seen, case, None)
        failure = judge(facts[0], numel, n, case)
        if failure:
            return failure
        sizes = [end - begin for begin, end in facts[0]]
        rows.append((f"{numel:,}", str(n), " + ".join(f"{size:,}" for size in sizes)))
    return Measured(tuple(rows))


def judge(bounds: Any, numel: int, n: int, case: str) -> Failure | None:
    """What is wrong with one answer; None if nothing is."""
    if not _pairs(bounds):
        return Failure("chunks.type", t("a list of (begin, end) pairs of whole numbers.", "由 (begin, end) 整数对组成的列表。"), str(bounds), case)
    if len(bounds) != n:
        return Failure("chunks.count", t(f"exactly {n} chunks, one for each rank.", f"恰好 {n} 块，每个 rank 一块。"),
                       t(f"{len(bounds)} chunks: {_short(bounds)}.", f"{len(bounds)} 块：{_short(bounds)}。"), case)
    ends = [0, *(end for _, end in bounds)]
    if [begin for begin, _ in bounds] != ends[:-1] or ends[-1] != numel or any(end < begin for begin, end in bounds):
        return Failure("chunks.cover", t(f"chunks from 0 to {numel:,}, each beginning where the one before ended.", f"各块从 0 到 {numel:,} 首尾相接。"),
                       _short(bounds), case)
    sizes = [end - begin for begin, end in bounds]
    if max(sizes) - min(sizes) > 1:
        return Failure("chunks.balance", t("sizes that differ by one element at most.", "各块大小最多相差一个元素。"),
                       t(f"sizes from {min(sizes):,} to {max(sizes):,}: {_short(sizes)}.",
                         f"最小 {min(sizes):,}、最大 {max(sizes):,}：{_short(sizes)}。"), case)
    return None


def _pairs(bounds: Any) -> bool:
    return isinstance(bounds, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(type(end) is int for end in pair) for pair in bounds)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"


def _on_rank(answer: Callable[[int, int], Bounds], cases: Sequence[tuple[int, int]], patience: float) -> None:
    for number, (numel, n) in enumerate(cases):
        begin_case(number, patience)
        bounds = answer(numel, n)
        saw(number, bounds if _pairs(bounds) else _short(bounds))
        if judge(bounds, numel, n, ""):          # the verdict is clear, and a later case might hang
            return


HINTS: dict[str, Ladder] = {
    "chunks.type": (
        ("The shape of the result is not what the ring will read.",
         "返回值的形式不是环形算法要读取的那种。"),
        ("Return one list; its item number r is the pair (begin, end) of chunk r.",
         "返回一个列表，第 r 项是第 r 块的 (begin, end)。"),
        ("Python ints come from // and divmod; / gives floats. The line that is there already appends the pair.",
         "// 和 divmod 得到整数，而 / 得到浮点数。已给出的那一行会把这一对加入列表。"),
    ),
    "chunks.count": (
        ("The number of chunks is not the number of ranks.",
         "块数与 rank 数不一致。"),
        ("Every rank starts one chunk on its way, so there are always n, even if some are empty.",
         "每个 rank 都要发出一块，所以永远是 n 块，哪怕其中有空块。"),
        ("Let the loop run over range(n), not over the elements. A chunk size that is rounded up, as in torch.chunk, uses the "
         "elements up too early.",
         "循环应遍历 range(n)，而不是遍历元素。像 torch.chunk 那样把块大小向上取整，元素会提前用完。"),
    ),
    "chunks.cover": (
        ("Some element belongs to no chunk, or to two.",
         "有的元素不属于任何一块，或者同时属于两块。"),
        ("The sizes must add up to numel: what the division leaves over still has to go somewhere.",
         "各块大小之和必须等于 numel：除法的余数也要有去处。"),
        ("divmod(numel, n) gives size and remainder; the first `remainder` chunks are one element longer.",
         "divmod(numel, n) 给出块大小和余数；前“余数”块各多一个元素。"),
    ),
    "chunks.balance": (
        ("One chunk is much longer than another.",
         "有的块比别的块长得多。"),
        ("In every step of the ring all ranks wait for the longest chunk: one long chunk sets the pace.",
         "环的每一步，所有 rank 都要等最长的那一块：一块过长，全体变慢。"),
        ("Do not give the whole remainder to the last chunk: hand it out one element at a time.",
         "不要把余数全部塞给最后一块，应当每块只多分一个元素。"),
    ),
    "raised": (
        ("Your function raised an exception; it is quoted above.",
         "你的函数抛出了异常，见上面的引文。"),
        ("It must work for every numel from 0 up, and n may be larger than numel.",
         "numel 可以是从 0 起的任何整数，n 也可以比 numel 大。"),
        ("Call it yourself in a new cell with the numbers of the test above, and print what each line computes.",
         "新开一个单元格，用上面的测试条件亲自调用它，打印每一行算出的值。"),
    ),
    "hung": (
        ("Your function did not return.",
         "你的函数一直没有返回。"),
        ("There are exactly n chunks, so n turns of one loop are enough.",
         "恰好有 n 块，所以一个循环转 n 圈就够了。"),
        ("Use `for chunk in range(n)` rather than a while over the elements: a chunk of size 0 never moves `begin`.",
         "请用 for chunk in range(n)，而不是按元素 while 循环：块大小为 0 时，begin 永远不会前进。"),
    ),
}
