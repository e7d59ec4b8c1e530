"""Machines as Colab and Binder hand them out, as far as the package index allows: an environment
that has a torch ready, and a copy of the repository to install from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from lab_utils import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
# runs a notebook as a page in JupyterLab does, and keeps what it printed
RUN = """
import sys, nbformat
from nbclient import NotebookClient
path, out, folder = sys.argv[1:]
notebook = nbformat.read(path, as_version=4)
NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
nbformat.write(notebook, out)
"""


def needed(name: str, seen: set[str] | None = None) -> Iterator[Distribution]:
    """A package that is installed here, and all that it needs and that is installed here."""
    seen = set() if seen is None else seen
    if name.lower() in seen:
        return
    seen.add(name.lower())
    try:
        found = distribution(name)
    except PackageNotFoundError:  # for another system
        return
    yield found
    for line in found.requires or ():
        if "extra ==" not in line:
            yield from needed(re.match(r"[\w.-]+", line)[0], seen)


def environment(folder: Path, ready: str) -> Path:
    """A new environment in which `ready` is installed and nothing else; returns its python. Files
    are shared by hard links: what pip removes there stays here."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    there = Path(subprocess.check_output([python, "-c", code], text=True).strip())
    here = Path(sysconfig.get_path("purelib"))
    for package in needed(ready):
        for file in package.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (there / file).parent.mkdir(parents=True, exist_ok=True)
                _link(here / file, there / file)
    return python


def _link(source: Path, target: Path) -> None:
    with suppress(FileExistsError):
        try:
            os.link(source, target)
        except OSError:  # another disk
            shutil.copy2(source, target)


def repository(folder: Path) -> Path:
    """A repository of what git knows of here, as it lies in the working tree, in one commit with
    the tag of this version."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=REPOSITORY, text=True)
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    commit, tag = [*who, "commit", "-q", "-m", "as it is"], ["tag", f"v{__version__}"]
    for command in (["init", "-q"], ["add", "-A"], commit, tag):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder
