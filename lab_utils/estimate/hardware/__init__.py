"""What GPUs and this machine can do: data sheets, fitted shares of them, and what calibration
measured here."""

from __future__ import annotations

from .table import HARDWARE, cluster, this_machine

__all__ = ["HARDWARE", "cluster", "this_machine"]
