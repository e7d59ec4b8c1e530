"""What a record says to a person, in either language."""

from __future__ import annotations

from typing import Any

from ..i18n import t

KINDS = {
    "raised": ("an exception", "抛异常"),
    "ended": ("its process ended", "进程退出"),
    "hung": ("no end", "没有结束"),
    "mismatch": ("messages that do not fit", "消息对不上"),
    "nonsense": ("words that no rank says", "不合规的消息"),
    "missing": ("no answer", "没有答案"),
}


def kind_words(kind: str) -> str:
    """A failure's kind; that of a judge's own is a name in its source."""
    return t(*KINDS[kind]) if kind in KINDS else kind


def failure_words(failure: dict[str, Any], lang: str) -> str:
    """A failure in one or two sentences."""
    where = failure["case"] and t(f" ({failure['case']})", f"（{failure['case']}）", lang)
    return t(
        f"Expected: {failure['expected']} Got: {failure['came']}{where}",
        f"预期：{failure['expected']} 实际：{failure['came']}{where}",
        lang,
    )


def blocked_words(lang: str) -> str:
    """Of a criterion that is neither passed nor failed."""
    return t(
        "blocked: it needs a GPU, and was graded without one; neither passed nor failed.",
        "暂缺：需要 GPU，而评分时没有；不算通过，也不算未通过。",
        lang,
    )
