"""`python -m lab_utils plan` and the bottleneck that `estimate` names, in two languages."""

from __future__ import annotations

import re

import pytest

from lab_utils import i18n
from lab_utils.__main__ import main

HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_plan_prints_layouts_and_why_the_others_lose(lang, monkeypatch, capsys):
    monkeypatch.setattr(i18n, "_chosen", lang)
    assert (
        main(
            ["plan", "--preset", "llama3-8b", "--gpus", "64", "--global-batch", "256", "--top", "3"]
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    # three layouts, two of them with a reason
    assert len([line for line in lines if line.startswith("tp")]) == 3 + 2
    assert "MFU" in lines[0]
    assert ("not measured on a GPU" if lang == "en" else "未在 GPU 上实测") in lines[-1]
    assert bool(HAN.search("".join(lines))) is (lang == "zh")
    assert any(("does not fit" if lang == "en" else "放不下") in line for line in lines)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--preset", "llama3-70b", "--gpus", "8"], " GPUs are enough"),
        (["--tp", "16"], "use --tp 8"),
        (["--preset", "llama9"], "no preset"),
        (["--gpu", "H1000"], "no GPU"),
    ],
)
def test_a_plan_that_cannot_be_is_one_sentence(flags, says, monkeypatch, capsys):
    monkeypatch.setattr(i18n, "_chosen", "en")
    assert main(["plan", *flags]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("lang", "says"), [("en", "bound by"), ("zh", "瓶颈")])
def test_estimate_names_the_bottleneck(lang, says, monkeypatch, capsys):
    monkeypatch.setattr(i18n, "_chosen", lang)
    assert (
        main(
            [
                "estimate",
                "--preset",
                "gpt2",
                "--dp",
                "8",
                "--tp",
                "2",
                "--gpu",
                "A100-80",
                "--global-batch",
                "64",
            ]
        )
        == 0
    )
    assert says in capsys.readouterr().out.splitlines()[-1]
