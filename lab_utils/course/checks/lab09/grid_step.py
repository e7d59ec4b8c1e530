"""Exercise 4: one step on three axes at once, by hand, on real ranks: the cases and the verdict."""

from __future__ import annotations

from math import isclose
from random import Random
from typing import Any

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from ..wrong import Look
from .block import ITEM, WIDTH, Case, network, right
from .grid_ranks import SMALL, Facts, run


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """Whether everything was computed, the loss, gradients, then what it took to get them."""
    tests = (_complete, _loss, _elsewhere, _gradients, _sent)
    return next((found for test in tests if (found := test(case, facts))), None)


def _complete(case: Case, facts: list[Facts]) -> Failure | None:
    for rank, f in enumerate(facts):
        if f.loss is None:
            words = t("every rank returns the loss, a number.", "每个 rank 都返回损失，一个数。")
            came = t(f"rank {rank} does not.", f"rank {rank} 返回的不是数。")
            return Failure("step.form", words, came)
        bare = [i + 1 for i, looks in enumerate(f.looks) if None in looks.values()]
        if bare:
            return Failure(
                "step.blocks",
                t(
                    "every s, A and B has its gradient in .grad.",
                    "每个 s、A、B 的 .grad 里都有梯度。",
                ),
                t(
                    f"rank {rank} holds {len(f.looks)} blocks; number {bare[0]} has none.",
                    f"rank {rank} 持有 {len(f.looks)} 个块；第 {bare[0]} 个缺梯度。",
                ),
            )
    return None


def _short_of_tp(case: Case, facts: list[Facts]) -> bool:
    """Whether activations were summed over tp less than twice a block."""
    return case.flags()["tp"] > 1 and any(
        f.bytes["tp"] < 2 * case.message * len(f.looks) for f in facts
    )


def _loss(case: Case, facts: list[Facts]) -> Failure | None:
    """On the ranks that can compute it."""
    want, last = right(case).loss, case.flags()["pp"] - 1
    for rank, f in enumerate(facts):
        place = case.place(rank)
        if place["pp"] != last or isclose(f.loss, want, rel_tol=1e-9):
            continue
        expected = t(
            f"the mean over the whole batch, {want:.4f}, as on one process.",
            f"整个批次的平均损失 {want:.4f}，与单进程一致。",
        )
        came = t(
            f"rank {rank}, on the last stage, has {f.loss:.4f}.",
            f"rank {rank}（最后一个阶段）得到 {f.loss:.4f}。",
        )
        if isclose(f.loss, right(case, place["dp"]).loss, rel_tol=1e-9):
            return Failure("loss.share", expected, came)
        return Failure("tp.forward" if _short_of_tp(case, facts) else "loss.value", expected, came)
    return None


def _elsewhere(case: Case, facts: list[Facts]) -> Failure | None:
    want = right(case).loss
    for rank, f in enumerate(facts):
        if not isclose(f.loss, want, rel_tol=1e-9):
            expected = t(f"{want:.4f} on every rank.", f"每个 rank 上都是 {want:.4f}。")
            came = t(
                f"the last stage has it, rank {rank} returns {f.loss:.4f}.",
                f"最后一个阶段是对的，rank {rank} 返回 {f.loss:.4f}。",
            )
            return Failure("loss.elsewhere", expected, came)
    return None


def _gradients(case: Case, facts: list[Facts]) -> Failure | None:
    off = [
        (rank, i, name, seen)
        for rank, f in enumerate(facts)
        for i, looks in enumerate(f.looks)
        for name, seen in looks.items()
        if seen.kind != "right"
    ]
    if not off:
        return None
    rank, i, name, seen = off[0]
    every = sum(len(looks) for f in facts for looks in f.looks)
    expected = t(
        "every gradient is this rank's part of one process's.",
        "每个梯度都是单进程梯度中本 rank 的那一部分。",
    )
    came = t(
        f"the loss is right; on rank {rank} the gradient of {name}, block {i + 1}, is"
        f" {_words(seen, case)}.",
        f"损失正确；rank {rank} 上第 {i + 1} 块 {name} 的梯度：{_words(seen, case)}。",
    )
    return Failure(_kind(case, facts, [(n, s) for _, _, n, s in off], every), expected, came)


def _words(seen: Look, case: Case) -> str:
    return {
        "scale": t(f"{seen.times:.3g} × the right one", f"正确值的 {seen.times:.3g} 倍"),
        "not-summed": t("its own dp share's alone", "只来自自己那一份数据"),
    }.get(seen.kind, seen.words(case.ranks))


def _kind(case: Case, facts: list[Facts], off: list[tuple[str, Look]], every: int) -> str:
    """Which mistake gradients that look so come from."""
    dp, tp = case.flags()["dp"], case.flags()["tp"]
    if _short_of_tp(case, facts):
        return "tp.backward"
    if len(off) == every and all(_is(seen, dp) or _is(seen, 1 / dp) for _, seen in off):
        return "dp.sum"
    if all(name == "s" and _is(seen, tp) for name, seen in off):
        return "tp.twice"
    if tp > 1 and all(any(_is(seen, tp**n) for n in range(1, 9)) for _, seen in off):
        return "tp.leave"
    if any(seen.kind == "not-summed" for _, seen in off):
        return "dp.none"
    return "step.gradient"


def _is(seen: Look, times: float) -> bool:
    return seen.kind == "scale" and isclose(seen.times, times, rel_tol=1e-6)


def _sent(case: Case, facts: list[Facts]) -> Failure | None:
    for rank, f in enumerate(facts):
        held = [case.cut(network(case)[i], rank) for i in case.stage(rank)]
        most = {
            "tp": len(held) * (2 * case.message + ITEM * WIDTH),
            "pp": 2 * case.message,
            "dp": sum(w.nbytes for block in held for w in block),
        }
        for axis, limit in most.items():
            if f.bytes[axis] > limit + SMALL:
                return Failure(
                    "step.bytes",
                    t(
                        f"along {axis}, rank {rank} hands over at most {limit} bytes.",
                        f"rank {rank} 沿 {axis} 最多交出 {limit} 字节。",
                    ),
                    t(f"{f.bytes[axis]} bytes.", f"{f.bytes[axis]} 字节。"),
                )
    return None


def draw(random: Random) -> list[Case]:
    """Any order of the axes, on eight ranks and on six; stages that are not alike."""
    cases = []
    for dp, pp, tp in ((2, 2, 2), (4, 1, 2), (1, 4, 2), (2, 1, 4), (1, 2, 3), (3, 2, 1)):
        order = random.sample(("dp", "pp", "tp"), 3)
        sizes = {"dp": dp, "pp": pp, "tp": tp}
        blocks = 1 if pp == 1 else pp + random.randint(1, pp - 1)
        more = dict(rows=random.randint(2, 4), seed=random.randint(1, 10**6))
        cases.append(Case(tuple(order), tuple(sizes[a] for a in order), blocks, **more))
    return cases


def _along(axis: str) -> Any:
    return lambda _, told: f"{sum(f.bytes[axis] for f in told[0]):,}"


EXERCISE = Exercise(
    check="grid_step",
    answer="grid_step",
    lab="lab09",
    run=run,
    judge=judge,
    columns=(
        Column("grid, outermost first", "网格（最外层在前）", lambda case, _: str(case)),
        Column("loss", "损失", lambda _, told: f"{told[0][0].loss:.6f}"),
        Column("one process's", "单进程", lambda case, _: f"{right(case).loss:.6f}"),
        Column("all ranks' bytes along tp", "所有 rank 沿 tp（字节）", _along("tp")),
        Column("along pp", "沿 pp（字节）", _along("pp")),
        Column("along dp", "沿 dp（字节）", _along("dp")),
    ),
    visible=(
        Case(("dp", "pp", "tp"), (2, 2, 2)),
        Case(("pp", "dp", "tp"), (2, 2, 2), blocks=5, seed=2),
        Case(("dp", "pp", "tp"), (2, 1, 4), blocks=1, seed=4),
        Case(("tp", "dp", "pp"), (1, 2, 4), blocks=5, seed=6),
    ),
    draw=draw,
)
