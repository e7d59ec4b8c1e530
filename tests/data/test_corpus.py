"""Which text is learned from: real by default, and one clear sentence for a file that will not
do."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from lab_utils import i18n
from lab_utils.config import ConfigError, TrainConfig
from lab_utils.data.corpus import load_corpus
from lab_utils.data.tokenizer import ByteTokenizer
from lab_utils.data.windows import open_windows


def test_the_default_text_is_pythons_own_documentation_and_sources():
    text = load_corpus()
    assert len(text) > 1_000_000
    pydoc = pytest.importorskip("pydoc_data.topics").topics
    assert pydoc["assert"] in text
    assert Path(ast.__file__).read_text(encoding="utf-8") in text
    words = text.split()
    assert sum(w == "the" for w in words) > 0.01 * len(words)  # English, not noise
    assert load_corpus() == text


@pytest.fixture
def bad_files(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "blank.txt").write_text(" \n\t\n")
    (tmp_path / "binary.txt").write_bytes(b"\x7fELF\0\0 some text")
    (tmp_path / "latin1.txt").write_bytes("déjà vu".encode("latin-1"))
    (tmp_path / "utf16.txt").write_bytes("deja vu".encode("utf-16"))
    (tmp_path / "short.txt").write_text("x" * 64)
    return tmp_path


SAID = [
    ("missing.txt", "no such file", "找不到这个文件"),
    (".", "this is a folder", "这是一个文件夹"),
    ("empty.txt", "is empty", "是空的"),
    ("blank.txt", "is empty", "是空的"),
    ("binary.txt", "binary file", "二进制文件"),
    ("latin1.txt", "byte 1 is not UTF-8", "第 1 个字节不是 UTF-8"),
    ("utf16.txt", "binary file", "二进制文件"),
    ("short.txt", "64 tokens, too few for one sequence of 64", "只有 64 个词元"),
]


@pytest.mark.parametrize(("name", "en", "zh"), SAID, ids=[s[0] for s in SAID])
def test_a_file_that_will_not_do_gets_one_sentence(bad_files, name, en, zh, monkeypatch):
    for lang, expected in (("en", en), ("zh", zh)):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(ConfigError) as refusal:
            open_windows(TrainConfig.of("tiny", corpus=str(bad_files / name)))
        assert expected in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_one_window_is_enough(bad_files):
    (bad_files / "enough.txt").write_text("x" * 65)
    assert open_windows(TrainConfig.of("tiny", corpus=str(bad_files / "enough.txt"))).count == 1


def test_a_vocabulary_below_256_cannot_hold_bytes():
    with pytest.raises(ConfigError, match="needs 256"):
        open_windows(TrainConfig.of("tiny", vocab=255))


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "bom.txt").write_text("你好", encoding="utf-8-sig")
    assert load_corpus(str(tmp_path / "bom.txt")) == "你好"


def test_bytes_are_tokens():
    tokens = ByteTokenizer().encode("a你")
    assert tokens.tolist() == [97, 0xE4, 0xBD, 0xA0]
    assert tokens.dtype == np.uint8
    assert ByteTokenizer().decode(tokens) == "a你"
    assert ByteTokenizer().decode(tokens[:3]) == "a\ufffd"
