"""Under torchrun no process is started: the ranks that exist are used."""

import subprocess
import sys

from faults import ENVIRONMENT, PATIENCE_S

SCRIPT = """
import os
import torch, torch.distributed as dist
from lab_utils.launch import emit, launch

def work(scale):
    x = torch.tensor(float(dist.get_rank()))
    dist.all_reduce(x)
    emit("nobody listens here")
    return os.getpid(), dist.get_rank() * scale, x.item()

results = launch(work, 2, 10, threads=1)
assert results[dist.get_rank()][0] == os.getpid()
try:
    launch(work, 3, 10)
except ValueError as error:
    refused = str(error)
again = launch(work, 2, 1)
if dist.get_rank() == 1:
    print([r[1:] for r in results], [r[1] for r in again])
    print(refused)
"""


def test_uses_the_ranks_that_it_finds(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        script,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    results, refused = done.stdout.splitlines()
    assert results == "[(0, 1.0), (10, 1.0)] [0, 1]"
    assert "--nproc-per-node 3" in refused
    assert "ask for 2" in refused
