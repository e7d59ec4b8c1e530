"""launch in a real Jupyter kernel: functions of the notebook, errors as the reader sees them,
interrupt and re-run."""

import time

import psutil
import pytest
from faults import ENVIRONMENT, PATIENCE_S, REPOSITORY
from jupyter_client.manager import start_new_kernel
from quiet import on_time


class Notebook:
    """Runs cells in a kernel and tells what they showed."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(
            kernel_name="python3", cwd=REPOSITORY, env=ENVIRONMENT
        )

    def run(self, cell, interrupt_at=None):
        """The cell's text output and its error message (or None); interrupts it when it prints
        `interrupt_at`."""
        request = self.client.execute(cell)
        text, error = "", None
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            content = message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "stream":
                text += content["text"]
                if interrupt_at and interrupt_at in text:
                    self.manager.interrupt_kernel()
                    self.interrupted_at, interrupt_at = time.time(), None
            elif message["msg_type"] == "error":
                error = content
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return text, error

    def family(self):
        return psutil.Process(self.manager.provisioner.process.pid).children(recursive=True)


@pytest.fixture(scope="module")
def notebook():
    notebook = Notebook()
    notebook.run(
        "import os, time, torch, torch.distributed as dist\nfrom lab_utils.launch import launch;"
        " launch(os.getpid, 2)"
    )
    yield notebook
    family = notebook.family()
    assert family, "the server, which must not outlive its kernel"
    notebook.client.stop_channels()
    notebook.manager.shutdown_kernel(now=True)
    _, alive = psutil.wait_procs(family, timeout=30)  # soon, where the machine has the time
    assert alive == []


def test_functions_of_the_notebook(notebook):
    notebook.run("scale = 10\nclass Box:\n    def __init__(self, x): self.x = x")
    notebook.run(
        "def work(n):\n    x = torch.ones(n) * scale\n    dist.all_reduce(x)\n    print('sum',"
        " x.tolist())\n    return Box(x)"
    )
    text, error = notebook.run(
        "print(*(type(b) is Box or b.x.tolist() for b in launch(work, 2, 2)))"
    )
    assert error is None
    assert sorted(text.splitlines()[:2]) == [
        "[rank 0] sum [20.0, 20.0]",
        "[rank 1] sum [20.0, 20.0]",
    ]
    assert text.splitlines()[2] == "True True", "classes of the notebook come back as themselves"


def test_error_as_the_reader_sees_it(notebook):
    _, error = notebook.run(
        "def broken():\n    if dist.get_rank() == 1:\n        raise ValueError('boom')   # here\n  "
        "  dist.barrier()\nlaunch(broken, 2)"
    )
    shown = "\n".join(error["traceback"])
    assert "rank 1 raised ValueError: boom" in shown
    assert "raise ValueError('boom')   # here" in shown, "the notebook's own source line"
    assert "supervise.py" not in shown
    assert len(shown.splitlines()) < 12


def test_interrupt_and_run_again(notebook):
    before = len(notebook.family())
    cell = (
        "def stuck():\n    print('in')\n    time.sleep(3600 * dist.get_rank())\n   "
        " dist.barrier()\nlaunch(stuck, 2)"
    )
    _, error = notebook.run(cell, interrupt_at="[rank 1] in")
    assert error["ename"] == "KeyboardInterrupt"
    seconds = time.time() - notebook.interrupted_at
    assert len(notebook.family()) == before, "no rank remains"
    text, error = notebook.run("print(launch(dist.get_rank, 2))")
    assert (text, error) == ("[0, 1]\n", None)
    on_time(seconds < 1, f"{seconds:.2f} s, IPython's own printing of the traceback included")


def test_chinese(notebook):
    notebook.run("from lab_utils import set_language; set_language('zh')")
    _, error = notebook.run("launch(lambda: 1 / 0, 2)")
    assert "rank 0 和 1 抛出了异常：ZeroDivisionError" in "\n".join(error["traceback"])
