"""What was measured is not lost: reports are written before anything is printed, whole or not at
all, and where they cannot be is said before the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab_utils import Report, i18n
from lab_utils.__main__ import main
from lab_utils.files import write, write_text

HOUSE = Path(__file__).resolve().parents[2]
ESTIMATE = f"{sys.executable} -m lab_utils estimate --json r.json"


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(HOUSE)} | environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def is_report(path: Path) -> bool:
    return Report.from_json(path.read_text(encoding="utf-8")).parameters > 0


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (f"{ESTIMATE} | true; exit ${{PIPESTATUS[0]}}", 141, ""),
        (f"{ESTIMATE} > /dev/full", 2, "No space left"),
        (f"PYTHONIOENCODING=ascii LAB_LANG=zh {ESTIMATE}", 0, ""),
    ],
    ids=["nobody reads", "nothing can be printed", "a terminal without Han"],
)
def test_the_report_is_there_whatever_becomes_of_the_words(command, status, said, tmp_path):
    done = shell(f"ulimit -c 0; {command}", tmp_path)
    assert done.returncode in (status, 0 if status == 141 else status), done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") <= 1
    assert is_report(tmp_path / "r.json")


def test_gradients_that_cannot_be_written_take_nothing_with_them(tmp_path, capfd):
    run = ["train", "--steps", "2", "--layers", "1", "--threads", "1", "--quiet"]
    run += ["--gradients", "/dev/full", "--json"]
    assert main([*run, str(tmp_path / "r.json")]) == 2
    out, said = capfd.readouterr()
    assert "tokens/s" in out or "memory of rank 0" in out
    assert "gradients could not be written to /dev/full (No space left" in said
    assert is_report(tmp_path / "r.json")


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "r.json"
    write_text(path, "old")
    path.chmod(0o640)

    def fails(file):
        file.write(b"half of the n")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write(path, fails)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]
    (tmp_path / "link").symlink_to(path)
    write_text(tmp_path / "link", "new")
    assert path.read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_place_that_cannot_be_written_is_refused_before_the_run(capsys):
    for flag in ("--json", "--gradients"):
        assert main(["train", flag, "/proc/report"]) == 2
        assert "give a file in a folder that you may write to" in capsys.readouterr().err


def test_a_calibration_that_cannot_be_kept_is_refused_before_it_is_measured(monkeypatch, capsys):
    monkeypatch.setenv("LAB_UTILS_CACHE", "/proc/cache")
    assert main(["doctor", "--calibrate"]) == 2
    assert "set LAB_UTILS_CACHE to a folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "bench", "build"])
def test_without_torch_there_is_a_remedy(command, tmp_path):
    hidden = "import sys; sys.modules['torch'] = None; from lab_utils.__main__ import main; main()"
    done = shell(f'{sys.executable} -c "{hidden}" {command}', tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "this needs torch, which is not installed: run make lab, which installs requirements.txt.\n"
    )


def test_an_interrupt_is_one_line(tmp_path):
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import os, sys, threading; from lab_utils.__main__ import main\n"
        "threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "sys.exit(main('train --dp 2 --steps 1000000 --quiet'.split()))\n"
    )
    (tmp_path / "run.py").write_text(code)
    done = shell(f"{sys.executable} run.py", tmp_path)
    assert (done.returncode, done.stderr) == (130, "interrupted; no rank is left.\n")


def test_help_is_in_the_readers_language_and_names_defaults(monkeypatch, capsys):
    for lang, words in (
        ("en", ("(default 512)", "(default H100-SXM)", "options:")),
        ("zh", ("（默认 512）", "（默认 H100-SXM）", "选项", "用法：", "一个模型在一个集群上")),
    ):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(SystemExit):
            main(["plan", "--help"])
        shown = "".join(capsys.readouterr().out.split())
        assert all("".join(word.split()) in shown for word in words)
        assert lang == "en" or "show" not in shown
