"""What every tool shares: controls, panels, challenges, recordings, and the Explorer that draws
them, in a notebook or in a page, without a kernel."""

from .challenge import Need, Step, given
from .controls import Checkbox, Panel, Preset, Select, Slider
from .explorer import Explorer
from .sums import Amount, Refusal, SumPanel, Term

__all__ = [
    "Amount",
    "Checkbox",
    "Explorer",
    "Need",
    "Panel",
    "Preset",
    "Refusal",
    "Select",
    "Slider",
    "Step",
    "SumPanel",
    "Term",
    "given",
]
