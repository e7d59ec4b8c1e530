"""The distribution: a wheel that holds all of lab_utils and nothing else, and shows a tool where
torch is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import sync_playwright

import lab_utils
from lab_utils import i18n
from lab_utils.course.build_notebook import release
from lab_utils.course.notebook import begin
from lab_utils.doctor import find_browser

REPOSITORY = Path(__file__).resolve().parents[1]
# nothing of this checkout beside what is installed
BARE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
SHOW = """
import importlib.util, sys
assert importlib.util.find_spec("torch") is None
from lab_utils.widgets.zero import explorer
open("tool.html", "w", encoding="utf-8").write(explorer("zh").html())
from lab_utils import TrainConfig, estimate
print(estimate(TrainConfig.of("tiny", dp=2)).world_size)
"""


def pip(python: str | Path, *words: object) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *map(str, words)]
    done = subprocess.run(command, cwd=REPOSITORY, env=BARE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from what git knows, in a copy, so that nothing of the build is left behind here."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in tracked("lab_utils", "pyproject.toml", "README.md"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((REPOSITORY / name).read_bytes())
    pip(sys.executable, "wheel", "-q", "--no-deps", "--wheel-dir", out, copy)
    return next(out.glob("*.whl"))


def tracked(*places: str) -> list[str]:
    """Files that git knows or would take, and that are there."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *places]
    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [name for name in said.stdout.split("\0") if name and (REPOSITORY / name).is_file()]


def test_it_is_named_after_the_course_and_carries_the_packages_version(wheel):
    assert wheel.name.startswith(f"llm_training_lab-{lab_utils.__version__}-py3")


def test_it_holds_every_file_of_the_package_and_no_other(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == {*tracked("lab_utils")}


def test_a_clean_environment_without_torch_shows_a_tool_and_estimates(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    python = tmp_path / "clean/bin/python"
    pip(python, "install", "-q", wheel)
    done = subprocess.run(
        [python, "-c", SHOW], cwd=tmp_path, env=BARE, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = chromium.new_page()
        page.goto((tmp_path / "tool.html").as_uri())
        page.locator(".explorer figure > svg").first.wait_for()
        assert "ZeRO" in page.locator(".explorer figure > svg").first.get_attribute("aria-label")
        chromium.close()


def test_a_notebook_installs_what_it_was_made_with():
    assert release("https://x.org/a/b", "0.2.0") == "https://x.org/a/b@v0.2.0"
    assert release("https://x.org/a/b", "0.2.0.dev0") == "https://x.org/a/b"


def test_a_notebook_of_another_version_is_said(monkeypatch, capsys):
    monkeypatch.setattr(i18n, "_chosen", None)
    begin("en", lab_utils.__version__)
    assert capsys.readouterr().out == ""
    begin("zh", "9.9.9")
    assert "9.9.9 版，而安装的是" in capsys.readouterr().out
    begin("en", "9.9.9")
    assert "made with version 9.9.9 of the course" in capsys.readouterr().out


def test_the_citation_names_the_version_and_the_repository():
    """Read as lines: the file is a dozen of them."""
    lines = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {lab_utils.__version__}" in lines
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert f"repository-code: {project['urls']['Repository']}" in lines


def test_issue_templates_are_forms_that_github_reads():
    """The keys that its documentation requires: name, description, body; each entry a type, and an
    id of its own."""
    forms = sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    for path in [form for form in forms if form.name != "config.yml"]:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form), path.name
        ids = [entry["id"] for entry in form["body"]]
        assert len(set(ids)) == len(ids) > 0
        assert all(entry["attributes"]["label"] for entry in form["body"])
        assert all(
            entry["type"] in {"input", "textarea", "dropdown", "checkboxes"}
            for entry in form["body"]
        )
