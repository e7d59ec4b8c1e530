"""What a check says, and when it gives the next hint; the answers of lab 05 themselves are judged
in tests/labs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import torch

from lab_utils.course import Todo, check, todo
from lab_utils.course.checks.ranks import patience_here
from lab_utils.course.checks.verdict import Failure, Measured, Result
from lab_utils.course.hints import digest_of, next_hint, read_hints
from lab_utils.i18n import set_language

LADDERS = {
    "value": (("first", "一"), ("second", "二"), ("third", "三")),
    "other": (("a", "甲"), ("b", "乙"), ("c", "丙")),
}


@pytest.fixture(autouse=True)
def _english():
    set_language("en")
    yield
    set_language("en")


def written(source: str):
    """A function as a notebook cell defines it."""
    namespace = {"__name__": "__main__"}
    exec(source, namespace)
    return namespace["f"]


def test_the_next_hint_comes_only_after_a_changed_answer():
    one, same, two, three, four = (
        written(f"def f(x):\n    return x + {n}  # {note}")
        for n, note in ((1, "a"), (1, "b"), (2, ""), (3, ""), (4, ""))
    )
    hints = [next_hint("e", "value", f, LADDERS) for f in (one, one, same, two, one, three, four)]
    assert [h.number for h in hints] == [1, 1, 1, 2, 2, 3, 3]
    assert [h.text for h in hints][-1] == "third"
    # each criterion has its own ladder
    assert next_hint("e", "other", four, LADDERS).number == 1
    assert next_hint("another", "value", four, LADDERS).number == 1  # and each exercise


@pytest.mark.parametrize(("load", "seconds"), [(0.1, 4), (2.0, 4), (5.0, 10), (400.0, 32)])
def test_a_busy_machine_gets_more_patience(monkeypatch, load, seconds):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert patience_here() == seconds


def test_hints_speak_the_readers_language():
    set_language("zh")
    assert next_hint("e", "value", written("def f(): pass"), LADDERS).text == "一"


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("def f():\n    return 1", "def f():\n\n    # why\n    return 1", True),
        ("def f():\n    return 1", "def f():\n    return 2", False),
        ("def f(a=1):\n    return a", "def f(a=2):\n    return a", False),
        (
            "def g():\n    return 1\ndef f():\n    return g()",
            "def g():\n    return 2\ndef f():\n    return g()",
            False,
        ),
        ("K = 1\ndef f():\n    return K", "K = 2\ndef f():\n    return K", False),
        ("def f():\n    return [i for i in (1,)]", "def f():\n    return [i for i in (2,)]", False),
        (
            "class f:\n    def m(self):\n        return 1",
            "class f:\n    def m(self):\n        return 2",
            False,
        ),
        (
            "class f:\n    @property\n    def m(self):\n        return 1",
            "class f:\n    @property\n    def m(self):\n        return 2",
            False,
        ),
        ("class f:\n    limit = 1", "class f:\n    limit = 2", False),
        (
            "class g:\n    limit = 1\nclass f(g):\n    pass",
            "class g:\n    limit = 2\nclass f(g):\n    pass",
            False,
        ),
        (
            "class f:\n    def m(self):\n        pass",
            "class f:\n    def n(self):\n        pass",
            False,
        ),
        ("def f():\n    return lambda: 1", "def f():\n    return lambda: 2", False),
        (
            "def f(n):\n    return n and f(n - 1)",
            "def f(n):\n    return n and f(n - 1)  # again",
            True,
        ),
    ],
)
def test_a_digest_follows_what_the_code_does(before, after, same):
    assert (digest_of(written(before)) == digest_of(written(after))) is same


def test_a_result_shows_itself_in_both_languages():
    for lang, words in (
        ("en", ("not yet", "Expected: four", "Got: <three>", "Hint 1/3: first")),
        ("zh", ("还没有通过", "预期：four", "提示 1/3：一")),
    ):
        set_language(lang)
        failed = Result.of(
            "e", Failure("value", "four", "<three>", "N = 3"), written("def f(): pass"), LADDERS
        )
        assert not failed.passed
        assert all(word in repr(failed) for word in words)
        assert "value" not in repr(failed)  # the criterion's id is for machines
        assert "&lt;three&gt;" in failed._repr_html_()
        passed = Result.of(
            "e", Measured((("N", "bytes"), ("3", "16")), ("and so on",)), None, LADDERS
        )
        assert passed.passed
        assert passed.criterion is None
        assert "<td>16</td>" in passed._repr_html_()
        assert "and so on" in repr(passed)


def test_text_tables_line_up_with_chinese_in_them():
    shown = repr(
        Result.of("e", Measured((("元素数", "N"), ("12", "4"))), None, LADDERS)
    ).splitlines()
    assert shown[1:] == ["  元素数  N", "  12      4"]


def test_an_answer_that_is_still_a_stub_gets_a_kind_word():
    def chunk_bounds(numel, n):
        return todo("chunk-bounds")

    with pytest.raises(Todo, match="chunk-bounds"):
        check.chunk_bounds(chunk_bounds)

    class Bucketed:
        def __init__(self, model, axis, bucket_bytes):
            todo("bucketed")

    with pytest.raises(Todo, match="bucketed"):
        check.bucketed(Bucketed)


def test_an_endless_loop_ends_in_a_verdict():
    def chunk_bounds(numel, n):
        while True:
            pass

    began = time.monotonic()
    result = check.chunk_bounds(chunk_bounds)
    assert result.criterion == "hung"
    assert "while True" in result.failure.came or "pass" in result.failure.came
    assert time.monotonic() - began < 9


def test_a_crash_quotes_the_learners_own_line():
    def chunk_bounds(numel, n):
        return [n // (numel - 12)]

    result = check.chunk_bounds(chunk_bounds)
    assert result.criterion == "raised"
    assert result.failure.came.startswith("ZeroDivisionError")
    assert result.failure.came.endswith("return [n // (numel - 12)]")


def test_what_the_learner_prints_is_heard_and_what_c_plus_plus_says_at_its_end_is_not(capfd):
    """gloo ends a process whose peers have gone with "terminate called after throwing …"."""

    def ring_all_reduce(tensor, axis, combine):
        print("I am", axis.rank)
        os.write(2, b"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n")
        print("and so", file=sys.stderr)
        axis.exchange(tensor, 0, torch.empty_like(tensor), 0, purpose="gradient")

    assert check.ring_all_reduce(ring_all_reduce).criterion == "ring.neighbours"
    heard = "".join(capfd.readouterr())
    assert "I am 1" in heard
    assert "and so" in heard
    assert "terminate" not in heard


INTERRUPTED = """
import os, pathlib, psutil, signal, sys, threading, time
from lab_utils.course import check
from lab_utils.course.checks import exercise
exercise.patience_here = lambda: 200.0  # seconds: the interrupt comes first
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
begun, me = pathlib.Path(sys.argv[1]), psutil.Process()
def ring_all_reduce(tensor, axis, combine):
    begun.touch()
    while True: pass
def interrupt():
    while not begun.exists(): time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    check.ring_all_reduce(ring_all_reduce)
except KeyboardInterrupt as stopped:
    print(*stopped._render_traceback_(), sep="\\n")
    print(sum(len(server.children(recursive=True)) for server in me.children()), "ranks")
"""


def test_an_interrupt_ends_in_one_sentence_and_leaves_no_rank(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "begun")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout.splitlines() == [
        "The check was stopped before its end; none of its processes is left.",
        "0 ranks",
    ], (ran.returncode, ran.stderr)
    assert "Traceback" not in ran.stderr


def test_hints_that_are_not_three_in_two_languages_are_refused(tmp_path):
    good = "# a, b\n\n## value\n" + "".join(f"{n}. word\n   词\n" for n in (1, 2, 3))
    (tmp_path / "good.md").write_text(good)
    assert read_hints(tmp_path / "good.md")["b"]["value"] == (("word", "词"),) * 3
    for number, wrong in enumerate((good.replace("   词\n", "", 1), good + "4. word\n   词\n")):
        (tmp_path / f"{number}.md").write_text(wrong)
        with pytest.raises(ValueError, match="three hints"):
            read_hints(tmp_path / f"{number}.md")


def test_a_check_loads_its_own_lab_alone():
    code = (
        "import sys; from lab_utils.course import check; check.chunk_bounds;"
        "print(*sorted(m for m in sys.modules if '.checks.lab' in m and m.count('.') == 3))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["lab_utils.course.checks.lab05"]


def test_the_package_does_not_load_torch_for_its_checks_until_they_are_called_for():
    code = "import lab_utils, lab_utils.course, sys; print('torch' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )
