"""LLM Training Lab: one engine and one estimator that speak the same configuration and return the
same Report.

Names load on first use, so that `import lab_utils` takes milliseconds and never imports torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Cluster": "config",
    "ConfigError": "config",
    "ModelConfig": "config",
    "ParallelConfig": "config",
    "TrainConfig": "config",
    "Report": "report",
    "compare": "comparison",
    "language": "i18n",
    "set_language": "i18n",
    "t": "i18n",
    "estimate": "estimate",
    "train": "train",
    "launch": "launch",
    "table": "text",
    "ask": "course",
    "check": "course",
    "earlier": "course",
    "covered": "course",
    "reveal": "course",
    "show": "course",
}
__all__ = sorted(_HOMES)
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lab_utils' has no attribute {name!r}")
    module = importlib.import_module(f".{_HOMES[name]}", __name__)
    # estimate, train and launch: see verb.py
    return module if name == _HOMES[name] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
