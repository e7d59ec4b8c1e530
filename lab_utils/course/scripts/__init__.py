"""Training scripts in plain torch, with nothing of this course in them: a lesson writes one into
the learner's folder, shows it, and starts it as torchrun would anywhere else."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from ...i18n import LANGUAGES, language, t
from .. import progress
from ..show_html import page

FOLDER = Path(__file__).parent
# by their modules' names, so that the build knows that a notebook depends on them
SCRIPTS = {
    "train_ddp.py": "lab_utils.course.scripts.train_ddp",
    "train_fsdp.py": "lab_utils.course.scripts.train_fsdp",
}
_NOTE = re.compile(r"^(\s*)# (en|zh): (.*\n)", re.M)


def script(name: str, lang: str) -> str:
    """The text of a script with the comments of one language. Raises ValueError."""
    if name not in SCRIPTS:
        raise ValueError(
            t(
                f"no script is called {name!r}; there are {', '.join(SCRIPTS)}.",
                f"没有名为 {name!r} 的脚本，现有：{'、'.join(SCRIPTS)}。",
            )
        )
    text = (FOLDER / name).read_text(encoding="utf-8").replace("  # fmt: skip", "")
    return _NOTE.sub(lambda m: f"{m[1]}# {m[3]}" if m[2] == lang else "", text)


def digest(text: str) -> str:
    """Of a script's text, to know it again by."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_script(name: str) -> None:
    """Write a script into this folder and show it. One that the learner has changed is kept; one
    that an older version of the course wrote is not."""
    from IPython.display import display

    path, text = Path(name), script(name, language())
    ours = {digest(script(name, lang)) for lang in LANGUAGES} | {progress.written(name)}
    if path.exists() and digest(found := path.read_text(encoding="utf-8")) not in ours:
        print(t(f"{name} is yours: it is left as it is.", f"{name} 已被你修改过，保持原样。"))
        text = found
    else:
        path.write_text(text, encoding="utf-8")
        progress.keep_written(name, digest(text))
    display({"text/html": page(name, text), "text/plain": f"{name}\n\n{text}"}, raw=True)


def torchrun(name: str, *ranks: int) -> list[str]:
    """What `torchrun --standalone --nproc-per-node N name` prints, for each N of `ranks`; the runs
    go on at the same time, all on GPUs or all on CPUs, so that they can be compared. Raises
    RuntimeError, with what its ranks and torchrun wrote to stderr, where one fails.

    A run that the system ended with SIGABRT is begun again, twice at most. A thread of gloo holds
    the tensor of the last collective a moment longer than the collective takes; letting it go needs
    the interpreter, and where that is already shutting down, the thread is ended, which C++ answers
    with abort(). On a busy machine about one run in thirty ends so, after all its work is done
    (torch 2.13: ProcessGroupGloo::runLoop, TensorImpl::decref_pyobject). A script that is wrong
    raises, and is not run again.
    """
    import torch

    # a rank that is aborted then says where each of its threads stood
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    if torch.cuda.device_count() < max(ranks):
        environment["CUDA_VISIBLE_DEVICES"] = ""
    for _ in range(3):
        ended = _run_together(name, ranks, environment)
        if not any("(SIGABRT)" in errors for _, _, errors in ended):
            break
    for status, _, errors in ended:
        if status:
            # what a rank said comes first, torchrun's own account last
            cut = f"{errors[:3000]}\n…\n{errors[-2000:]}"
            raise RuntimeError(errors if len(errors) <= 5000 else cut)
    return [printed for _, printed, _ in ended]


def _run_together(
    name: str, ranks: tuple[int, ...], environment: dict[str, str]
) -> list[tuple[int, str, str]]:
    """(exit status, stdout, stderr) of a run for each number of ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    runs = [
        subprocess.Popen(
            [*command, str(n), name],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in ranks
    ]
    try:
        said = [run.communicate() for run in runs]
        return [(run.returncode, *words) for run, words in zip(runs, said, strict=True)]
    finally:
        for run in runs:
            run.kill()


def losses(printed: str) -> list[float]:
    """The losses among what a script printed, a line each: `epoch 0 loss 5.5412`."""
    return [float(value) for value in re.findall(r"loss ([\d.]+)$", printed, re.M)]
