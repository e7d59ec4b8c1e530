"""How a SumPanel is drawn; sums.js draws the same in the page, item for item (a browser test holds
the two together)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...text import columns
from .controls import State, Words, say
from .scene import Item, Scene, axis, line, path, rect, text
from .sums import Reading, SumPanel
from .units import NO_BREAK, digits, nbytes

WIDTH, HEIGHT = 760, 392
_X, _LENGTH, _TOTAL = 118, 500, 628  # the bars, and the column of totals
_TOP, _ROW, _BAR, _ROWS = 112, 40, 26, 3
_AXIS = _TOP + _ROWS * _ROW + 2
_KEY, _KEY_ROW, _KEY_COLUMN = _AXIS + 46, 20, 380
# what shrinks by more is said as a difference
_FAR_LESS = 1000
# bars shorter than an eighth of the limit get an axis of their own
_ZOOM = 8

PHRASES: dict[str, Words] = {
    "so_far": ("{subject}, {filled} of {all} terms", "{subject}，{all} 项中的 {filled} 项"),
    "total": ("the fullest GPU holds, at most", "最满的 GPU 至多占用"),
    "verdict": ("does it fit?", "放得下吗？"),
    "fits": ("fits in {limit}", "{limit} 放得下"),
    "over": ("too much for {limit}", "{limit} 放不下"),
    "spare": ("{room} to spare", "还剩 {room}"),
    "excess": ("{room} too much: {times} its memory", "超出 {room}，是显存的 {times}"),
    "changed": ("changed most by the last move", "上一步变化最大的一项"),
    "change": ("{term}: {before} → {after}", "{term}：{before} → {after}"),
    "unmoved": ("move a control and see", "改动任一控件即可看到"),
    "same": ("the last move changed nothing", "上一步没有改变任何一项"),
    "key": ("{term}: {amount}", "{term}：{amount}"),
    "key_changed": (
        "{term}: {before} → {after} ({times})",
        "{term}：{before} → {after}（{times}）",
    ),
    "beyond": ("{limit} →", "{limit} →"),
    "impossible": ("This cannot be.", "这样行不通。"),
    "alt": (
        "{subject}: {bar} holds at most {total}, {verdict} ({detail}): {terms}.{change}{measured}",
        "{subject}：{bar}至多占用 {total}，{verdict}（{detail}）。其中{terms}。{change}{measured}",
    ),
    "alt_change": (
        " With the last move {term} went from {before} to {after}.",
        "上一步使{term}从 {before} 变为 {after}。",
    ),
    "alt_measured": (
        " Measured in a real run: the same to the byte.",
        "真实运行的实测值与此逐字节相等。",
    ),
    "alt_impossible": ("{subject}: this cannot be. {why}", "{subject}：这样行不通。{why}"),
    "far": (
        "{total} for {limit}, {excess} too much; most of it is {term} ({amount}).",
        "需要 {total}，只有 {limit}，超出 {excess}；占得最多的是{term}（{amount}）。",
    ),
    "item": ("{term} {amount}", "{term} {amount}"),
    "and": (", ", "、"),
    "join": ("", ""),
    "agree": ("▲ measured = estimated, to the byte.", "▲ 实测 = 估算，逐字节相等。"),
    "differ": ("▲ measured ≠ estimated.", "▲ 实测 ≠ 估算。"),
    "note": ("Estimated. 1 GB is 10⁹ bytes.", "估算值。1 GB = 10⁹ 字节。"),
}


def words_for(panel: SumPanel, lang: str) -> dict[str, Any]:
    """All that the page writes: phrases by name, names of bars and terms (full and short, each with
    its width in columns)."""
    phrases = {name: say(words, lang) for name, words in {**PHRASES, **panel.phrases}.items()}
    terms = [
        [[name, columns(name)] for name in _names(term.label, term.short, lang)]
        for term in panel.terms
    ]
    return {
        "phrases": phrases,
        "bars": [say(name, lang) for name in panel.bar_names],
        "terms": terms,
        "moments": [say(words, lang) for words in panel.moments],
    }


def draw(panel: SumPanel, state: State, lang: str, before: State | None) -> Scene:
    """The picture of a state, and of what has changed since `before`."""
    picture = _Picture(panel, panel.reading(state, lang), state, lang)
    return picture.scene(before and panel.reading(before, lang))


def shortfall(panel: SumPanel, state: State, lang: str) -> str | None:
    """What SumPanel.shortfall says."""
    reading = panel.reading(state, lang)
    phrases = words_for(panel, lang)["phrases"]
    if reading.refused:
        return phrases["join"].join(reading.refused)
    held, limit = reading.bars[reading.fullest][2], reading.limit
    if sum(held) <= limit:
        return None
    most = held.index(max(held))
    return phrases["far"].format_map(
        {
            "total": nbytes(sum(held)),
            "limit": _round(limit, limit),
            "excess": nbytes(sum(held) - limit),
            "term": say(panel.terms[most].label, lang),
            "amount": nbytes(held[most]),
        }
    )


def round_ticks(end: int) -> list[tuple[int, str]]:
    """At most six round ticks from 0 to `end` bytes, as (bytes, words)."""
    step = next(m * 10**k for k in range(16) for m in (1, 2, 5) if end < 6 * m * 10**k)
    return [(at, _round(at, end)) for at in range(0, end + 1, step)]


def _round(amount: int, like: int) -> str:
    """A round amount, in the unit that fits `like`: 80 GB, 0.5 TB."""
    unit, name = next(
        (u, n)
        for u, n in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))
        if like >= u
    )
    return f"{amount / unit:.4g}{NO_BREAK}{name}"


class _Picture:
    """One reading and how it is put in figures, bars and words."""

    def __init__(self, panel: SumPanel, reading: Reading, state: State, lang: str) -> None:
        self.panel, self.reading = panel, reading
        self.words = words_for(panel, lang)
        named = {
            control.name: say(dict(control.options)[state[control.name]], lang)
            for control in panel.named
        }
        self.subject = self.say(
            "subject", **named, **{name: f"{value:,}" for name, value in reading.numbers.items()}
        )

        if reading.filled < len(panel.terms):
            counts = {"filled": str(reading.filled), "all": str(len(panel.terms))}
            self.subject = self.say("so_far", subject=self.subject, **counts)
        # of the fullest bar; nothing where the state is refused
        self.held = [] if reading.refused else reading.bars[reading.fullest][2]
        self.total = sum(self.held)
        self.end, self.changed = self._axis_end(), None

    def say(self, phrase: str, **values: str) -> str:
        return self.words["phrases"][phrase].format_map(values)

    def scene(self, before: Reading | None) -> Scene:
        reading = self.reading
        if reading.refused:
            lines = [
                text(f"why{i}", 0, 66 + 22 * i, words, size=14)
                for i, words in enumerate(reading.refused)
            ]
            return {
                "items": [
                    text("impossible", 0, 30, self.say("impossible"), "fire", 22, bold=True),
                    *lines,
                ],
                "alt": self.say(
                    "alt_impossible",
                    subject=self.subject,
                    why=self.say("join").join(reading.refused),
                ),
            }
        past = before.bars[before.fullest][2] if before and not before.refused else None
        self.changed = self._changed(past)
        figures = self._figures(past)
        items = [
            *self._figure_items(figures),
            *self._rows(),
            *self._limit(),
            *self._key(past),
            text("note", 0, HEIGHT - 8, self._note(), "soft", 12),
        ]
        return {"items": items, "alt": self._summary(figures, past)}

    def _axis_end(self) -> int:
        most, limit = max(self.total, 1), self.reading.limit
        whole = most * 21 // 20 + 1
        if most * _ZOOM < limit:
            return whole
        return next(
            (end for end in (limit * 5 // 4, limit * 5 // 2, limit * 5) if end >= most), whole
        )

    def _changed(self, past: list[int] | None) -> int | None:
        """The term whose bytes in the fullest bar changed most; None if none did that one could
        see."""
        apart = [abs(a - b) for a, b in zip(self.held, past, strict=True)] if past else [0]
        most = apart.index(max(apart))
        same = not past or nbytes(self.held[most]) == nbytes(past[most])
        return None if same else most

    def _times(self, before: int, after: int) -> str:
        """A factor; what appears or all but vanishes has none that one could read."""
        if not before:
            return f"+{NO_BREAK}{nbytes(after)}"
        if after * _FAR_LESS < before:
            return f"−{NO_BREAK}{nbytes(before - after)}"
        return f"{digits(after / before)}{NO_BREAK}×"

    def _values(self, past: list[int]) -> dict[str, str]:
        before, after = past[self.changed], self.held[self.changed]
        return {
            "term": self.words["terms"][self.changed][0][0],
            "before": nbytes(before),
            "after": nbytes(after),
            "times": self._times(before, after),
        }

    def _figures(self, past: list[int] | None) -> list[tuple[str, str, str]]:
        limit = self.reading.limit
        values = {
            "limit": _round(limit, limit),
            "room": nbytes(abs(limit - self.total)),
            "times": self._times(limit, self.total),
        }
        fits = self.total <= limit
        if self.changed is None:
            change = ("–", self.say("same" if past else "unmoved"))
        else:
            change = (self._values(past)["times"], self.say("change", **self._values(past)))
        return [
            (
                self.say("total"),
                nbytes(self.total),
                self._bar_name(self.reading.fullest)
                + self.words["moments"][self.reading.bars[self.reading.fullest][1]],
            ),
            (
                self.say("verdict"),
                self.say("fits" if fits else "over", **values),
                self.say("spare" if fits else "excess", **values),
            ),
            (self.say("changed"), *change),
        ]

    def _bar_name(self, bar: int) -> str:
        return self.words["bars"][self.reading.bars[bar][0]]

    def _figure_items(self, figures: list[tuple[str, str, str]]) -> Iterator[Item]:
        for i, (name, value, detail) in enumerate(figures):
            x = (0, 232, 490)[i]
            yield text(f"figure-name{i}", x, 18, name, "soft")
            yield text(
                f"figure{i}",
                x,
                46,
                value,
                "fire" if i == 1 and self.total > self.reading.limit else "ink",
                22 if i == 1 else 26,
                bold=True,
            )
            yield text(f"figure-detail{i}", x, 66, detail, "soft", 12)

    def _rows(self) -> Iterator[Item]:
        bars, fullest = self.reading.bars, self.reading.fullest
        if len(bars) > 1:
            yield rect(
                "chosen", 0, _TOP + fullest * _ROW - 5, WIDTH, _ROW - 4, "void", rx=4, stroke="soft"
            )
        for i, (_, _, held) in enumerate(bars):
            y = _TOP + i * _ROW
            yield text(f"bar{i}", 8, y + 18, self._bar_name(i), bold=i == fullest)
            yield text(f"total{i}", _TOTAL, y + 18, nbytes(sum(held)), bold=i == fullest)
            yield from self._segments(i, held, y)
            if self.reading.measured:
                yield from self._ticks(i, self.reading.measured[i], y + _BAR)

    def _at(self, amount: int) -> float:
        return _X + amount / self.end * _LENGTH

    def _segments(self, bar: int, held: list[int], y: float) -> Iterator[Item]:
        before, edge = 0, self._at(self.reading.limit)
        for i, term in enumerate(self.panel.terms):
            start, end = self._at(before), self._at(before + held[i])
            before += held[i]
            if end - start < 0.05:
                continue
            gap = 1.0 if end - start > 3 else 0.0
            names = self.words["terms"][i]
            grew = (
                {"stroke": "fire"} | {"stroke-width": 2}
                if i == self.changed and bar == self.reading.fullest
                else {}
            )
            tip = self.say("key", term=names[0][0], amount=nbytes(held[i]))
            yield rect(
                f"{bar}-{term.name}",
                start,
                y,
                end - start - gap,
                _BAR,
                term.fill,
                title=tip,
                **grew,
            )
            crossed = start < edge < end
            low, high = (
                (edge, end)
                if crossed and end - edge > edge - start
                else (start, edge if crossed else end)
            )
            name = next((name for name, width in names if high - low > 7.3 * width + 5), None)
            if name:
                yield text(
                    f"{bar}-{term.name}-name",
                    (low + high - gap) / 2,
                    y + 17.5,
                    name,
                    f"on-{term.fill}",
                    12,
                    "middle",
                    **{"pointer-events": "none"},
                )

    def _ticks(self, bar: int, measured: list[int | None], y: float) -> Iterator[Item]:
        before = 0
        for term, amount in zip(self.panel.terms, measured, strict=True):
            before += amount or 0
            if amount:
                yield path(
                    f"{bar}-tick-{term.name}",
                    f"M{self._at(before) - 4:.1f} {y + 6}h8l-4 -6z",
                    fill="ink",
                )

    def _limit(self) -> Iterator[Item]:
        limit = self.reading.limit
        yield from axis(
            "bytes",
            _X,
            _AXIS,
            _LENGTH,
            [(at / self.end, words) for at, words in round_ticks(self.end)],
        )
        if limit <= self.end:
            x = self._at(limit)
            yield line("limit", x, _TOP - 12, x, _AXIS, "fire", 2, **{"stroke-dasharray": "5 3"})
            yield text(
                "limit-name", x, _TOP - 16, _round(limit, limit), "fire", 12, "middle", bold=True
            )
        else:
            yield text(
                "limit-name",
                _X + _LENGTH,
                _TOP - 16,
                self.say("beyond", limit=_round(limit, limit)),
                "fire",
                12,
                "end",
                bold=True,
            )

    def _key(self, past: list[int] | None) -> Iterator[Item]:
        rows = (len(self.panel.terms) + 1) // 2
        for i, term in enumerate(self.panel.terms):
            x, y, changed = (
                _KEY_COLUMN * (i // rows),
                _KEY + _KEY_ROW * (i % rows),
                i == self.changed,
            )
            words = (
                self.say("key_changed", **self._values(past))
                if changed
                else self.say("key", term=self.words["terms"][i][0][0], amount=self._amount(i))
            )
            yield rect(f"key-{term.name}", x, y - 11, 13, 13, term.fill)
            yield text(f"key-name-{term.name}", x + 20, y, words, size=12, bold=changed)

    def _amount(self, term: int) -> str:
        """What the fullest bar holds of a term, if it is there yet."""
        return nbytes(self.held[term]) if term < self.reading.filled else "…"

    def _agrees(self) -> bool:
        """Whether all that was measured is what is estimated."""
        measured = self.reading.measured
        return measured is not None and all(
            a in (None, b)
            for found, (_, _, held) in zip(measured, self.reading.bars, strict=True)
            for a, b in zip(found, held, strict=True)
        )

    def _note(self) -> str:
        if self.reading.measured is None:
            return self.say("note")
        return self.say("agree" if self._agrees() else "differ")

    def _summary(self, figures: list[tuple[str, str, str]], past: list[int] | None) -> str:
        names = [names[0][0] for names in self.words["terms"]]
        terms = [
            self.say("item", term=name, amount=nbytes(amount))
            for name, amount in zip(names, self.held, strict=True)
            if amount
        ]
        return self.say(
            "alt",
            subject=self.subject,
            bar=figures[0][2],
            total=figures[0][1],
            verdict=figures[1][1],
            detail=figures[1][2],
            terms=self.say("and").join(terms),
            change="" if self.changed is None else self.say("alt_change", **self._values(past)),
            measured=self.say("alt_measured") if self._agrees() else "",
        )


def _names(label: Words, short: Words | None, lang: str) -> Iterator[str]:
    yield say(label, lang)
    if short:
        yield say(short, lang)
