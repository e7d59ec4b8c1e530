"""The command line as a learner meets it: results as JSON, wrong flags in one sentence, in two
languages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lab_utils import __main__ as program
from lab_utils import i18n
from lab_utils.config import flag_fields
from lab_utils.layout.parameters import parameter_count
from lab_utils.report import Report

HOUSE = Path(__file__).resolve().parents[2]
HAN = re.compile(r"[\u4e00-\u9fff]")


def lab(
    *args: object, lang: str = "en", module: tuple[str, ...] = ("lab_utils",)
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *module, *map(str, args)],
        cwd=HOUSE,
        env=os.environ | {"LAB_LANG": lang},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Path]:
    """What `train` and `estimate` wrote for the same run, and what they printed."""
    folder = tmp_path_factory.mktemp("reports")
    files = {name: folder / f"{name}.json" for name in ("one", "two", "estimated")}
    run = ("--steps", 6, "--layers", 2)
    for name, args in (
        ("one", ("train", "--dp", 1, "--threads", 1)),
        ("two", ("train", "--dp", 2, "--threads", 1)),
        ("estimated", ("estimate", "--dp", 2)),
    ):
        done = lab(
            *args,
            *run,
            "--json",
            files[name],
            *(("--gradients", folder / f"{name}.npz") if "train" in args else ()),
        )
        assert done.returncode == 0, done.stderr
        (folder / f"{name}.out").write_text(done.stdout)
        (folder / f"{name}.err").write_text(done.stderr)
    return files


def test_two_ranks_are_one_through_the_command_line(reports):
    one, two = (Report.from_json(reports[name].read_text()) for name in ("one", "two"))
    assert two.loss == pytest.approx(one.loss, rel=1e-6)
    assert (
        two.ranks[0].total(purpose="gradient")
        == 4 * two.parameters
        == two.ranks[0].total("wire_bytes", purpose="gradient")
    )
    a, b = (dict(np.load(reports[name].with_suffix(".npz"))) for name in ("one", "two"))
    assert (
        sum(((a[k] - b[k]) ** 2).sum() for k in a) ** 0.5
        <= 1e-6 * sum((a[k] ** 2).sum() for k in a) ** 0.5
    )


def test_estimate_and_train_write_the_same_keys(reports):
    estimated, measured = (json.loads(reports[name].read_text()) for name in ("estimated", "two"))
    assert set(estimated) == set(measured)
    assert set(estimated["ranks"][0]) == set(measured["ranks"][0])
    assert estimated["config"] == measured["config"]
    assert set(measured["config"]) == set(flag_fields())


def test_what_is_printed(reports):
    out = reports["two"].with_suffix(".out").read_text()
    assert re.search(r"loss 5\.\d{4} → \d\.\d{4} in 6 steps", out)
    assert "all_reduce on dp (gradient)" in out
    assert "tokens/s" in out
    assert "training" in reports["two"].with_suffix(".err").read_text()  # the progress bar


def test_compare(reports):
    done = lab("compare", reports["estimated"], reports["two"], "--rank", 1)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    for term in (
        "memory · parameters",
        "memory · gradients",
        "memory · optimizer",
        "all_reduce @dp bytes",
        "all_reduce @dp wire_bytes",
        "FLOPs",
    ):
        assert any(term in line and "exact" in line for line in lines), term
    for other in (reports["one"], reports["two"].with_suffix(".npz"), HOUSE / "missing.json"):
        refused = lab("compare", reports["estimated"], other)
        assert refused.returncode == 2
        assert "cannot be compared" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert (
        "ranks 0 to 1" in lab("compare", reports["estimated"], reports["two"], "--rank", 2).stderr
    )


def test_chinese(tmp_path):
    (tmp_path / "诗.txt").write_text(
        "床前明月光，疑是地上霜。举头望明月，低头思故乡。\n" * 20, encoding="utf-8"
    )
    done = lab(
        "train",
        "--dp",
        2,
        "--steps",
        4,
        "--layers",
        1,
        "--threads",
        1,
        "--corpus",
        tmp_path / "诗.txt",
        "--json",
        tmp_path / "r.json",
        lang="zh",
    )
    assert done.returncode == 0, done.stderr
    assert "损失" in done.stdout
    assert "个参数" in done.stdout
    assert not re.search(r"[\u4e00-\u9fff][,;:()]|[,;:()][\u4e00-\u9fff]", done.stdout)
    assert "训练" in done.stderr
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["config"][
        "corpus"
    ].endswith("诗.txt")


WRONG = [
    ("train", "--heads", 5),
    ("train", "--dp", 5),
    ("train", "--dp", "two"),
    ("train", "--nope", 1),
    ("train", "--precision"),
    ("train", "--lr", "nan"),
    ("train", "--threads", 0),
    ("train", "--timeout", "soon"),
    ("train", "--preset", "huge"),
    ("train", "--engine", "fsdp"),
    ("train", "--tp", 8),
    ("train", "--corpus", "/no/such/file"),
    ("train", "--corpus", "."),
    ("train", "--vocab", 10),
    ("train", "--seq", 5_000_000),
    ("train", "--json", "/no/such/folder/r.json"),
    ("train", "--gradients", "."),
    ("train", "--bucket-mib", "inf"),
    ("train", "--recompute", "²"),
    ("estimate", "--gpu", "H1000"),
    ("estimate", "--gpus-per-node", 0),
    ("estimate", "--offload"),
    ("estimate", "--json", "."),
    ("bench", "--preset", "huge"),
    ("bench", "--dp", 0),
    ("bench", "--json", "/no/such/folder/b.json"),
    ("compare", "/no/such/a.json", "/no/such/b.json"),
    ("frobnicate",),
    (),
]


@pytest.mark.parametrize("args", WRONG, ids=lambda a: " ".join(map(str, a)) or "nothing")
def test_wrong_flags_get_one_sentence_and_status_2(args, capsys, monkeypatch):
    for lang in ("en", "zh"):
        monkeypatch.setattr(i18n, "_chosen", lang)
        try:
            status = program.main([str(a) for a in args])
        except SystemExit as stop:  # argparse's way
            status = stop.code
        assert status == 2
        said = capsys.readouterr().err
        assert len(said.strip().splitlines()) == 1
        assert bool(HAN.search(said)) == (lang == "zh")


def test_wrong_flags_from_a_shell():
    done = lab("train", "--heads", 5)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "--heads 5 does not divide --hidden 64; nearest that do: 4, 8 (or give --head-dim).\n"
    )


@pytest.mark.parametrize("command", ["train", "estimate"])
def test_every_field_of_the_configuration_is_a_flag_with_help_in_both_languages(
    command, capsys, monkeypatch
):
    for lang in ("en", "zh"):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(SystemExit) as stop:
            program.main([command, "--help"])
        assert stop.value.code == 0
        shown = capsys.readouterr().out
        for name, (_, field) in flag_fields().items():
            assert "--" + name.replace("_", "-") in shown
            assert all(field.metadata["help"])


def test_estimate_on_a_named_gpu(tmp_path, capsys):
    flags = ["--preset", "llama3-8b", "--dp", "16", "--global-batch", "16", "--gpu", "H100-SXM"]
    assert program.main(["estimate", *flags, "--json", str(tmp_path / "e.json")]) == 0
    assert "tokens/s" in capsys.readouterr().out
    report = Report.from_json((tmp_path / "e.json").read_text())
    assert report.parameters == 8_030_261_248
    assert 0 < report.mfu < 1


def test_no_bias_and_bias_are_flags(capsys, tmp_path):
    counts = []
    for flag in ("--bias", "--no-bias"):
        program.main(["estimate", flag, "--json", str(tmp_path / "e.json")])
        counts.append(Report.from_json((tmp_path / "e.json").read_text()).parameters)
    capsys.readouterr()
    assert counts[0] > counts[1]


def test_under_torchrun_the_ranks_that_exist_are_used(tmp_path, reports):
    done = lab(
        "--nproc-per-node",
        2,
        "--standalone",
        "-m",
        "lab_utils",
        "train",
        "--dp",
        2,
        "--steps",
        6,
        "--layers",
        2,
        "--threads",
        1,
        "--quiet",
        "--json",
        tmp_path / "t.json",
        "--gradients",
        tmp_path / "t.npz",
        module=("torch.distributed.run",),
    )
    assert done.returncode == 0, done.stderr
    report, launched = (
        Report.from_json((tmp_path / "t.json").read_text()),
        Report.from_json(reports["two"].read_text()),
    )
    assert report.loss == launched.loss
    assert report.ranks[1].traffic == launched.ranks[1].traffic
    assert done.stdout.count("tokens/s") == 1
    assert (
        sum(g.size for g in dict(np.load(tmp_path / "t.npz")).values())
        == report.parameters
        == parameter_count_of(report)
    )


def parameter_count_of(report: Report) -> int:
    from lab_utils import TrainConfig

    return parameter_count(TrainConfig.from_dict(report.config).model)
