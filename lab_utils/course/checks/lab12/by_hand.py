"""Whether an answer computes its rule itself, or has an optimizer of torch's or of this package do
it."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FrameType
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from ....i18n import t
from ..ranks import BrokenRule

ROOMS = ("/torch/optim/", "/lab_utils/optimizers/", "/lab_utils/engines/")


class ByHand(TorchDispatchMode):
    """While it is entered, a call into another optimizer, by Python or by its fused kernel, is
    noticed; at the end it breaks the rule "by-hand"."""

    def __init__(self) -> None:
        super().__init__()
        self._found = ""
        self._before: Any = None  # somebody else's profile function

    def __enter__(self) -> ByHand:
        self._before = sys.getprofile()
        sys.setprofile(self._look)
        return super().__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        sys.setprofile(self._before)
        if self._found and not isinstance(error, BaseException):
            raise BrokenRule(
                "by-hand",
                t("the update is computed in your own lines.", "更新由你自己的代码算出。"),
                t(f"your code calls {self._found}.", f"你的代码调用了 {self._found}。"),
            )

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func.name().partition("::")[2]
        if name.startswith(("_fused_ada", "_fused_sgd")):
            self._found = name
        return func(*args, **(kwargs or {}))

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and not self._found:
            self._found = _place(frame.f_code.co_filename)


@lru_cache(maxsize=4096)  # asked at every call
def _place(filename: str) -> str:
    """A file of an optimizer's, as one would import it; "" for any other."""
    path = filename.replace("\\", "/")
    rooms = [room for room in ROOMS if room in path]
    return f"{rooms[0][1:]}{path.rpartition(rooms[0])[2]}" if rooms else ""
