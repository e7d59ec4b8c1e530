"""docs/grading_class(.zh).md, written from what class_of_100.py found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
Words = tuple[str, str]
# what caught it, by the failure's criterion and a word of what was said; the first that fits
INSTRUMENTS: list[tuple[str, str, Words]] = [
    ("hung", "computing", ("seconds of a core, counted by the kernel", "内核统计的占核秒数")),
    ("hung", "slept", ("asleep while others wait, by the kernel", "内核看到它在睡，别人在等")),
    ("hung", "", ("who waits for whom, known to the carrier", "传信者知道谁在等谁")),
    ("ended", "memory", ("limit of memory", "内存上限")),
    ("ended", "processes", ("limit of processes", "进程数上限")),
    ("ended", "printed", ("limit of output", "输出上限")),
    ("ended", "", ("its process ended, seen from outside", "从外部看到进程已结束")),
    ("raised", "BlockingIOError", ("limit of processes", "进程数上限")),
    ("raised", "ConnectionRefused", ("no network but the room's own", "隔间只有自己的网络")),
    ("raised", "NotFoundError", ("no files but the room's own", "隔间只有自己的文件")),
    ("raised", "assert found", ("no files but the room's own", "隔间只有自己的文件")),
    ("raised", "PermissionError", ("no rights in the room", "隔间里没有权限")),
    ("raised", "", ("an exception in the room", "隔间里抛出异常")),
    ("nonsense", "", ("words that no rank says, refused", "不合规的消息，被拒收")),
    ("mismatch", "", ("messages that do not fit each other", "彼此对不上的消息")),
    ("memory", "", ("memory, counted by the kernel", "内核统计的内存")),
    ("missing", "", ("reading the file", "读取文件")),
    ("ring.in-place", "", ("values, compared outside", "在外部比较数值")),
    ("ring.", "", ("messages, counted by the carrier", "传信者清点的消息")),
    ("buckets.", "", ("messages, counted by the carrier", "传信者清点的消息")),
    ("traffic", "", ("messages, counted by the carrier", "传信者清点的消息")),
    ("never-waited", "", ("messages, counted by the carrier", "传信者清点的消息")),
    ("overlap.", "", ("order, proven by gates", "由关口证明的先后次序")),
    ("", "", ("values, compared outside", "在外部比较数值")),
]
EARNS = {"all": ("all", "全部"), "some": ("some", "部分"), "none": ("none", "无")}
LEFT = {
    "processes": ("processes", "进程"),
    "namespaces": ("namespaces", "命名空间"),
    "files": ("files", "文件"),
    "groups": ("control groups", "控制组"),
    "mounts": ("mounts", "挂载点"),
}


def write_pages(facts: dict[str, Any]) -> None:
    """Both languages."""
    for number, name in enumerate(("grading_class.md", "grading_class.zh.md")):
        (DOCS / name).write_text(page(facts, number), encoding="utf-8")


def page(facts: dict[str, Any], zh: int) -> str:
    """The page, in English (0) or Chinese (1)."""
    by_kind = {kind: [r for r in facts["rows"] if r["kind"] == kind] for kind in KINDS}
    parts = [_head(facts, zh), _conditions(facts, zh)]
    for kind, words in KINDS.items():
        parts.append(f"## {words[zh]}\n\n" + KIND_TABLES[kind](by_kind[kind], zh))
    return "\n\n".join(parts) + "\n"


def instrument(row: dict[str, Any], zh: int) -> str:
    """What caught it; a dash where nothing had to be caught."""
    if not row["failure"]:
        return "—"
    for criterion, word, words in INSTRUMENTS:
        if row["failure"].startswith(criterion) and word in row["said"]:
            return words[zh]
    raise ValueError(row)


def _head(facts: dict[str, Any], zh: int) -> str:
    n, wrong = len(facts["rows"]), sum(not row["good"] for row in facts["rows"])
    date = facts["date"]
    if zh:
        return (
            f"# {n} 份作业的班级\n\n[English](grading_class.md) · [评分](grading.zh.md)\n\n"
            f"本页由 `tests/grade/class_of_100.py` 于 {date} 生成：{n} 份作业混入各种麻烦，"
            f"用教师所用的命令评分。得分与应得不符的：{wrong} 份。"
        )
    return (
        f"# A class of {n}\n\n[中文](grading_class.zh.md) · [Grading](grading.md)\n\n"
        f"Written by `tests/grade/class_of_100.py` on {date}: {n} submissions with every kind of"
        " trouble among them, graded by the command that an instructor calls. Earned something"
        f" else than they should have: {wrong}."
    )


def _conditions(facts: dict[str, Any], zh: int) -> str:
    head = (
        ["lab", "submissions", "minutes", "load of the machine, on average"],
        ["实验", "份数", "分钟", "机器平均负载"],
    )[zh]
    rows = [
        [lab[3:], sum(r["lab"] == lab for r in facts["rows"]), minutes, facts["load"][lab]]
        for lab, minutes in facts["minutes"].items()
    ]
    left = _left(facts["left"], zh)
    said = (
        f"{facts['cores']} cores, {facts['jobs']} submissions at a time; the load counts their"
        " ranks, up to four each, and whatever troubles start. Left behind at the end:"
        f" {left}. Reached the server on the grader's own machine: "
        f"{'somebody' if facts['called'] else 'nobody'}.",
        f"{facts['cores']} 个核，同时评 {facts['jobs']} 份；负载包括它们的 rank"
        f"（每份最多四个）和捣乱作业启动的进程。结束后残留：{left}。连上评分机上服务的："
        f"{'有' if facts['called'] else '无'}。",
    )[zh]
    return _table(head, rows) + "\n\n" + said + _killed(facts, zh)


def _killed(facts: dict[str, Any], zh: int) -> str:
    said = ""
    for lab, one in facts.get("killed", {}).items():
        same = (("the same", "一致"), ("another", "不一致"))[not one["same"]][zh]
        said += (
            f" Lab {lab[3:]} again, the grader killed when {one['kept']} were graded, then the same"
            f" command: {one['graded_again']} of these graded again, {same} `grades.csv`.",
            f"实验 {lab[3:]} 再评一遍，评完 {one['kept']} 份时杀死评分程序，再执行同一条命令："
            f"其中重评 {one['graded_again']} 份，`grades.csv` {same}。",
        )[zh]
    if "left_killed" in facts:
        left = _left(facts["left_killed"], zh)
        said += (f" Left behind after that: {left}.", f"之后残留：{left}。")[zh]
    return said


def _left(counts: dict[str, int], zh: int) -> str:
    return (", ", "，")[zh].join(
        (f"{count} {LEFT[kind][0]}", f"{LEFT[kind][1]} {count} 个")[zh]
        for kind, count in counts.items()
    )


def _files(rows: list[dict[str, Any]], zh: int) -> str:
    head = (
        ["file", "lab", "should earn", "points", "seconds", "what was said"],
        ["文件", "实验", "应得", "得分", "秒", "说明"],
    )[zh]
    return _table(
        head,
        [
            [_name(r, zh), r["lab"][3:], _should(r, zh), _points(r), r["seconds"], r["said"]]
            for r in rows
        ],
    )


def _troubles(rows: list[dict[str, Any]], zh: int) -> str:
    head = (
        ["what it does", "exercise", "should earn", "points", "what caught it", "what was said"],
        ["做了什么", "练习", "应得", "得分", "由什么发现", "说明"],
    )[zh]
    return _table(
        head,
        [
            [
                _name(r, zh),
                f"`{r['check']}`",
                EARNS[r["should"][r["check"]]][zh],
                _points(r),
                instrument(r, zh),
                r["said"],
            ]
            for r in rows
        ],
    )


def _planted(rows: list[dict[str, Any]], zh: int) -> str:
    right = [r for r in rows if r["should"][r["check"]] == "all"]
    wrong = [r for r in rows if r not in right]
    full = sum(r["got"][r["check"]] == "all" for r in right)
    lost = sum(r["got"][r["check"]] != "all" for r in wrong)
    caught = Counter(instrument(r, zh) for r in wrong)
    head = (["first caught by", "answers"], ["首先由什么发现", "份数"])[zh]
    said = (
        f"From the checks' own suites: {len(right)} right answers, {full} with all points;"
        f" {len(wrong)} wrong ones, {lost} without.",
        f"取自各自动检查的样例：正确答案 {len(right)} 份，满分 {full} 份；"
        f"错误答案 {len(wrong)} 份，失分 {lost} 份。",
    )[zh]
    return said + "\n\n" + _table(head, [list(one) for one in caught.most_common()])


def _name(row: dict[str, Any], zh: int) -> str:
    return row["chinese"] if zh else row["name"]


def _points(row: dict[str, Any]) -> str:
    return f"{row['points'][0]} / {row['points'][1]}"


def _should(row: dict[str, Any], zh: int) -> str:
    kinds = set(row["should"].values())
    return EARNS[kinds.pop() if len(kinds) == 1 else "some"][zh]


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


KINDS = {
    "file": ("What may be wrong with a file", "文件可能出的问题"),
    "trouble": ("What an answer may do", "答案可能做的事"),
    "planted": ("Right and wrong answers", "正确与错误的答案"),
}
KIND_TABLES = {"file": _files, "trouble": _troubles, "planted": _planted}
