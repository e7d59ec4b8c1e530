"""A package that is also the function it is named after: `lab_utils.train(config)` beside
`lab_utils.train.loop`.

Importing `lab_utils.train.loop` binds the name `lab_utils.train` to the package, whatever was bound
before. So the package itself answers the call; there is then no order of imports in which the verb
is lost.
"""

from __future__ import annotations

import importlib
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

        def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
            """Pickled by its name, as modules are: a rank's function may use it as a global."""
            return importlib.import_module, (self.__name__,)

    sys.modules[name].__class__ = Verb
