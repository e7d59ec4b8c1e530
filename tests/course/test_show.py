"""`show` prints the package's real source; `todo` stops without a stack trace."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lab_utils import config, i18n
from lab_utils.course import Todo, begin, show, todo
from lab_utils.course.show import source_of

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_function_under_its_file_and_line():
    heading, source = source_of(i18n.language)
    path, line = heading.split(":")
    assert path == "lab_utils/i18n.py"
    written = (REPOSITORY / path).read_text(encoding="utf-8").splitlines()[int(line) - 1:]
    assert source.splitlines() == written[:len(source.splitlines())]
    assert source.startswith("def language() -> str:")


def test_a_method_a_property_a_class_and_a_module():
    assert source_of(config.TrainConfig.of)[1].startswith("@classmethod\ndef of(")
    assert source_of(config.ParallelConfig.world_size)[1].startswith("@property\ndef world_size(self)")
    assert "class TrainConfig:" in source_of(config.TrainConfig)[1]
    heading, source = source_of(i18n)
    assert heading == "lab_utils/i18n.py"
    assert source == (REPOSITORY / heading).read_text(encoding="utf-8").rstrip()


def test_prints_the_heading_and_the_source(capsys):
    show(i18n.language, i18n.t)
    out = capsys.readouterr().out
    assert "lab_utils/i18n.py:" in out
    assert "def t(en: str" in out


@pytest.mark.parametrize("thing", [len, Path, 3, lambda: 0])
def test_only_the_packages_own(thing):
    with pytest.raises(ValueError, match="show prints functions, classes and modules of lab_utils"):
        show(thing)


@pytest.mark.parametrize(("lang", "sentence"), [("en", "Exercise ex1 is yours"), ("zh", "练习 ex1 尚未完成")])
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
