"""Which layouts of a model fit a cluster, which is fastest, and why the others lose."""

from __future__ import annotations

from .planner import Plan, neighbours, plan

__all__ = ["Plan", "neighbours", "plan"]
