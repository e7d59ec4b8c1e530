"""3D planner: ranks on machines, and what a layout of tp, pp, dp and ZeRO costs beside the
planner's own."""

from .tool import explorer

__all__ = ["explorer"]
