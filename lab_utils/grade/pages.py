"""Pages of a batch: one for each student in the student's language, a summary in the instructor's.
Plain HTML, with nothing from outside; light and dark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from statistics import median

from ..i18n import language, t
from .one import Record, points
from .similar import Pair

STYLE = """
:root { color-scheme: light dark; --good: light-dark(#1a7f37, #4ac26b);
  --bad: light-dark(#a04000, #f0a060); --line: light-dark(#d0d7de, #3d444d); }
body { font: 16px/1.6 system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif;
  max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.good { color: var(--good) } .bad { color: var(--bad) } dl { margin: .3rem 0 0 }
dt { font-weight: 600; float: left; clear: left; margin-right: .5rem } dd { margin: 0 0 .2rem }
.bar { display: inline-block; height: .7rem; background: var(--good); vertical-align: middle }
"""


def feedback(record: Record) -> str:
    """A student's page: every criterion, and of what failed what was expected and what came."""
    lang = record["language"]
    earned, possible = points(record)
    parts = [f"<h1>{escape(record['student'])}</h1>"]
    if record["trouble"]:
        parts.append(f"<p class='bad'>{escape(record['trouble'][lang == 'zh'])}</p>")
    if possible:
        words = t(f"{earned} of {possible} points", f"{possible} 分中得 {earned} 分", lang)
        parts.append(f"<p><strong>{words}</strong></p>")
    if record["advisory"]:
        reasons = escape("; ".join(record["advisory"]))
        words = t(
            "Advisory: a weaker instrument had to do for some marks.",
            "仅供参考：部分评分只能用较弱的手段得出。",
            lang,
        )
        parts.append(f"<p>{words} <small>({reasons})</small></p>")
    for exercise in record["exercises"]:
        parts.append(f"<h2>{escape(exercise['answer'])}</h2><table>")
        parts += [_criterion_row(one, lang) for one in exercise["criteria"]]
        parts.append("</table>")
    return _page(record["student"], "".join(parts), lang)


def _criterion_row(one: dict, lang: str) -> str:
    if one["passed"]:
        mark = t("passed", "通过", lang)
        return f"<tr><td class='good'>✓ {mark}</td><td>{escape(one[lang])}</td></tr>"
    mark, failure = t("not yet", "未通过", lang), one["failure"]
    rows = [
        (t("Expected", "预期", lang), failure["expected"]),
        (t("Got", "实际", lang), failure["came"]),
        (t("With", "条件", lang), failure["case"]),
    ]
    said = "".join(f"<dt>{name}</dt><dd>{escape(words)}</dd>" for name, words in rows if words)
    return f"<tr><td class='bad'>✗ {mark}</td><td>{escape(one[lang])}<dl>{said}</dl></td></tr>"


def summary(records: Sequence[Record], lab: str, pairs: Sequence[Pair]) -> str:
    """The class: points, each criterion's share, the commonest first failures, troubles, answers
    that are alike."""
    graded = [record for record in records if record["exercises"]]
    scores = [points(record)[0] for record in graded]
    possible = max((points(record)[1] for record in graded), default=0)
    n = len(graded)
    parts = [f"<h1>{t(f'Lab {lab[3:]}: {n} submissions', f'实验 {lab[3:]}：{n} 份作业')}</h1>"]
    if scores:
        middle, full = f"{median(scores):g}", sum(score == possible for score in scores)
        words = t(
            f"Median {middle} of {possible} points; {full} have all of them.",
            f"满分 {possible}，中位数 {middle}；{full} 人满分。",
        )
        parts.append(f"<p>{words}</p>")
    parts += [_distribution(graded), _first_failures(graded), _troubles(records)]
    parts += [_alike(pairs), _students(records)]
    return _page(f"{lab}", "".join(parts), language())


def _distribution(records: Sequence[Record]) -> str:
    passed, every, words = Counter(), Counter(), {}
    for record in records:
        for exercise in record["exercises"]:
            for one in exercise["criteria"]:
                key = exercise["answer"], one["name"]
                words[key] = one[language()]
                every[key] += 1
                passed[key] += one["passed"]
    rows = "".join(
        f"<tr><td>{escape(key[0])}</td><td>{escape(words[key])}</td>"
        f"<td class='n'>{passed[key]} / {every[key]}</td><td>"
        f"<span class='bar' style='width:{6 * passed[key] / every[key]:.2f}rem'></span></td></tr>"
        for key in every
    )
    return _table(t("By criterion", "各项通过情况"), rows)


def _first_failures(records: Sequence[Record]) -> str:
    counts: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        for exercise in record["exercises"]:
            first = next((one for one in exercise["criteria"] if not one["passed"]), None)
            if first:
                kind = first["failure"]["criterion"]
                counts[exercise["answer"], first[language()], kind] += 1
    rows = "".join(
        f"<tr><td>{escape(answer)}</td><td>{escape(words)}</td><td>{escape(kind)}</td>"
        f"<td class='n'>{count}</td></tr>"
        for (answer, words, kind), count in counts.most_common(12)
    )
    return _table(t("Commonest first failures", "最常见的首个失败项"), rows)


def _troubles(records: Sequence[Record]) -> str:
    rows = "".join(
        f"<tr><td>{escape(r['student'])}</td>"
        f"<td>{escape(r['trouble'][language() == 'zh'])}</td></tr>"
        for r in records
        if r["trouble"]
    )
    return _table(t("Files that could not be read", "无法读取的文件"), rows)


def _alike(pairs: Sequence[Pair]) -> str:
    rows = "".join(
        f"<tr><td>{escape(p.answer)}</td><td>{escape(p.first)}</td><td>{escape(p.second)}</td>"
        f"<td class='n'>{p.percent:.0f} %</td></tr>"
        for p in pairs
    )
    title = t(
        "Answers alike, names aside (short exercises have few solutions)",
        "相近的答案，不计变量名（短题的解法本来就不多）",
    )
    return _table(title, rows)


def _students(records: Sequence[Record]) -> str:
    rows = ""
    for record in records:
        earned, possible = points(record)
        mark = f"{earned} / {possible}" if possible else "—"
        link = f"feedback/{escape(record['student'], quote=True)}.html"
        rows += (
            f"<tr><td><a href='{link}'>{escape(record['student'])}</a></td>"
            f"<td class='n'>{mark}</td><td class='n'>{record['seconds']:.0f} s</td>"
            f"<td>{escape('; '.join(record['advisory']))}</td></tr>"
        )
    return _table(t("Students", "学生"), rows)


def _table(title: str, rows: str) -> str:
    body = (
        f"<div class='wide'><table>{rows}</table></div>"
        if rows
        else t("<p>None.</p>", "<p>无。</p>")
    )
    return f"<h2>{title}</h2>{body}"


def _page(title: str, body: str, lang: str) -> str:
    html_lang = {"en": "en", "zh": "zh-CN"}[lang]
    return (
        f"<!doctype html><html lang='{html_lang}'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main>"
        "</body></html>\n"
    )
