"""A package that is also the function it is named after: `lab_utils.train(config)` beside
`lab_utils.train.loop`.

Importing `lab_utils.train.loop` binds the name `lab_utils.train` to the package, whatever was bound
before. So the package itself answers the call; there is then no order of imports in which the verb
is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def callable_package(name: str, function: Callable[..., Any]) -> None:
    """Make calling the package `name` call `function`; `help` and `inspect.signature` then show the
    function's."""

    class Verb(ModuleType):
        __call__ = staticmethod(function)
        __wrapped__ = function

    sys.modules[name].__class__ = Verb
