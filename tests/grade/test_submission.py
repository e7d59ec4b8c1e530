"""A submitted notebook read without being run: whatever the file is, each answer's program is
found, or a sentence says why not."""

from __future__ import annotations

import json

import pytest
from classroom import edited, hand_in, notebook, right_answers, whole

from lab_utils.grade.submission import Submission, Unreadable, handed_out, read_submission

CHANGES = [
    (),
    ("bones",),
    ("reversed",),
    ("doubled",),
    ("bare",),
    ("terse", "loud"),
    ("terse", "bare"),
]


@pytest.mark.parametrize("changes", CHANGES, ids="-".join)
def test_the_program_is_found_however_the_file_was_left(changes, tmp_path):
    read = read_submission(hand_in(tmp_path, "a", edited(whole("lab05", "zh"), *changes)))
    for answer in ("chunk_bounds", "ring_all_reduce", "Bucketed"):
        program = read.program(answer)
        assert program.trouble == ("", "")
        assert answer in program.source
        compile(program.source, "answer", "exec")
    assert "def chunk_bounds" in read.program("ring_all_reduce").source  # which uses it
    assert "launch(" not in read.program("Bucketed").source  # nobody else's cell
    assert read.language == "zh"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"{", "no notebook"),
        (b"[1, 2]", "no cell"),
        (b'{"cells": 7}', "no cell"),
        (json.dumps({"cells": [{"source": 3}, 5, None]}), "no cell"),
        ("[" * 100_000, "no notebook"),
        (b"\x00\xff\xfe" * 9, "no notebook"),
    ],
)
def test_what_is_no_notebook_gets_a_sentence_in_both_languages(content, words, tmp_path):
    with pytest.raises(Unreadable, match=words) as caught:
        read_submission(hand_in(tmp_path, "a", content))
    assert any("\u4e00" <= c <= "\u9fff" for c in caught.value.words[1])


def test_other_encodings_are_read(tmp_path):
    text = json.dumps(whole("lab05", "zh"), ensure_ascii=False)
    for encoding in ("utf-8-sig", "gb18030", "utf-16"):
        read = read_submission(hand_in(tmp_path, encoding, text.encode(encoding)))
        assert read.program("Bucketed").source
        assert read.language == "zh"


def test_a_stub_a_broken_cell_and_a_missing_one_are_told_apart():
    blank = notebook("lab05", {"chunk_bounds": "def chunk_bounds(numel, n):\n    return (\n"})
    cells = tuple("".join(c["source"]) for c in blank["cells"] if c["cell_type"] == "code")
    read = Submission(cells, "en")
    assert "no Python" in read.program("chunk_bounds").trouble[0]
    assert "not filled in" in read.program("ring_all_reduce").trouble[0]
    assert "there is no Zero1" in read.program("Zero1").trouble[0]
    assert not read.program("Zero1").source


def test_a_later_answer_takes_the_place_of_an_earlier_one():
    read = Submission(("def f():\n    return 1", "x = 7", "def f():\n    return x"), "en")
    namespace = {}
    exec(read.program("f").source, namespace)
    assert namespace["f"]() == 7


def test_a_program_too_deep_to_read_is_said_to_be(tmp_path):
    deep = "f = " + "(" * 90 + "1" + ")" * 90
    assert Submission((deep,), "en").program("f").source
    for cell in ("f = " + "-" * 50_000 + "1", "f = " + "[" * 5000, "f = " + "a." * 20_000 + "b"):
        program = Submission((cell,), "en").program("f")
        assert program.trouble[0]
        assert not program.source


def test_a_name_means_what_its_own_cell_calls_so_then_what_earlier_ones_do():
    own = "def step(x):\n    return x + size\ndef f(x):\n    return step(x)"
    read = Submission(("size = 1", own, "step = size = boom()"), "en")
    namespace = {}
    exec(read.program("f").source, namespace)
    assert namespace["f"](1) == 2
    later = Submission((own, "size = 1"), "en")  # the cells the other way round
    assert "size = 1" in later.program("f").source


def test_what_was_deleted_is_taken_from_the_notebook_that_was_handed_out():
    given = ("import math\nsize = 3", "def helper():\n    return size", "def f():\n    todo('f')")
    answer = "def f(x):\n    return math.floor(x) + helper()"
    program = Submission((answer,), "en", given).program("f")
    namespace = {}
    exec(program.source, namespace)
    assert namespace["f"](1.5) == 4
    own = Submission((answer, "def helper():\n    return 0"), "en", given).program("f")
    assert "size" not in own.source
    assert not Submission((), "en", given).program("f").source
    assert handed_out("lab05")


def test_helpers_are_taken_along_and_nothing_else():
    cells = (
        "import math\nimport os\nLIMIT = 3",
        "def helper(x):\n    return math.floor(x) + LIMIT",
        "print('loud')\nfor i in range(3):\n    other = i",
        "def f(x):\n    return helper(x)",
        right_answers("lab05")["chunk_bounds"],
    )
    source = Submission(cells, "en").program("f").source
    assert "LIMIT = 3" in source
    assert "def helper" in source
    for word in ("print", "os", "other", "chunk_bounds"):
        assert word not in source
