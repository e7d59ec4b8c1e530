"""Explorer: one base for every tool. It draws scenes, in a notebook (anywidget) or in a page without kernel and network."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..i18n import language
from .controls import Challenge, Control, Panel, Preset, State, count_states, say, start_state, states
from .scene import Scene
from .static import HTML_LANG, Picture, page, stylesheet, svg
from .sums import SumPanel
from .table import compress, pack

LARGEST_TABLE = 2048        # states of one panel that are drawn ahead; a larger panel asks the kernel, one state at a time
_SCRIPTS = tuple(Path(__file__).with_name(name) for name in ("sums.js", "explorer.js"))
_WORDS = {
    "play": ("▶ Play", "▶ 播放"),
    "pause": ("⏸ Pause", "⏸ 暂停"),
    "challenge": ("Challenge", "挑战"),
    "open": ("Not yet.", "尚未达成。"),
    "solved": ("✓ Solved.", "✓ 已达成。"),
    "presets": ("Presets:", "预设："),
    "waiting": ("waiting for the kernel", "正在等待内核"),
}


class Explorer:
    """A tool: controls above, panels below, and perhaps a challenge; display it, or write `html()` to a file.

    Raises ValueError for a panel whose controls do not exist, and for a challenge that is met from the start or never (the
    states of a SumPanel are too many to look for one that meets it).
    """

    def __init__(
        self, title: tuple[str, str], controls: Sequence[Control], panels: Sequence[Panel | SumPanel], challenge: Challenge | None = None,
        lang: str | None = None, presets: Sequence[Preset] = ()
    ) -> None:  # fmt: skip
        self.lang = lang or language()
        self.title, self.controls, self.panels, self.challenge = say(title, self.lang), tuple(controls), tuple(panels), challenge
        self.presets = tuple(presets)
        self._by_name = {c.name: c for c in self.controls}
        for panel in self.panels:
            known = {name for name in self._by_name if self._by_name[name].by in (None, *panel.controls)}
            if not known.issuperset(panel.controls):
                missing = ", ".join(name for name in panel.controls if name not in known)
                raise ValueError(f"panel {panel.name!r} cannot use {missing}: no such control, or the one that decides its options is not the panel's.")
        if challenge and challenge.panel not in {p.name for p in self.panels if self._is_small(p)}:
            raise ValueError(f"the challenge needs a panel {challenge.panel!r} of at most {LARGEST_TABLE} states.")

    def scene(self, panel: Panel | SumPanel, state: State) -> Scene:
        """What a panel shows in a state; controls that are not the panel's are ignored."""
        return panel.scene({name: state[name] for name in panel.controls}, self.lang)

    @functools.cached_property
    def table(self) -> dict[str, Any]:
        """Panel name → its packed scenes, and for the challenge's panel "solved": a boolean for each; None if the panel asks
        the kernel. Of a SumPanel the amounts that its scenes are made of."""
        table: dict[str, Any] = {}
        for panel in self.panels:
            scenes, solved = [], []
            if isinstance(panel, SumPanel):
                table[panel.name] = panel.pack(self._by_name, self.lang)
                if self.challenge and self.challenge.panel == panel.name and panel.met(start_state(self.controls)):
                    raise ValueError(f"the challenge of {self.title!r} must be open at the start.")
                continue
            for state in states(self._controls_of(panel)) if self._is_small(panel) else ():
                scenes.append(state and self.scene(panel, state))
                if self.challenge and self.challenge.panel == panel.name:
                    solved.append(bool(state and self.challenge.met(state)))
            table[panel.name] = pack(scenes) | ({"solved": solved} if solved else {}) if scenes else None
            if solved and (not any(solved) or self.challenge.met(start_state(self.controls))):
                raise ValueError(f"the challenge of {self.title!r} must be open at the start and met in some state.")
        return table

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        """What explorer.js needs beside the table: words, controls, panels."""
        controls = []
        for c in self.controls:
            lists = [c.options[value] for value, _ in self._by_name[c.by].options] if c.by else [c.options]
            words = [[say(w, self.lang) for _, w in options] for options in lists]
            controls.append({"name": c.name, "label": say(c.label, self.lang), "kind": c.kind, "play": c.play, "by": c.by, "size": c.size, "words": words})
        return {
            "title": self.title, "lang": HTML_LANG[self.lang], "words": {k: say(w, self.lang) for k, w in _WORDS.items()},
            "controls": controls, "panels": [self._panel_spec(panel) for panel in self.panels],
            "presets": [{"label": say(p.label, self.lang), "panel": p.panel, "state": self._indices(p.state)} for p in self.presets],
            "challenge": self.challenge and {"task": say(self.challenge.task, self.lang), "panel": self.challenge.panel},
        }  # fmt: skip

    def html(self) -> str:
        """A self-contained page: no kernel, no network. Raises ValueError if a panel is too large for a table."""
        large = [p.name for p in self.panels if not self._is_small(p)]
        if large:
            raise ValueError(f"panel {large[0]!r} has more than {LARGEST_TABLE} states and needs a kernel; give it fewer controls or options.")
        return page(self.spec, compress(self.table), self._start_indices(), _script())

    def svg(self) -> str:
        """The first state as a picture that needs nothing at all; what a notebook shows where no code runs."""
        state, shown, pictures = start_state(self.controls), set(), []
        for panel in self.panels:
            new = [c for c in self.controls if c.name in panel.controls and c.name not in shown]
            shown.update(c.name for c in new)
            choices = [(say(c.label, self.lang), say(dict(c.choices(state))[state[c.name]], self.lang)) for c in new]
            pictures.append(Picture(panel.width, panel.height, choices, self.scene(panel, state)))
        return svg(self.title, pictures, self.lang)

    @functools.cached_property
    def widget(self) -> Any:
        """The live widget (anywidget); built when the tool is displayed for the first time."""
        widget = _widget_class()(spec=self.spec, table=compress(self.table), state=self._start_indices())
        widget.on_msg(self._answer)
        return widget

    def _answer(self, widget: Any, question: dict[str, Any], _buffers: Any) -> None:
        panel = next(p for p in self.panels if p.name == question["panel"])
        state: dict[str, Any] = {}
        for control in self._controls_of(panel):
            state[control.name] = control.choices(state)[question["state"][control.name]][0]
        widget.send(question | {"scene": self.scene(panel, state)})

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle = self.widget._repr_mimebundle_()
        live = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**live, "text/plain": repr(self), "image/svg+xml": self.svg()}

    def __repr__(self) -> str:
        state = start_state(self.controls)
        return "\n".join([self.title, *(self.scene(p, state)["alt"] for p in self.panels)])

    def _controls_of(self, panel: Panel | SumPanel) -> list[Control]:
        return [self._by_name[name] for name in panel.controls]

    def _is_small(self, panel: Panel | SumPanel) -> bool:
        return isinstance(panel, SumPanel) or count_states(self._controls_of(panel)) <= LARGEST_TABLE

    def _panel_spec(self, panel: Panel | SumPanel) -> dict[str, Any]:
        spec = {"name": panel.name, "width": panel.width, "height": panel.height, "controls": panel.controls}
        return spec | ({"sums": panel.spec(self.lang)} if isinstance(panel, SumPanel) else {})

    def _indices(self, state: State) -> dict[str, int]:
        """The position of each value among its control's options."""
        whole = start_state(self.controls) | state
        return {name: [value for value, _ in self._by_name[name].choices(whole)].index(value) for name, value in state.items()}

    def _start_indices(self) -> dict[str, int]:
        return {c.name: c.start for c in self.controls}


def _script() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)


@functools.cache
def _widget_class() -> type:
    import anywidget  # takes a quarter of a second, and only a displayed tool needs it
    import traitlets

    class ExplorerWidget(anywidget.AnyWidget):
        _esm = _script()
        _css = stylesheet()
        spec = traitlets.Dict().tag(sync=True)
        table = traitlets.Unicode().tag(sync=True)
        state = traitlets.Dict().tag(sync=True)

    return ExplorerWidget
