"""Writes down every file of the course that this process and its children open, modules included.

Python runs this at its start when the build has put this folder on the path: in the kernel, in the
server that ranks are forked from, and so in every rank. One line for each file and process goes to
the file that LAB_TRACE_TO names; a file counts when it lies below LAB_TRACE_BELOW.
"""

import os
import sys

_to, _below = os.environ["LAB_TRACE_TO"], os.environ["LAB_TRACE_BELOW"] + os.sep
_seen = set()


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str):
        return
    path = arguments[0]
    if path.startswith(_below) and path not in _seen:
        _seen.add(path)
        file = os.open(_to, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{path}\n".encode())
        os.close(file)


sys.addaudithook(_note)

# another sitecustomize, which this one has hidden, has its turn
sys.path.remove(os.path.dirname(__file__))
_own = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError:
    sys.modules["sitecustomize"] = _own
