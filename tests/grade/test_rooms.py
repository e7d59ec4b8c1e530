"""Rooms, with every kind of trouble in them: what ends it, what it could reach, what is left.

As root the room has another user; the same without root's rights, by a user namespace, is tried by
`as_root=False`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from leftovers import is_ours, left_behind

from lab_utils.grade.frames import Frame, FrameError, read_frame
from lab_utils.grade.group import sweep
from lab_utils.grade.limits import Ended, Limits
from lab_utils.grade.sandbox import Room, RoomError, clear_folders
from lab_utils.grade.tree import usage


def missing_here() -> str:
    """What this machine does not give a room, in one line; "" where it gives all."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    for way in (None, False):
        try:
            with Room(Limits(), as_root=way, argv=[sys.executable, "-c", "pass"]) as room:
                room.wait()
        except RoomError as error:
            return str(error)
        if room.missing:
            return str(room.missing)
    return ""


LACKS = missing_here()
pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
PYTHON = [sys.executable, "-I", "-c"]
ROOT = os.getuid() == 0
WAYS = [pytest.param(None, id="root"), pytest.param(False, id="user")] if ROOT else [None]


def in_a_room(code: str, *arguments: str, as_root: bool | None = None, **given) -> Ended:
    limits = Limits(**{"wall_s": 30.0, **given.pop("limits", {})})
    argv = [*PYTHON, code, *arguments]
    with Room(limits, as_root=as_root, argv=argv, **given) as room:
        assert room.missing == {}
        return room.wait()


@pytest.fixture(autouse=True)
def nothing_left():
    clear_folders()  # of others who were killed
    yield
    for _ in range(100):
        if not rooms_left():
            return
        time.sleep(0.02)
    assert not rooms_left()


def rooms_left() -> list[str]:
    """What is left of rooms, but for our nursery, which goes on; also other namespaces' processes,
    whatever they call themselves."""
    sweep()
    left = left_behind()
    here = os.stat("/proc/self/ns/pid").st_ino
    found = left["files"] + left["groups"] + left["mounts"]
    for entry in Path("/proc").iterdir():
        try:
            elsewhere = entry.name.isdigit() and os.stat(entry / "ns/pid").st_ino != here
        except OSError:
            continue
        if elsewhere and is_ours(int(entry.name)):
            found.append(entry.name)
    return found


@pytest.mark.parametrize("as_root", WAYS)
@pytest.mark.parametrize(
    ("code", "reason", "limits"),
    [
        ("while True: pass", "wall_s", dict(wall_s=1.0)),
        ("import time; time.sleep(1000)", "wall_s", dict(wall_s=1.0)),
        ("x = b'1' * 10_000_000_000", "memory_bytes", dict(memory_bytes=300_000_000)),
        ("while True: print('x' * 10_000)", "output_bytes", {}),
        ("import os\nwhile True: os.fork()", "processes", {}),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_a_limit_ends_it(as_root, code, reason, limits):
    if ROOT and as_root is False and reason == "processes":
        pytest.skip("the kernel never limits how many processes root has")
    ended = in_a_room(code, as_root=as_root, limits=limits)
    assert ended.reason == reason
    assert ended.status is None
    assert len(ended.printed) <= Limits().output_bytes
    assert ended.seconds < limits.get("wall_s", 20) + 5


@pytest.mark.parametrize("as_root", WAYS)
def test_how_it_ended_is_told(as_root):
    assert in_a_room("print('words')", as_root=as_root).printed == b"words\n"
    assert in_a_room("import os; os._exit(7)", as_root=as_root).status == 7
    assert in_a_room("import os; os.kill(os.getpid(), 9)", as_root=as_root).status == -9


@pytest.mark.parametrize(("limit", "reason"), [(450, "done"), (180, "memory_bytes")])
def test_memory_is_its_own_and_not_what_it_shares_with_the_nursery(limit, reason):
    code = "import time\nx = bytearray(b'1') * 200_000_000\ntime.sleep(0.5)"
    assert in_a_room(code, limits=dict(memory_bytes=limit * 10**6)).reason == reason


@pytest.mark.parametrize("as_root", WAYS)
def test_whoever_stays_behind_ends_with_the_room(as_root):
    """Twice forked, in a session of its own, deaf to signals."""
    code = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in {*range(1, 32)} - {9, 19}:
            signal.signal(number, signal.SIG_IGN)
        print("staying", flush=True)
        time.sleep(1000)
time.sleep(0.5)
"""
    ended = in_a_room(code, as_root=as_root)
    assert (ended.reason, ended.printed) == ("done", b"staying\n")
    assert ended.seconds < 20


REACH = """
import ctypes, json, os, signal, socket, sys
found, libc = {}, ctypes.CDLL(None, use_errno=True)

def attempt(name, step):
    try:
        found[name] = repr(step())
    except BaseException as error:
        found[name] = type(error).__name__

secret, empty, parent = sys.argv[1:]
attempt("others' files", lambda: open(secret).read())
attempt("hidden files", lambda: os.listdir(empty))
attempt("write", lambda: open(empty + "/../x", "w"))
attempt("root", lambda: open("/x", "w"))
attempt("network", lambda: socket.create_connection(("1.1.1.1", 80), 1))
attempt("parent", lambda: os.kill(int(parent), 9))
attempt("everyone", lambda: os.kill(1, 9) or "alive")
attempt("processes", lambda: sorted(p for p in os.listdir("/proc") if p.isdigit() and p != "1"))
attempt("descriptors", lambda: sorted(os.listdir("/proc/self/fd"))[3:])
attempt("mount", lambda: libc.umount2(empty.encode(), 2))
# in a user namespace of its own it has every right, but what it was given stays locked
attempt("namespace", lambda: libc.unshare(0x10000000 | 0x20000))
attempt("mount there", lambda: libc.umount2(empty.encode(), 2))
attempt("hidden there", lambda: os.listdir(empty))
attempt("memory of 1", lambda: open("/proc/1/mem", "rb").read(1))
attempt("trace 1", lambda: libc.ptrace(16, 1, 0, 0))
attempt("clock", lambda: libc.settimeofday(ctypes.byref((ctypes.c_long * 2)(0, 0)), None))
print(json.dumps(found))
"""


@pytest.mark.parametrize("as_root", WAYS)
def test_what_it_cannot_reach(as_root, tmp_path):
    (tmp_path / "other.ipynb").write_text("secret")
    package = tmp_path / "package"
    (package / "checks").mkdir(parents=True)
    (package / "checks/expected.txt").write_text("secret")
    ended = in_a_room(
        REACH,
        *map(str, (tmp_path / "other.ipynb", package / "checks", os.getpid())),
        as_root=as_root,
        readable=[package],
        hidden=[package / "checks"],
    )
    found = json.loads(ended.printed)
    assert found["others' files"] == "FileNotFoundError"
    assert found["hidden files"] == found["hidden there"] == "[]"
    assert found["write"] == found["root"] == "OSError"
    assert found["network"] == "OSError"
    assert found["parent"] in ("ProcessLookupError", "PermissionError")
    assert found["everyone"] in ("'alive'", "PermissionError")
    assert len(eval(found["processes"])) <= 1
    assert "secret" not in ended.printed.decode()
    assert found["mount"] == found["mount there"] == found["trace 1"] == found["clock"] == "-1"
    assert found["memory of 1"] in ("PermissionError", "OSError", "FileNotFoundError")


ECHO = """
import os
line = int(os.environ["LAB_LINE"])
while True:
    os.write(line, os.read(line, 65536))
"""


def test_frames_there_and_back():
    array = np.arange(5000, dtype=np.float64).reshape(5, 1000)
    with Room(Limits(), argv=[*PYTHON, ECHO]) as room:
        back = room.ask(Frame({"call": 1}, [array, np.zeros((0, 3), np.int64)]), 20)
        assert back.words == {"call": 1}
        assert (back.arrays[0] == array).all()
        assert back.arrays[1].shape == (0, 3)
    assert room.ended.reason == "closed"


@pytest.mark.parametrize(
    "said",
    [
        b"\xff" * 64,
        (8).to_bytes(8, "little") + (8).to_bytes(8, "little") + b"no JSON!",
        (2).to_bytes(8, "little") + (2).to_bytes(8, "little") + b"{}",
        (1 << 40).to_bytes(8, "little") + (1).to_bytes(8, "little"),
    ],
)
def test_what_is_no_frame_is_refused(said):
    ours, theirs = os.pipe()
    os.write(theirs, said)
    os.close(theirs)
    with pytest.raises(FrameError):
        read_frame(ours)
    os.close(ours)


def test_frames_of_kinds_that_nobody_asked_for():
    for kind in (["object", [1]], ["float32", [-1]], ["float32", [10]], ["float32", "x"], 3):
        head = json.dumps({"words": 1, "arrays": [kind]}).encode()
        with pytest.raises(FrameError):
            Frame.unpacked(len(head), head)


def test_no_answer_and_no_program():
    asleep = [*PYTHON, "import time; time.sleep(100)"]
    with Room(Limits(), argv=asleep) as room, pytest.raises(TimeoutError):
        room.ask(Frame("anybody there?"), 0.3)
    with Room(Limits(), argv=[*PYTHON, "pass"]) as room, pytest.raises(EOFError):
        room.ask(Frame("anybody there?"), 20)


def test_a_tree_is_looked_at_whole():
    used, processes = usage(os.getpid(), 10**12)
    assert used > 1e6
    assert processes >= 1
    assert usage(2**22 + 1, 0) == (0, 0)
    assert 1e6 < usage(os.getpid(), 0)[0] < 2 * used
