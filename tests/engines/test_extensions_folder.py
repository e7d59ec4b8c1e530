"""Where DeepSpeed's extension is compiled: never below a name with a space, which the linker takes
for two."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_utils.engines import deepspeed_setup
from lab_utils.engines.deepspeed_setup import extensions_folder, why_not


@pytest.fixture
def project_with_a_space(tmp_path, monkeypatch) -> Path:
    """As if the project lay in a folder whose name has a space."""
    project = tmp_path / "my course"
    home = tmp_path / "home"
    for folder in (project / "lab_utils/engines", home):
        folder.mkdir(parents=True)
    (project / "pyproject.toml").touch()
    setup = project / "lab_utils/engines/deepspeed_setup.py"
    monkeypatch.setattr(deepspeed_setup, "__file__", str(setup))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    return project


def test_a_project_with_a_space_compiles_in_the_user_s_cache(project_with_a_space, tmp_path):
    assert extensions_folder().is_relative_to(tmp_path / "home/.cache")


def test_a_home_with_a_space_too_leaves_the_temporary_folder(project_with_a_space, monkeypatch):
    monkeypatch.setenv("HOME", str(project_with_a_space))
    assert " " not in str(extensions_folder())
    assert "lab_utils_" in str(extensions_folder())


def test_a_folder_with_a_space_that_was_asked_for_is_refused(monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", "/tmp/my extensions")
    reason = why_not("cpu")
    assert reason is not None
    assert reason.count("\n") == 0
    assert "set TORCH_EXTENSIONS_DIR" in reason or "needs DeepSpeed" in reason
