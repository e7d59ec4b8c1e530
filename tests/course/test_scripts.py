"""The plain torch scripts: both languages, started by torchrun, the same training on any number of
processes."""

from __future__ import annotations

import re

import pytest

from lab_utils.course import scripts
from lab_utils.course.scripts import FOLDER, SCRIPTS, losses, script, torchrun, write_script
from lab_utils.course.tables import print_by_rank, print_places, print_side_by_side

HAN = re.compile("[一-鿿]")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_speaks_one_language_and_knows_nothing_of_the_course(name):
    for lang in ("en", "zh"):
        text = script(name, lang)
        compile(text, name, "exec")
        assert bool(HAN.search(text)) is (lang == "zh")
        assert "lab_utils" not in text
        assert not re.search("# (en|zh|fmt):", text)
        assert max(map(len, text.splitlines())) <= 100


def test_every_script_is_known_by_its_module():
    assert sorted(SCRIPTS) == sorted(path.name for path in FOLDER.glob("train_*.py"))
    assert all(module.endswith(f".{name[:-3]}") for name, module in SCRIPTS.items())
    with pytest.raises(ValueError, match="train_ddp.py"):
        script("train.py", "en")


@pytest.mark.parametrize("name", SCRIPTS)
def test_two_processes_train_as_one_does(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_script(name)
    alone, pair = torchrun(name, 1, 2)
    assert len(losses(alone)) == 12
    assert losses(pair) == pytest.approx(losses(alone), rel=1e-6)
    assert losses(alone)[-1] < losses(alone)[0]
    if name == "train_fsdp.py":
        kept = [int(re.search(r"keeps (\d+) weights", text)[1]) for text in (alone, pair)]
        assert kept[0] == 2 * kept[1]


def test_a_script_that_fails_says_why_and_one_that_was_changed_is_kept(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train_ddp.py").write_text("raise ValueError('of my own')\n")
    write_script("train_ddp.py")
    assert "yours" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="of my own"):
        torchrun("train_ddp.py", 1)


def test_a_script_of_an_older_course_is_written_anew(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_PROGRESS", str(tmp_path / "progress"))
    path = tmp_path / "train_ddp.py"
    with monkeypatch.context() as before:
        before.setattr(scripts, "script", lambda name, lang: "print('of last year')\n")
        write_script("train_ddp.py")
    write_script("train_ddp.py")
    assert path.read_text() == script("train_ddp.py", "en")
    path.write_text("print('my own')\n")
    write_script("train_ddp.py")
    assert path.read_text() == "print('my own')\n"
    assert capsys.readouterr().out.count("yours") == 1


def test_pictures_of_numbers(capsys):
    import torch

    print_by_rank(
        [(torch.tensor([1]), torch.tensor([3])), (torch.tensor([2]), torch.tensor([3]))], *"ab"
    )
    print_side_by_side("1 add", [[1, 2], [10, 20]])
    print_places("sums", [{0: 11}, {1: 22}], 2)
    assert capsys.readouterr().out.splitlines() == [
        "a",
        "   rank 0: [1]",
        "   rank 1: [2]",
        "b",
        "   rank 0: [3]",
        "   rank 1: [3]",
        "1 add       1    2 |   10   20",
        "sums             rank 0       11       ·",
        "                 rank 1        ·      22",
    ]
