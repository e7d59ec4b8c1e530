"""Interactive tools, a room for each: `data_parallelism.explorer()` returns the tool, ready to
display in a notebook or to write to a page.

A tool is pure `scene(state, lang)` functions and a declaration of controls, panels and a challenge;
the room `frame` draws every one of them. Never imports torch.
"""

import pkgutil


def rooms() -> tuple[str, ...]:
    """The names of all tools: every room here but the frame."""
    found = (room.name for room in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in found if name != "frame"))
