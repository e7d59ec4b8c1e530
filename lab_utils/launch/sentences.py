"""What is said of each verdict, in the reader's language: what happened, and what would mend it."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from ..i18n import t
from .diagnose import RankState, Verdict
from .record import GROUPS, Call


def sentences(verdict: Verdict, ranks: list[RankState], timeout: float) -> tuple[str, str]:
    """(what happened, what would mend it)."""
    words = {
        "raised": _raised,
        "exited": _ended,
        "killed": _ended,
        "hung": _hung,
        "left": _left,
        "mismatch": _mismatch,
    }
    return words[verdict.cause](verdict, ranks, timeout)


def _numbers(ranks: Iterable[int], last: str | None = None) -> str:
    first, comma = [str(r) for r in ranks], t(", ", "、")
    return (
        comma.join(first[:-1]) + last + first[-1] if last and len(first) > 1 else comma.join(first)
    )


def names_of(ranks: tuple[int, ...]) -> str:
    """Like "rank 1" or "ranks 0, 2 and 3"."""
    return t("ranks " if len(ranks) > 1 else "rank ", "rank ") + _numbers(ranks, t(" and ", " 和 "))


def _place(verdict: Verdict) -> str:
    n = verdict.number
    if verdict.channel.name == GROUPS:
        return t(f"group no. {n}", f"第 {n} 个进程组")
    if verdict.channel.p2p:
        source, destination = verdict.channel.ranks
        return t(
            f"message no. {n} from rank {source} to rank {destination}",
            f"rank {source} 发给 rank {destination} 的第 {n} 条消息",
        )
    members = _numbers(verdict.channel.ranks)
    return t(
        f"call no. {n} in the process group of ranks {members}",
        f"由 rank {members} 组成的进程组的第 {n} 次调用",
    )


def _call(verdict: Verdict) -> str:
    return str(next(iter(verdict.calls.values()), t("a call", "一次调用")))


def _raised(verdict: Verdict, ranks: list[RankState], timeout: float) -> tuple[str, str]:
    who = names_of(verdict.ranks)
    what = next(ranks[verdict.ranks[0]].detail.format_exception_only()).strip().partition("\n")[0]
    if verdict.echo:
        return (
            t(
                f"{who} lost the connection to a peer: {what}",
                f"{who} 与其他进程的连接中断：{what}",
            ),
            t(
                "No rank reported an error of its own; look at the output above for the last thing"
                " that happened.",
                "没有进程报告自身的错误；请查看上方输出中最后发生的事。",
            ),
        )
    return (
        t(f"{who} raised {what}", f"{who} 抛出了异常：{what}"),
        t(
            f"All ranks were stopped; the traceback is that of rank {verdict.ranks[0]}.",
            f"所有进程均已停止；下面是 rank {verdict.ranks[0]} 的回溯信息。",
        ),
    )


def _ended(verdict: Verdict, ranks: list[RankState], timeout: float) -> tuple[str, str]:
    who, code = names_of(verdict.ranks), ranks[verdict.ranks[0]].detail
    if verdict.cause == "exited":
        return (
            t(
                f"{who} ended with exit code {code} before the function returned.",
                f"{who} 的函数尚未返回，进程就以退出码 {code} 结束了。",
            ),
            t(
                "Leave the function with `return`, or raise an exception that says why; look for"
                " exit() in the code and its libraries.",
                "请用 return 结束函数，或抛出说明原因的异常；"
                "检查代码及所用的库里是否调用了 exit()。",
            ),
        )
    name = (
        signal.Signals(code).name
        if code in set(signal.Signals)
        else t(f"signal {code}", f"信号 {code}")
    )
    if code == signal.SIGKILL:
        remedy = t(
            "Most often the system ran out of memory: try a smaller model or batch, or fewer"
            " ranks.",
            "最常见的原因是内存耗尽：请减小模型或批次，或减少进程数。",
        )
    elif code in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        remedy = t(
            "Something outside asked it to end: a person, a scheduler or a container's limit.",
            "是外部要求它结束的：可能是用户、调度系统或容器的限制。",
        )
    else:
        remedy = t(
            "Native code crashed; its last words, if any, are in the output above.",
            "原生代码崩溃了；如有遗言，就在上方的输出中。",
        )
    return (
        t(
            f"{who} {'was' if len(verdict.ranks) == 1 else 'were'} killed by {name}.",
            f"{who} 被 {name} 信号终止。",
        ),
        remedy,
    )


def _hung(verdict: Verdict, ranks: list[RankState], timeout: float) -> tuple[str, str]:
    who = names_of(verdict.ranks)
    if verdict.frozen:
        return _frozen(verdict)
    if verdict.all_came:
        return _endless(verdict, timeout)
    if len(verdict.ranks) > 1:
        calls = t("; ", "；").join(
            t(f"rank {r}: {c}", f"rank {r}：{c}") for r, c in verdict.calls.items()
        )
        return (
            t(
                f"{who} wait for each other in different calls ({calls}).",
                f"{who} 在不同的调用中互相等待（{calls}）。",
            ),
            t(
                "Let all ranks make their calls in the same order; for messages, post the receives"
                " first (irecv) or let even and odd ranks take turns.",
                "请让所有进程按相同顺序发起调用；"
                "点对点通信可先发起 irecv，或让奇偶 rank 交替收发。",
            ),
        )
    if verdict.channel:
        call = _call(verdict)
        headline = t(
            f"{who} hung: it did not come to {call} within {timeout:g} s, while"
            f" {names_of(verdict.peers)} waited there ({_place(verdict)}).",
            f"{who} 卡死：{names_of(verdict.peers)} 在 {call} 中等了 {timeout:g} 秒，"
            f"它始终没有到达（{_place(verdict)}）。",
        )
    elif verdict.peers:
        headline = t(
            f"{who} hung: it kept {names_of(verdict.peers)} waiting until the connection timed"
            " out.",
            f"{who} 卡死：{names_of(verdict.peers)} 一直等到连接超时，它始终没有到达。",
        )
    else:
        headline = t(
            f"{who} was still running {timeout:g} s after all others had returned.",
            f"其余进程全部返回 {timeout:g} 秒后，{who} 仍在运行。",
        )
    return headline, t(
        "Below is where it stood: if it waits for its peers there, they left too early; if it was"
        " only slow, give launch a longer timeout=.",
        "下面是它停留的位置：如果它在那里等待其他进程，说明它们过早返回；如果只是运行慢，请给"
        " launch 更长的 timeout=。",
    )


def _frozen(verdict: Verdict) -> tuple[str, str]:
    who = names_of(verdict.ranks)
    waited = names_of(verdict.peers) if verdict.peers else t("the others", "其余进程")
    return (
        t(
            f"{who} hung: stopped by the system, while {waited} waited.",
            f"{who} 卡死：被系统暂停，而 {waited} 一直在等待。",
        ),
        t(
            "Something sent SIGSTOP, or holds it in a debugger (SIGCONT lets it go on); do not stop"
            " a single rank for longer than timeout=.",
            "有程序向它发送了 SIGSTOP，或用调试器挂起了它（SIGCONT 可使其继续）；"
            "单个进程的暂停时间不要超过 timeout=。",
        ),
    )


def _endless(verdict: Verdict, timeout: float) -> tuple[str, str]:
    who = names_of(verdict.ranks)
    return (
        t(
            f"{who} waited for more than {timeout:g} s for {_place(verdict)}, although nobody is"
            " missing there.",
            f"{who} 为{_place(verdict)}等了超过 {timeout:g} 秒，而那里并不缺人。",
        ),
        t(
            "If it was only slow, give launch a longer timeout=; otherwise its ranks may not mean"
            " the same group, or message: make groups on all ranks, in one order.",
            "如果只是运行慢，请给 launch 更长的 timeout=；否则可能是各进程说的不是同一个组或同一条"
            "消息：请在所有进程上按相同的次序创建进程组。",
        ),
    )


def _left(verdict: Verdict, ranks: list[RankState], timeout: float) -> tuple[str, str]:
    who, call = names_of(verdict.ranks), _call(verdict)
    return (
        t(
            f"{who} returned while {names_of(verdict.peers)} waited in {call}, which {who} never"
            f" called ({_place(verdict)}).",
            f"{who} 已经返回，而 {names_of(verdict.peers)} 还在 {call} 中等它；{who}"
            f" 从未发起这次调用（{_place(verdict)}）。",
        ),
        t(
            "Every rank of a group must make the same number of calls: look for loops of unequal"
            " length and for collectives inside `if rank == …`.",
            "同一进程组的每个进程，集合通信的次数必须相同：检查长度不等的循环，以及写在 if rank =="
            " … 里的集合通信。",
        ),
    )


def _mismatch(verdict: Verdict, ranks: list[RankState], timeout: float) -> tuple[str, str]:
    by_call: dict[Call, list[int]] = {}
    for rank, call in sorted(verdict.calls.items(), key=lambda item: item[0] not in verdict.ranks):
        by_call.setdefault(call, []).append(rank)
    said = [t(f"{names_of(r)} called {c}", f"{names_of(r)} 调用了 {c}") for c, r in by_call.items()]
    return (
        t(
            f"{' where '.join(said[:2])}{''.join('; ' + s for s in said[2:])} ({_place(verdict)}).",
            f"{'，而 '.join(said)}（{_place(verdict)}）。",
        ),
        (
            t(
                "A message must be received as what it was sent: as many elements, of the same"
                " dtype, in the order of sending.",
                "接收必须与发送一致：元素个数和数据类型相同，顺序也相同。",
            )
            if verdict.channel.p2p
            else t(
                "Every rank must call new_group for every group, its own or not, in one order.",
                "每个进程都要按相同的次序为每一个组调用 new_group，不管自己是不是成员。",
            )
            if verdict.channel.name == GROUPS
            else t(
                "Every rank of a group must make the same calls in the same order, with equal"
                " shapes and dtypes.",
                "同一进程组的每个进程必须按相同顺序发起相同的调用，形状和数据类型也要一致。",
            )
        ),
    )
