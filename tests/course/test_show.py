"""`show` prints the package's real source, the part that matters; `todo` stops without a stack
trace."""

from __future__ import annotations

import html
import pickle
import re
from pathlib import Path

import pytest

from lab_utils import config, i18n
from lab_utils.course import Todo, begin, show, todo
from lab_utils.course.show import LINES, excerpt, source_of
from lab_utils.course.show_html import page
from lab_utils.parallel.data_parallel import BucketedSync, NaiveSync
from lab_utils.parallel.recompute import checkpoint
from lab_utils.parallel.zero import FlatUnit

REPOSITORY = Path(__file__).resolve().parents[2]
GAP = re.compile(r" *# … (\d+) more lines: (lab_utils/\S+\.py):(\d+)")


def written(path: str) -> list[str]:
    return (REPOSITORY / path).read_text(encoding="utf-8").splitlines()


def test_a_short_function_is_whole_under_its_file_and_line():
    heading, source = excerpt(i18n.language)
    path, line = heading.split(":")
    assert path == "lab_utils/i18n.py"
    assert source.splitlines() == written(path)[int(line) - 1 :][: len(source.splitlines())]
    assert source.startswith("def language() -> str:")
    assert source.endswith('else "en"')


def test_a_method_a_property_a_class_and_a_module():
    assert source_of(config.TrainConfig.of)[2].startswith("@classmethod\ndef of(")
    assert source_of(config.ParallelConfig.world_size)[2].startswith(
        "@property\ndef world_size(self)"
    )
    assert "class TrainConfig:" in source_of(config.TrainConfig)[2]
    assert source_of(i18n) == ("lab_utils/i18n.py", 1, "\n".join(written("lab_utils/i18n.py")))
    assert excerpt(i18n)[0] == "lab_utils/i18n.py"


def check_gaps(source: str, whole: str, path: str, first: int) -> int:
    """Every line stands where it stands in the file, and the comments count exactly the missing
    ones; returns how many those are."""
    lines, at, missing = whole.splitlines(), 0, 0
    for line in source.splitlines():
        if gap := GAP.fullmatch(line):
            assert gap[2] == path
            left_out = int(gap[3]) - first
            assert lines[left_out].strip()
            counted = 0
            while counted < int(gap[1]):
                counted += bool(lines[at].strip())
                at += 1
            missing += counted
        elif line.strip():
            while lines[at].strip() == "":
                at += 1
            at += 1
            if line == f'{lines[at - 1]}"""':  # a docstring that goes on in the file
                at = next(i for i in range(at, len(lines)) if lines[i].endswith('"""')) + 1
            else:
                assert lines[at - 1] == line
    assert not any(line.strip() for line in lines[at:])
    return missing


@pytest.mark.parametrize(
    ("thing", "part"),
    [
        (BucketedSync, {}),
        (BucketedSync, {"start": "def finish", "lines": 6}),
        (NaiveSync, {"only": ("finish",)}),
        (FlatUnit, {"only": ("unshard", "reshard")}),
    ],
)
def test_what_is_left_out_is_counted_and_located(thing, part):
    path, first, whole = source_of(thing)
    heading, source = excerpt(thing, **part)
    assert heading == f"{path}:{first}"
    assert source.startswith(f"class {thing.__name__}")
    assert check_gaps(source, whole, path, first) > 0
    for name in part.get("only", ()):
        assert f"    def {name}(self" in source
    if "start" in part:
        body = source.split(part["start"])[1].splitlines()
        assert len([line for line in body if not GAP.match(line)]) == part["lines"]


def test_nothing_longer_than_a_screen_unless_asked():
    assert len(source_of(BucketedSync)[2].splitlines()) > 2 * LINES
    assert len(excerpt(BucketedSync)[1].splitlines()) == LINES + 1
    assert len(excerpt(BucketedSync, lines=200)[1].splitlines()) > 2 * LINES


def test_a_docstring_is_cut_after_its_first_paragraph():
    path, first, whole = source_of(checkpoint)
    heading, source = excerpt(checkpoint)
    docstring = checkpoint.__doc__.strip().split("\n\n")
    assert len(docstring) > 1
    assert docstring[1].splitlines()[0].strip() in whole
    assert docstring[1].splitlines()[0].strip() not in source
    assert "more lines" not in source
    compile(source, path, "exec")


def test_chinese_comments_say_the_same():
    i18n.set_language("zh")
    try:
        assert "# …… 还有 " in excerpt(BucketedSync)[1].splitlines()[-1]
    finally:
        i18n.set_language("en")


def test_prints_the_heading_and_the_source(capsys):
    show(i18n.language, i18n.t)
    out = capsys.readouterr().out
    assert "lab_utils/i18n.py:" in out
    assert "def t(en: str" in out


def test_the_page_says_every_word_of_the_source():
    heading, source = excerpt(FlatUnit, only=("unshard",))
    bare = html.unescape(re.sub("<[^>]*>", "", page(heading, source)))
    assert bare == f"{heading}{source}\n"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [({"start": "no such line"}, "no line holds"), ({"only": ("gone",)}, "has no gone of its own")],
)
def test_a_part_that_is_not_there_is_refused(part, sentence):
    with pytest.raises(ValueError, match=sentence):
        show(FlatUnit, **part)
    with pytest.raises(ValueError, match="a part of one thing"):
        show(FlatUnit, NaiveSync, **part)


@pytest.mark.parametrize("thing", [len, Path, 3, lambda: 0])
def test_only_the_packages_own(thing):
    with pytest.raises(ValueError, match="show prints functions, classes and modules of lab_utils"):
        show(thing)


@pytest.mark.parametrize(
    ("lang", "sentence"), [("en", "Exercise ex1 is yours"), ("zh", "练习 ex1 尚未完成")]
)
def test_todo_is_one_sentence_in_the_readers_language(lang, sentence):
    try:
        begin(lang)
        with pytest.raises(Todo) as stopped:
            todo("ex1")
    finally:
        i18n.set_language("en")
    rendered = stopped.value._render_traceback_()
    assert len(rendered) == 1
    assert sentence in rendered[0]
    assert str(pickle.loads(pickle.dumps(stopped.value))) == str(stopped.value)
