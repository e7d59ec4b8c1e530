"""Explorer: one base for every tool. It draws scenes from a table that travels with the page, so a
notebook's saved output and a page on disk both live without a kernel and without a network."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...i18n import language
from .address import address
from .challenge import Step
from .controls import (
    Control,
    Panel,
    State,
    count_states,
    option_lists,
    say,
    start_state,
    states,
    still_state,
)
from .scene import Scene
from .static import HTML_LANG, Picture, embedded, page, svg
from .sums import SumPanel
from .table import compress, pack, pooled

LARGEST_TABLE = 2048  # states of a panel, or of a condition of a challenge, drawn ahead
_WORDS = {
    "play": ("Play", "播放"),
    "pause": ("Pause", "暂停"),
    "challenge": ("Challenge", "挑战"),
    "step": ("Step {number} of {all}", "第 {number} 关，共 {all} 关"),
    "done": ("solved", "已达成"),
    "open": ("Not yet:", "尚未达成："),
    "solved": ("✓ Solved.", "✓ 已达成。"),
    "next": ("Next step", "下一关"),
    "again": ("Start over", "重新开始"),
    "presets": ("Presets:", "预设："),
}


class Explorer:
    """A tool: a challenge (a ladder of `steps`) on top, then panels, each below its controls.
    Display it, or write `html()` to a file. `name` is the same in both languages; under it the
    browser keeps which steps are solved.

    Raises ValueError for a panel whose controls do not exist or whose states are too many for a
    table, and, once the table is made, for a ladder that is none: a step that is met at the start
    or by the solution of the one before, or that its own solution does not meet.
    """

    def __init__(
        self,
        name: str,
        title: tuple[str, str],
        controls: Sequence[Control],
        panels: Sequence[Panel | SumPanel],
        steps: Sequence[Step] = (),
        lang: str | None = None,
    ) -> None:
        self.lang = lang or language()
        self.name, self.title = name, say(title, self.lang)
        self.controls, self.panels, self.steps = tuple(controls), tuple(panels), tuple(steps)
        self._by_name = {c.name: c for c in self.controls}
        for panel in self.panels:
            self._refuse_controls(f"panel {panel.name!r}", panel.controls)
            if not isinstance(panel, SumPanel):
                self._refuse_size(f"panel {panel.name!r}", panel.controls)
        for step in self.steps:
            for need in step.needs:
                self._refuse_controls("a step of the challenge", need.controls)
                self._refuse_size("a step of the challenge", need.controls)

    def scene(self, panel: Panel | SumPanel, state: State) -> Scene:
        """What a panel shows in a state; controls that are not the panel's are ignored."""
        return panel.scene({name: state[name] for name in panel.controls}, self.lang)

    def far(self, step: Step, state: State) -> str | None:
        """How far a state is from meeting a step, in words; None where it is met."""
        told = (need.told(state, self.lang) for need in step.needs)
        words = next((words for words in told if words), None)
        if words is None and step.fits is not None:
            panel = next(p for p in self.panels if p.name == step.fits)
            words = panel.shortfall({name: state[name] for name in panel.controls}, self.lang)
        return words

    def solution(self, step: Step) -> dict[str, Any]:
        """The whole state that solves a step: its solution over what the tool opens with."""
        return start_state(self.controls) | dict(step.solution)

    @functools.cached_property
    def table(self) -> dict[str, Any]:
        """Panel name → its packed scenes; of a SumPanel the amounts that its scenes are made of."""
        self._refuse_ladder()
        table: dict[str, Any] = {}
        for panel in self.panels:
            if isinstance(panel, SumPanel):
                table[panel.name] = panel.pack(self._by_name, self.lang)
            else:
                table[panel.name] = pack(
                    [state and self.scene(panel, state) for state in self._states(panel.controls)]
                )
        return table

    @functools.cached_property
    def needs(self) -> list[list[dict[str, Any]]]:
        """For each step, for each of its needs: what it says in every state of its controls."""
        return [
            [
                pooled(
                    need.controls,
                    [
                        state and need.told(state, self.lang)
                        for state in self._states(need.controls)
                    ],
                )
                for need in step.needs
            ]
            for step in self.steps
        ]

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        """What explorer.js needs beside the tables: words, controls, panels, steps."""
        return {
            "name": self.name,
            "title": self.title,
            "lang": HTML_LANG[self.lang],
            "words": {k: say(w, self.lang) for k, w in _WORDS.items()},
            "controls": [self._control_spec(control) for control in self.controls],
            "panels": [self._panel_spec(panel) for panel in self.panels],
            "steps": [
                {"task": say(s.task, self.lang), "why": say(s.why, self.lang), "fits": s.fits}
                for s in self.steps
            ],
        }

    def html(self) -> str:
        """A self-contained page: no kernel, no network. Its address holds the setting."""
        return page(self.title, self.lang, self._addressed)

    def part(self) -> str:
        """`html` as a piece of a site's page; a picture where no script runs."""
        return embedded(self._addressed, self.svg(), repr(self), "h2", addressed=True)

    def svg(self) -> str:
        """The first state, its story told, as a picture that needs nothing at all; what is shown
        where no script runs."""
        state, shown, pictures = still_state(self.controls), set(), []
        for panel in self.panels:
            new = [c for c in self.controls if c.name in panel.controls and c.name not in shown]
            shown.update(c.name for c in new)
            choices = [
                (say(c.label, self.lang), say(dict(c.choices(state))[state[c.name]], self.lang))
                for c in new
            ]
            pictures.append(Picture(panel.width, panel.height, choices, self.scene(panel, state)))
        return svg(self.title, pictures, self.lang)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {
            "text/html": embedded(self._payload, self.svg(), repr(self), "h3", addressed=False),
            "text/plain": repr(self),
        }

    def __repr__(self) -> str:
        state = still_state(self.controls)
        return "\n".join([self.title, *(self.scene(p, state)["alt"] for p in self.panels)])

    @functools.cached_property
    def _payload(self) -> str:
        """All that explorer.js is given, compressed."""
        return compress(self._parts())

    @functools.cached_property
    def _addressed(self) -> str:
        """The same with what address.js is given."""
        return compress(self._parts() | {"address": address(self._by_name, self.lang)})

    def _parts(self) -> dict[str, Any]:
        state = {c.name: c.start for c in self.controls}
        return {"spec": self.spec, "table": self.table, "needs": self.needs, "state": state}

    def _states(self, controls: Sequence[str]) -> list[State | None]:
        return list(states([self._by_name[name] for name in controls]))

    def _refuse_controls(self, what: str, controls: Sequence[str]) -> None:
        known = {name for name, c in self._by_name.items() if c.by in (None, *controls)}
        missing = [name for name in controls if name not in known]
        if missing:
            raise ValueError(
                f"{what} cannot use {', '.join(missing)}: no such control, or the one that decides"
                " its options is missing."
            )

    def _refuse_size(self, what: str, controls: Sequence[str]) -> None:
        count = count_states([self._by_name[name] for name in controls])
        if count > LARGEST_TABLE:
            raise ValueError(
                f"{what} has {count} states, more than the {LARGEST_TABLE} of a table; give it"
                " fewer controls or options, or make it a SumPanel."
            )

    def _refuse_ladder(self) -> None:
        """Every step is open at the start, met by its own solution, not yet by the one before."""
        earlier = [("at the start", start_state(self.controls))]
        for number, step in enumerate(self.steps, 1):
            for when, state in earlier:
                if self.far(step, state) is None:
                    raise ValueError(f"step {number} of {self.name!r} is already met {when}.")
            words = self.far(step, self.solution(step))
            if words is not None:
                raise ValueError(f"the solution of step {number} of {self.name!r} fails: {words}")
            earlier[1:] = [(f"by the solution of step {number}", self.solution(step))]

    def _control_spec(self, c: Control) -> dict[str, Any]:
        lists = option_lists(c, self._by_name)
        return {
            "name": c.name,
            "label": say(c.label, self.lang),
            "kind": c.kind,
            "play": c.play,
            "by": c.by,
            "only": c.only and [c.only[0], self._indices(dict([c.only]))[c.only[0]]],
            "size": c.size,
            "words": [[say(w, self.lang) for _, w in options] for options in lists],
        }

    def _panel_spec(self, panel: Panel | SumPanel) -> dict[str, Any]:
        spec = {
            "name": panel.name,
            "width": panel.width,
            "height": panel.height,
            "controls": panel.controls,
            "presets": [
                {"label": say(p.label, self.lang), "state": self._indices(p.state)}
                for p in panel.presets
            ],
        }
        return spec | ({"sums": panel.spec(self.lang)} if isinstance(panel, SumPanel) else {})

    def _indices(self, state: State) -> dict[str, int]:
        """The position of each value among its control's options."""
        whole = start_state(self.controls) | dict(state)
        return {
            name: [value for value, _ in self._by_name[name].choices(whole)].index(value)
            for name, value in state.items()
        }
