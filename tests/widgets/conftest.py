"""Every tool in both languages, made once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

import pytest

from lab_utils.widgets.frame import Explorer


@cache
def _tool(name: str, lang: str) -> Explorer:
    return import_module(f"lab_utils.widgets.{name}").explorer(lang)


@pytest.fixture(scope="session")
def tool_of() -> Callable[[str, str], Explorer]:
    """A tool by the name of its room and the language."""
    return _tool
