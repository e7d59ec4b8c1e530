"""A class's submissions, several at a time: a record for each as soon as it is there, so that a
grader which is killed goes on where it was."""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import secrets
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from ..config import ConfigError
from ..files import write_text
from ..i18n import t
from ..machine import cores
from .judges import judges_of
from .one import Record, grade_one, key_of
from .sandbox import clear_folders

TRIES = 2  # of a submission with which the grader itself ended
PDEATHSIG = 1


def submissions_in(folder: Path) -> dict[str, Path]:
    """Each student's notebook: FOLDER/NAME.ipynb, or the only one in FOLDER/NAME/. Raises
    ConfigError."""
    if not folder.is_dir():
        raise ConfigError(t(f"{folder} is no folder.", f"{folder} 不是文件夹。"))
    found: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".ipynb" and entry.is_file():
            found[_name(entry.stem)] = entry
        elif entry.is_dir() and not entry.name.startswith("."):
            notebooks = sorted(p for p in entry.glob("*.ipynb") if p.is_file())
            if len(notebooks) == 1:
                found[_name(entry.name)] = notebooks[0]
            elif notebooks:
                found |= {_name(f"{entry.name} · {one.stem}"): one for one in notebooks}
    if not found:
        raise ConfigError(
            t(
                f"there is no notebook in {folder}: NAME.ipynb or NAME/any.ipynb for each student.",
                f"{folder} 里没有 notebook：每个学生应有 姓名.ipynb 或 姓名/任意.ipynb。",
            )
        )
    return found


def _name(words: str) -> str:
    """A student's name, from a file's; bytes that are no UTF-8 become question marks."""
    return words.encode("utf-8", "replace").decode()


def grade_all(
    folder: Path,
    lab: str,
    out: Path,
    *,
    seed: str | None = None,
    hidden: Path | None = None,
    jobs: int = 0,
    again: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Record]:
    """Every submission's record, by student; those that `out` already has are taken from there.

    seed:    decides the cases; None: what `out` was begun with, or a new one that nobody knows
    jobs:    submissions at a time; 0: one for each core that this process may use
    again:   grade all of them anew
    Raises ConfigError.
    """
    if hidden:
        judges_of(lab, hidden)  # who wrote one hears of its faults before anything is graded
    files, seed = submissions_in(folder), _seed_of(out, lab, seed)
    clear_folders()
    more = (lab, seed, _own_words(), *_hidden_words(hidden, lab))
    keys = {student: key_of(path, *more) for student, path in files.items()}
    kept = {} if again else dict(_kept(out, keys))
    left = [student for student in files if student not in kept]
    progress(len(kept), len(files))
    for record in _graded(left, files, keys, lab, seed, hidden, jobs or cores()):
        write_text(_place(out, record["student"]), json.dumps(record, ensure_ascii=False, indent=1))
        kept[record["student"]] = record
        progress(len(kept), len(files))
    clear_folders()  # of a grader that was still dying when we began
    return [kept[student] for student in files]


def _graded(
    left: Sequence[str],
    files: dict[str, Path],
    keys: dict[str, str],
    lab: str,
    seed: str,
    hidden: Path | None,
    jobs: int,
) -> Iterator[Record]:
    tried = dict.fromkeys(left, 0)
    left = list(left)
    while left:
        alone = any(tried[student] for student in left)
        with _pool(1 if alone else jobs) as pool:
            # one that ended its grader is tried again by itself, so that it takes nobody with it
            now = left[:1] if alone else left
            futures: dict[Future[Record], str] = {
                pool.submit(
                    _in_worker, files[student], student, lab, seed, keys[student], hidden
                ): student
                for student in now
            }
            try:
                yield from _collect(futures, left, tried, files, keys)
            except BaseException:
                for process in list((pool._processes or {}).values()):
                    process.kill()
                raise


def _collect(
    futures: dict[Future[Record], str],
    left: list[str],
    tried: dict[str, int],
    files: dict[str, Path],
    keys: dict[str, str],
) -> Iterator[Record]:
    for future in as_completed(futures):
        student = futures[future]
        try:
            record = future.result()
        except BrokenProcessPool:
            tried[student] += 1
            if tried[student] < TRIES:
                continue
            record = _ungraded(student, files[student], keys[student], "its process ended")
        except Exception as error:
            said = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
            words = ", ".join(said)
            record = _ungraded(student, files[student], keys[student], words)
        left.remove(student)
        yield record


def _ungraded(student: str, path: Path, key: str, words: str) -> Record:
    """Of a submission with which the grader could not work: no marks, and no zero either."""
    return dict(
        student=student,
        file=path.name,
        key="",  # tried anew the next time
        language="en",
        trouble=[f"the grader could not work: {words}.", f"评分程序无法工作：{words}。"],
        exercises=[],
        advisory=[],
        seconds=0.0,
    )


def _pool(jobs: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=[os.getpid()])


def _begin(parent: int) -> None:
    """A worker ends with its parent; the keyboard's interrupt is the parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _in_worker(
    path: Path, student: str, lab: str, seed: str, key: str, hidden: Path | None
) -> Record:
    try:
        return grade_one(path, student, lab, seed, key, hidden)
    except Exception as error:
        # who wrote a judge has to find the line
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if hidden and Path(frame.filename).absolute() == (hidden / f"{lab}.py").absolute():
                error.add_note(f"{lab}.py:{frame.lineno}")
                break
        raise


def _seed_of(out: Path, lab: str, seed: str | None) -> str:
    """What this folder was begun with, so that it is graded by the same cases to its end."""
    file = out / "batch.json"
    if file.exists():
        begun = json.loads(file.read_text(encoding="utf-8"))
        if begun["lab"] != lab or seed not in (None, begun["seed"]):
            raise ConfigError(
                t(
                    f"{out} holds grades of {begun['lab']} with another seed or lab: name another"
                    " --out.",
                    f"{out} 里是 {begun['lab']} 的成绩，实验或种子不同："
                    "请用 --out 指定别的文件夹。",
                )
            )
        return begun["seed"]
    seed = seed or secrets.token_hex(8)
    (out / "records").mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"lab": lab, "seed": seed}))
    return seed


def _own_words() -> str:
    """What another version of the grader says otherwise: it keeps no marks of this one."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for package in (here, here.parent / "course" / "checks"):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _hidden_words(hidden: Path | None, lab: str) -> list[str]:
    path = hidden and hidden / f"{lab}.py"
    if hidden and not path.exists():
        raise ConfigError(t(f"there is no {path}.", f"没有 {path} 这个文件。"))
    return [path.read_text(encoding="utf-8")] if path else []


def _kept(out: Path, keys: dict[str, str]) -> Iterator[tuple[str, Record]]:
    for student, key in keys.items():
        path = _place(out, student)
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["key"] == key:
                yield student, record


def _place(out: Path, student: str) -> Path:
    return out / "records" / f"{student}.json"
