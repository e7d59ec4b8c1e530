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
from .words import blocked_words, kind_words

STYLE = """
:root { color-scheme: light dark; --paper: light-dark(#fff, #15181d);
  --ink: light-dark(#1f2328, #e6e8eb); --soft: light-dark(#57606a, #a0a8b2);
  --good: light-dark(#1a7f37, #4ac26b); --bad: light-dark(#a04000, #f0a060);
  --line: light-dark(#d0d7de, #3d444d); --link: light-dark(#0550ae, #79b8ff); }
body { font: 16px/1.6 system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif;
  max-width: 52rem; margin: 2rem auto; padding: 0 1rem; background: var(--paper);
  color: var(--ink) } a { color: var(--link) } small { color: var(--soft) }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
h2 code { font-size: 1.1rem } .points { font-size: 1.15rem; font-weight: 600 }
table { border-collapse: collapse; width: 100% } .wide { overflow-x: auto }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap } th { color: var(--soft); font-weight: 500; font-size: .9rem }
td.mark { width: 6.5rem; white-space: nowrap } .good { color: var(--good) }
.bad { color: var(--bad) }
dl { margin: .3rem 0 0; display: grid; grid-template-columns: max-content 1fr; gap: .1rem .7rem }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
.track { display: inline-block; width: 6rem; height: .7rem; background: var(--line) }
.bar { display: block; height: 100%; background: var(--good) }
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
        parts.append(f"<p class='points'>{words}</p>")
    weaker = [one for one in record["advisory"] if one.partition(":")[0] not in _checks(record)]
    if weaker:
        words = t(
            "Advisory: this machine gave weaker instruments for some of it.",
            "仅供参考：评分所用的机器只提供了较弱的手段。",
            lang,
        )
        parts.append(f"<p>{words} <small>{escape('; '.join(weaker))}</small></p>")
    for exercise in record["exercises"]:
        parts.append(f"<h2><code>{escape(exercise['answer'])}</code></h2>")
        if exercise["advisory"]:
            words, reason = t("Advisory: ", "仅供参考：", lang), t(*exercise["advisory"], lang)
            parts.append(f"<p><small>{words}{escape(reason)}{t('.', '。', lang)}</small></p>")
        rows, failed = [], list[dict]()
        for one in exercise["criteria"]:
            same = (other for other in failed if other["failure"] == one["failure"])
            rows.append(_criterion_row(one, lang, next(same, None)))
            failed += [one] if one["failure"] else []
        parts.append(f"<table>{''.join(rows)}</table>")
    return _page(record["student"], "".join(parts), lang)


def _checks(record: Record) -> set[str]:
    return {exercise["check"] for exercise in record["exercises"]}


def _criterion_row(one: dict, lang: str, before: dict | None) -> str:
    """`before`: the criterion above that failed by the very same thing, which is said once."""
    if one["passed"] is None:
        mark = t("blocked", "暂缺", lang)
        words = f"{escape(one[lang])}<br><small>{escape(blocked_words(lang))}</small>"
        return f"<tr><td class='mark'>– {mark}</td><td>{words}</td></tr>"
    if one["passed"]:
        mark = t("passed", "通过", lang)
        return f"<tr><td class='mark good'>✓ {mark}</td><td>{escape(one[lang])}</td></tr>"
    mark, failure = t("not yet", "未通过", lang), one["failure"]
    if before:
        words = t(
            f"The same reason as “{before[lang]}”. Once that is right, this one can be judged.",
            f"原因与“{before[lang]}”相同；那里改对之后，这一项才能评判。",
            lang,
        )
        said = f"{escape(one[lang])}<br><small>{escape(words)}</small>"
        return f"<tr><td class='mark bad'>✗ {mark}</td><td>{said}</td></tr>"
    rows = [
        (t("Expected", "预期", lang), failure["expected"]),
        (t("Got", "实际", lang), failure["came"]),
        (t("With", "条件", lang), failure["case"]),
    ]
    said = "".join(f"<dt>{name}</dt><dd>{escape(words)}</dd>" for name, words in rows if words)
    return f"<tr><td class='mark bad'>✗ {mark}</td><td>{escape(one[lang])}<dl>{said}</dl></td></tr>"


def summary(records: Sequence[Record], lab: str, pairs: Sequence[Pair]) -> str:
    """The class: points, each criterion's share, the commonest first failures, troubles, answers
    that are alike."""
    graded = [record for record in records if record["exercises"]]
    scores = [points(record)[0] for record in graded]
    possible = max((points(record)[1] for record in graded), default=0)
    n = len(graded)
    said = t(f"Lab {lab[3:]}: {len(records)} submissions", f"实验 {lab[3:]}：{len(records)} 份作业")
    parts = [f"<h1>{said}</h1>"]
    if scores:
        middle, full = f"{median(scores):g}", sum(score == possible for score in scores)
        words = t(
            f"Graded: {n}. Median: {middle} of {possible} points. With all points: {full}.",
            f"已评 {n} 份；满分 {possible}，中位数 {middle}；满分 {full} 人。",
        )
        parts.append(f"<p>{words}</p>")
    parts += [_distribution(graded), _first_failures(graded), _troubles(records)]
    parts += [_alike(pairs), _borrowed(graded), _students(records)]
    return _page(f"{lab}", "".join(parts), language())


def _distribution(records: Sequence[Record]) -> str:
    passed, every, words = Counter(), Counter(), {}
    for record in records:
        for exercise in record["exercises"]:
            for one in exercise["criteria"]:
                key = exercise["answer"], one["name"]
                words[key] = one[language()]
                every[key] += one["passed"] is not None
                passed[key] += one["passed"] is True
    rows = "".join(
        f"<tr><td>{escape(key[0])}</td><td>{escape(words[key])}</td>"
        f"<td class='n'>{passed[key]} / {every[key]}</td><td><span class='track'>"
        f"<span class='bar' style='width:{100 * passed[key] / (every[key] or 1):.0f}%'></span>"
        "</span></td></tr>"
        for key in every
    )
    heads = [t("answer", "答案"), t("criterion", "评分项"), t("passed", "通过"), t("share", "比例")]
    return _table(t("By criterion", "各项通过情况"), rows, heads)


def _first_failures(records: Sequence[Record]) -> str:
    counts: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        for exercise in record["exercises"]:
            first = next((o for o in exercise["criteria"] if o["passed"] is False), None)
            if first:
                kind = first["failure"]["criterion"]
                counts[exercise["answer"], first[language()], kind] += 1
    rows = "".join(
        f"<tr><td>{escape(answer)}</td><td>{escape(words)}</td><td>{escape(kind_words(kind))}</td>"
        f"<td class='n'>{count}</td></tr>"
        for (answer, words, kind), count in counts.most_common(12)
    )
    heads = [
        t("answer", "答案"),
        t("criterion", "评分项"),
        t("kind", "类型"),
        t("students", "人数"),
    ]
    return _table(t("Commonest first failures", "最常见的首个失败项"), rows, heads)


def _troubles(records: Sequence[Record]) -> str:
    rows = "".join(
        f"<tr><td>{escape(r['student'])}</td>"
        f"<td>{escape(r['trouble'][language() == 'zh'])}</td></tr>"
        for r in records
        if r["trouble"]
    )
    heads = [t("student", "学生"), t("reason", "原因")]
    return _table(
        t("Files that could not be read or graded", "无法读取或无法评分的文件"), rows, heads
    )


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
    names = [t("one", "其一"), t("the other", "其二")]
    return _table(title, rows, [t("answer", "答案"), *names, t("alike", "相近程度")])


def _borrowed(records: Sequence[Record]) -> str:
    rows = "".join(
        f"<tr><td>{escape(exercise['answer'])}</td><td>{escape(record['student'])}</td>"
        f"<td>{escape(', '.join(exercise['borrowed']))}</td></tr>"
        for record in records
        for exercise in record["exercises"]
        if exercise["borrowed"]
    )
    title = t(
        "Imported from the course's package, and not by the notebook (the engine holds answers)",
        "从课程的软件包导入、而 notebook 里没有的内容（引擎里就有现成的实现）",
    )
    return _table(title, rows, [t("answer", "答案"), t("student", "学生"), t("what", "内容")])


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
    heads = [t("student", "学生"), t("points", "得分"), t("seconds", "用时"), t("advisory", "备注")]
    return _table(t("Students", "学生"), rows, heads)


def _table(title: str, rows: str, heads: Sequence[str]) -> str:
    if not rows:
        return f"<h2>{title}</h2><p>{t('None.', '无。')}</p>"
    first = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    return f"<h2>{title}</h2><div class='wide'><table><tr>{first}</tr>{rows}</table></div>"


def _page(title: str, body: str, lang: str) -> str:
    html_lang = {"en": "en", "zh": "zh-CN"}[lang]
    return (
        f"<!doctype html><html lang='{html_lang}'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main>"
        "</body></html>\n"
    )
