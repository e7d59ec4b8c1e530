"""The commands that a stranger types first: pins, Makefile, CI, Binder, doctor, and what the README
promises."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lab_utils import doctor
from lab_utils.__main__ import COMMANDS, main, parse

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])
NUMBER = re.compile(r"(?<![A-Za-z\d.-])\d+(?:\.\d+)?(?:e-?\d+)?(?!-\w)")


def requirements(name: str) -> list[str]:
    return [
        line
        for line in (REPOSITORY / name).read_text().splitlines()
        if line and not line.startswith("#")
    ]


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements-test.txt", "requirements-site.txt"]
)
def test_every_version_is_pinned_exactly(name):
    for line in requirements(name):
        assert re.fullmatch(r'[\w.-]+==[\w.]+(; sys_platform == "linux")?', line), line


def test_torch_comes_first_and_deepspeed_only_on_linux():
    lines = requirements("requirements.txt")
    assert lines[0] == "torch==2.13.0"
    assert [line for line in lines if "sys_platform" in line] == [
        line for line in lines if line.startswith("deepspeed")
    ]


def test_what_is_pinned_is_what_runs_here():
    for line in requirements("requirements.txt") + requirements("requirements-test.txt"):
        name, pinned = line.split(";")[0].split("==")
        installed = doctor.version(name)
        if installed is not None or sys.platform == "linux":
            assert installed is not None, f"{name} is not installed"
            assert installed.split("+")[0] == pinned, name


def test_the_package_does_not_require_torch():
    text = (REPOSITORY / "pyproject.toml").read_text()
    assert not re.search(r'dependencies = \[[^]]*"torch', text)


def make(
    *arguments: str, cwd: Path = REPOSITORY, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PATH": path} if path else {})}
    return subprocess.run(
        [shutil.which("make"), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_make_refuses_a_language_it_does_not_have():
    done = make("-n", "lab", "lang=fr")
    assert done.returncode != 0
    assert 'lang must be en or zh, not "fr"' in done.stderr


@pytest.mark.parametrize(("lang", "locale"), [("en", "default"), ("zh", "zh_CN")])
def test_make_lab_opens_the_page_and_the_menus_of_the_language(tmp_path, lang, locale):
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    plan = make("-n", "lab", f"lang={lang}", cwd=tmp_path).stdout
    assert f"/lab/tree/lessons/{lang}/00_start.ipynb" in plan
    assert (
        plan.index("venv .venv")
        < plan.index("install -r requirements.txt")
        < plan.index("jupyter lab")
    )
    settings = f".cache/jupyterlab-{lang}/overrides.json"
    assert make(settings, f"lang={lang}", cwd=tmp_path).returncode == 0
    text = (tmp_path / settings).read_text()
    assert f'"locale": "{locale}"' in text
    assert '"fetchNews": "false"' in text


def fake(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            'case "$1" in -c) exit 1;; --version) echo Python 3.9.2;; esac',
            "needs Python 3.11 or newer, and found Python 3.9.2",
        ),
        (
            'case "$1" in --version) echo Python 3.11.2;; -m) mkdir .venv; exit 1;; esac',
            (
                "cannot make a virtual environment with pip. On Debian or Ubuntu: apt-get install"
                " python3.11-venv"
            ),
        ),
    ],
    ids=["too old", "no ensurepip"],
)
def test_a_python_that_will_not_do_is_named(tmp_path, script, sentence):
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("python3.11", "python3.12", "python3.13", "python3"):
        fake(tmp_path / "bin", name, script)
    done = make(".venv/made", cwd=tmp_path, path=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert done.returncode != 0
    assert sentence in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("script", [".ci/run", "binder/postBuild", "binder/start"])
def test_scripts_are_executable_and_parse(script):
    path = REPOSITORY / script
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", path], check=True)


def test_binder_stops_at_the_first_error_and_hands_over():
    assert "set -e" in (REPOSITORY / "binder/postBuild").read_text()
    assert (REPOSITORY / "binder/start").read_text().rstrip().endswith('exec "$@"')
    assert "pytorch-cpu" in (REPOSITORY / "binder/environment.yml").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_and_files_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:^|`)make ([\w-]+)", text, re.M)) <= targets
    local = [
        link.split("#")[0]
        for link in re.findall(r"\]\(([^)\s]+)\)", text)
        if not re.match(r"https?:|#", link)
    ]
    assert [link for link in local if link and not (page.parent / link).exists()] == []
    named = re.findall(r"`(?:python )?((?:tests|lab_utils|lessons)/[\w./]+)", text)
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_of_a_page_are_understood(page):
    """Each line as it stands there, up to the point at which it would run."""
    text = page.read_text(encoding="utf-8")
    fenced = "\n".join(re.findall(r"^```\n(.*?)^```", text, re.M | re.S)).replace("\\\n", " ")
    for command in re.findall(r"-m lab_utils (.+)$", fenced, re.M):
        words = shlex.split(command.split(" #")[0])
        parse(words)
    for name in re.findall(r"`python -m lab_utils (\w+)", text):
        assert name in COMMANDS


def test_both_languages_say_the_same_figures():
    """Row by row: a figure that was measured anew must not stay behind in the other language."""
    english, chinese = (
        [
            set(NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3})", "", line.split("|")[2])))
            for line in (REPOSITORY / "docs" / name).read_text("utf-8").splitlines()
            if line.startswith("|")
        ]
        for name in ("measured.md", "measured.zh.md")
    )
    assert len(english) == len(chinese) > 20
    assert [pair for pair in zip(english, chinese, strict=True) if pair[0] != pair[1]] == []


def test_every_command_has_flags_and_help(capsys):
    for name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert f"python -m lab_utils {name}" in capsys.readouterr().out


def test_doctor_describes_this_machine_in_both_languages():
    for lang, words in (
        ("en", ["Python: 3.", "CPU cores: ", "torch: 2."]),
        ("zh", ["Python：3.", "CPU 核数：", "可用内存：", "torch：2."]),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lab_utils", "doctor", "--lang", lang],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout
        assert all(word in done.stdout for word in words), done.stdout


def test_doctor_gives_each_problem_its_remedy(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "version", lambda name: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "run_quietly", lambda *command: "")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    for problem in (
        "✗ torch: missing\n    → run make lab",
        "✗ JupyterLab: missing\n    → run make lab",
        "! Chromium: missing\n    → ",
    ):
        assert problem in out
    if sys.platform == "linux":
        assert "! C++ compiler: missing\n    → DeepSpeed compiles" in out
        assert "! Chinese font: none found\n    → " in out


def test_doctor_says_when_a_gpu_is_not_used(monkeypatch):
    monkeypatch.setattr(
        doctor, "run_quietly", lambda *command: "NVIDIA H100, 81559 MiB\nNVIDIA H100, 81559 MiB"
    )
    monkeypatch.setattr(doctor, "_torch_cuda", lambda: None)
    finding = doctor.gpus()
    assert finding.found == "2 × NVIDIA H100, 81559 MiB"
    assert "CPU build" in finding.remedy
    monkeypatch.setattr(doctor, "_torch_cuda", lambda: "12.8")
    assert doctor.gpus().remedy == ""


def test_doctor_knows_torch_that_is_too_old_or_another(monkeypatch):
    for installed, words, essential in (
        ("2.9.1", "needs torch 2.10 or later", True),
        ("2.11.0+cu128", "tested with 2.13.0", False),
        ("2.13.0+cpu", "", False),
    ):
        monkeypatch.setattr(doctor, "version", lambda name, v=installed: v)
        finding = doctor.torch()
        assert words in finding.remedy
        assert bool(words) == bool(finding.remedy)
        assert finding.essential == essential


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_badges_lead_to_the_repository_of_pyproject(readme):
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        address = tomllib.load(file)["project"]["urls"]["Repository"]
    name, text = (
        address.removeprefix("https://github.com/"),
        (REPOSITORY / readme).read_text(encoding="utf-8"),
    )
    page = f"lessons/{'zh' if 'zh' in readme else 'en'}/00_start.ipynb"
    assert f"(https://mybinder.org/v2/gh/{name}/HEAD?urlpath=lab/tree/{page})" in text
    assert f"(https://colab.research.google.com/github/{name}/blob/HEAD/{page})" in text
