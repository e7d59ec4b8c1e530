"""Interactive tools: each is a pure `scene(state, lang)` that Explorer draws, in a notebook or in a page without a kernel.

One module per tool; `data_parallelism.explorer()` returns the tool, ready to display. Never imports torch, and imports
anywidget only when a tool is displayed.
"""

from .controls import Challenge, Checkbox, Panel, Preset, Select, Slider
from .explorer import Explorer
from .sums import Amount, Refusal, SumPanel, Term

__all__ = ["Amount", "Challenge", "Checkbox", "Explorer", "Panel", "Preset", "Refusal", "Select", "Slider", "SumPanel", "Term"]
