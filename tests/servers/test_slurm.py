"""servers/slurm.sh with two stand-ins, for no machine of ours has SLURM by default: `scontrol`
names this host, `srun` runs its command here. torchrun, the ranks and the report are real. The
script was also run by SLURM 22.05 itself on one node, as docs/servers.md says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
STAND_INS = {"scontrol": "echo 127.0.0.1", "srun": 'shift; exec "$@"'}


@pytest.fixture
def node(tmp_path):
    """The environment of a job on one node with two cores and no GPU."""
    (tmp_path / "bin").mkdir()
    for name, line in STAND_INS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
    return os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "COURSE": str(REPOSITORY),
        "SLURM_JOB_ID": "41",
        "SLURM_JOB_NODELIST": "node[1]",
        "SLURM_NNODES": "1",
        "SLURM_CPUS_ON_NODE": "2",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "RANKS": "2",
    }


def submit(node, *flags):
    command = ["bash", str(REPOSITORY / "servers/slurm.sh"), *flags]
    return subprocess.run(command, env=node, capture_output=True, text=True, timeout=240)


def test_the_nodes_ranks_train_and_leave_a_report(node, tmp_path):
    done = submit(node, "--preset", "tiny", "--dp", "2", "--steps", "3")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report-41.json").read_text())
    assert report["world_size"] == 2
    assert "1 threads a rank" in report["device"]


def test_a_layout_of_another_size_is_one_sentence(node):
    done = submit(node, "--preset", "tiny", "--dp", "3")
    assert done.returncode != 0
    assert "this needs 3 rank(s), and 2 are there" in done.stderr
    assert "lab_utils/launch" not in done.stderr, "no traceback of ours"
