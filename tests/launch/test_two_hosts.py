"""Two hosts, for real as far as the network goes: two network namespaces with a cable between them,
torchrun in each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import ENVIRONMENT

from lab_utils import Report, TrainConfig, compare, train

LAYOUTS = {
    "data parallel over the cable, tensor parallel inside a host": ["--dp", "2", "--tp", "2"],
    "pipeline over the cable, ZeRO inside a host": [
        "--pp",
        "2",
        "--dp",
        "2",
        "--zero",
        "2",
        "--micro-batch",
        "3",
    ],
}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[tuple[str, str]]]:
    """(namespace, address) of two hosts that reach each other and nothing else."""
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        pytest.skip("needs Linux and the command ip (Debian: iproute2)")
    tag = uuid.uuid4().hex[:6]
    names, addresses = [f"lab{tag}{end}" for end in "ab"], ["10.213.7.1", "10.213.7.2"]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip(
                "link",
                "add",
                f"v{tag}a",
                "netns",
                names[0],
                "type",
                "veth",
                "peer",
                "name",
                f"v{tag}b",
                "netns",
                names[1],
            )
        except subprocess.CalledProcessError as refused:
            pytest.skip(f"no right to make network namespaces here: {refused.stderr.strip()}")
        for name, address, end in zip(names, addresses, "ab", strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", f"v{tag}{end}")
            ip("-n", name, "link", "set", f"v{tag}{end}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield list(zip(names, addresses, strict=True))
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def on_two_hosts(
    hosts: list[tuple[str, str]], flags: list[str], report: Path
) -> list[subprocess.CompletedProcess]:
    """`torchrun --nnodes 2 … -m lab_utils train` on both, two ranks each; the first host's rank 0
    writes the report."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes",
        "2",
        "--nproc-per-node",
        "2",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        f"{hosts[0][1]}:29513",
        "--rdzv-id",
        "two-hosts",
        "-m",
        "lab_utils",
        "train",
        "--layers",
        "2",
        "--steps",
        "4",
        "--threads",
        "1",
        "--quiet",
        "--timeout",
        "60",
        *flags,
        "--json",
        str(report),
    ]
    environment = {
        k: v
        for k, v in (os.environ | ENVIRONMENT).items()
        if k not in ("GLOO_SOCKET_IFNAME", "RANK", "WORLD_SIZE")
    }
    started = []
    for i, (name, address) in enumerate(hosts):
        # both namespaces share one host name, so torchrun has to be told who and where it is
        local = ["--local-addr", address, "--rdzv-conf", f"is_host={int(i == 0)}"]
        started.append(
            subprocess.Popen(
                ["ip", "netns", "exec", name, *command[:3], *local, *command[3:]],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
        )
    try:
        return [
            subprocess.CompletedProcess(p.args, p.returncode, *out)
            for p in started
            for out in [p.communicate(timeout=150)]
        ]
    finally:
        for process in started:
            process.kill()


@pytest.mark.parametrize("flags", LAYOUTS.values(), ids=LAYOUTS)
def test_a_run_on_two_hosts_reports_what_a_run_on_one_does(flags, hosts, tmp_path):
    for done in on_two_hosts(hosts, flags, tmp_path / "two.json"):
        assert done.returncode == 0, done.stderr[-3000:]
    two = Report.from_json((tmp_path / "two.json").read_text())
    one = train(TrainConfig.from_dict(two.config), threads=1)
    assert two.loss == pytest.approx(one.loss, rel=1e-7)
    assert [rank.coords for rank in two.ranks] == [rank.coords for rank in one.ranks]
    for mine, theirs in zip(one.ranks, two.ranks, strict=True):
        assert theirs.memory == mine.memory
        assert theirs.traffic == mine.traffic
    assert compare(one, two, ranks=range(4)).exact("job", "memory", "traffic")
