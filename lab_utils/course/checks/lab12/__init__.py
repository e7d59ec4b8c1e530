"""The checks of lab 12, optimizers: AdamW by hand with groups for weight decay, Lion that keeps one
moment and makes nothing, and Muon whose matrices are shared out whole over the ranks.

Weights are held against float64 computations of the checks' own, on models and matrices that the
notebook never shows; what is kept, made, multiplied and sent is counted on live storages, on
products as they are dispatched, and on transfers.
"""

from __future__ import annotations

from .adamw import EXERCISE as adamw
from .lion import EXERCISE as lion
from .muon import EXERCISE as sharded_muon

__all__ = ["adamw", "lion", "sharded_muon"]
