"""`python -m lab_utils build`: bilingual sources to executed notebooks, the same bytes every time.

lessons/source/NN_name.md    ->  lessons/{en,zh}/NN_name.ipynb, executed
solutions/source/NN_name.md -> solutions/{en,zh}/NN_name.ipynb, executed, and
labs/{en,zh}/NN_name.ipynb without the answers

Outputs are kept as long as the code of the notebook and its import closure stay the same (see
build_closure); what an execution changed is said cell by cell. `--check` compares and executes
nothing. Notebooks carry two digests in metadata.lab: `inputs` (code and closure) and `seal` (the
whole file).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..i18n import LANGUAGES
from .build_closure import closure, inputs_digest
from .build_notebook import notebook
from .build_pictures import stale_pictures, write_pictures
from .build_questions import folder, stale_questions, write_questions
from .build_record import changed_outputs, code_of, read_built, remember_executed, seal
from .build_rules import problems, silent_claims
from .build_run import PACKAGE, RunError, execute
from .build_source import Source, SourceError, read_source
from .questions import ELSEWHERE

ROOMS = ("lessons", "solutions")


@dataclass(frozen=True)
class Target:
    """One notebook to make: where, from what, whether it is executed, and its cells before that."""

    path: Path
    source: Source
    executed: bool
    notebook: NotebookNode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `build`."""
    parser.add_argument(
        "names", nargs="*", help="sources to build, like 05 or 05_data_parallel (default: all)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="execute nothing: say which notebooks are not what a build would make",
    )
    parser.add_argument("--lang", choices=LANGUAGES, help="one language only")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path.cwd(),
        metavar="DIR",
        help="the repository (default: here)",
    )


def run(args: argparse.Namespace) -> int:
    """Build or check; the exit status is 1 when anything is wrong, and every wrong thing is one
    line on stderr."""
    try:
        sources = read_all(args.root)
        chosen = choose(sources, args.names)
        targets = [
            t
            for source in chosen
            for t in make(source, sources, args.root)
            if args.lang in (None, t.notebook.metadata.lab.lang)
        ]
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    os.environ[ELSEWHERE] = str(folder(args.root))
    if args.check:
        wrong = [
            *stray(args.root, sources),
            *stale_questions(args.root, sources),
            *_stale(args.root),
            *(w for target in targets for w in check(target, args.root)),
        ]
        print(
            f"{len(targets)} notebooks from {len(chosen)} sources:"
            f" {'as built' if not wrong else f'{len(wrong)} problems'}."
        )
    else:
        write_questions(args.root, sources)
        try:
            wrong = [w for target in targets for w in build(target, args.root)]
            if _is_the_course(args.root):
                write_pictures(args.root)
        except KeyboardInterrupt:
            wrong = ["interrupted: what is not listed above is as it was before."]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def _is_the_course(root: Path) -> bool:
    """Whether `root` is this package's own repository, whose READMEs show the tools."""
    return root.resolve() == PACKAGE.parent


def _stale(root: Path) -> Iterator[str]:
    return stale_pictures(root) if _is_the_course(root) else iter(())


def read_all(root: Path) -> list[Source]:
    """Every source under `root`, lessons first. Raises SourceError with all that is wrong with any
    of them."""
    paths = [
        (path, room)
        for room in ROOMS
        for path in sorted((root / room / "source").glob("[0-9][0-9]_*.md"))
    ]
    if not paths:
        raise SourceError(
            f"{root} holds no lessons/source/NN_name.md: run this in the repository, or give"
            " --root."
        )
    found, wrong = [], []
    for path, room in paths:
        try:
            found.append(read_source(path, room))
        except SourceError as error:
            wrong.append(str(error))
    if wrong:
        raise SourceError("\n".join(wrong))
    return found


def choose(sources: list[Source], names: list[str]) -> list[Source]:
    """The sources whose names begin with one of `names` (all for none). Raises SourceError for a
    name that fits none."""
    for name in names:
        if not any(s.name.startswith(name) for s in sources):
            raise SourceError(
                f"no source is called {name}; there are"
                f" {', '.join(sorted({s.name for s in sources}))}."
            )
    return [s for s in sources if not names or s.name.startswith(tuple(names))]


def make(source: Source, known: Iterable[Source], root: Path) -> list[Target]:
    """The notebooks of one source, not yet executed. Raises SourceError with every rule that it
    breaks."""
    with (root / "pyproject.toml").open("rb") as file:
        repository = tomllib.load(file)["project"]["urls"]["Repository"]
    forms = {"lessons": ["lessons"], "solutions": ["solutions", "labs"]}[source.room]
    made = {
        form: {
            lang: notebook(source, lang, form == "labs", repository, known) for lang in LANGUAGES
        }
        for form in forms
    }
    wrong = list(problems(source, made))
    if wrong:
        raise SourceError("\n".join(wrong))
    return [
        Target(root / form / lang / f"{source.name}.ipynb", source, form != "labs", nb)
        for form in forms
        for lang, nb in made[form].items()
    ]


def take_outputs(target: Target, old: NotebookNode) -> None:
    """Give the cells of the target the outputs of an older build of the same code."""
    outputs = [
        (cell.outputs, cell.execution_count) for cell in old.cells if cell.cell_type == "code"
    ]
    for cell, (out, count) in zip(
        (c for c in target.notebook.cells if c.cell_type == "code"), outputs, strict=True
    ):
        cell.outputs, cell.execution_count = out, count


def build(target: Target, root: Path) -> Iterator[str]:
    """Make one notebook, executing it only if its inputs changed; yields what went wrong, and then
    wrote nothing."""
    name, began = target.path.relative_to(root), time.monotonic()
    made, verb, changes = target.notebook, "made", []
    if target.executed:
        made.metadata.lab.inputs = inputs_digest(code_of(made))
        old = read_built(target.path)
        kept = old is not None and old.metadata.lab.get("inputs") == made.metadata.lab.inputs
        if kept:
            take_outputs(target, old)
            verb = "outputs kept"
        else:
            try:
                unseen = execute(made) - closure(code_of(made)).keys()
            except RunError as error:
                yield f"{name} was not built: {error}"
                return
            if unseen:
                yield unforeseen(str(name), unseen)
                return
            verb = f"executed in {time.monotonic() - began:.1f} s"
            changes = list(changed_outputs(target.path, made))
        wrong = list(silent_claims(target.source, made))
        if wrong:
            yield from wrong
            return
    write(target)
    if target.executed and not kept:
        remember_executed(target.path)
    print("\n".join([f"{name}: {verb}", *(f"{name}, {change}" for change in changes)]), flush=True)


def unforeseen(name: str, files: set[str]) -> str:
    """The sentence for a notebook that opened files outside its closure, so that a change in them
    would not make it stale."""
    return (
        f"{name} was not built: it loaded {', '.join(sorted(files))}, which its import closure does"
        " not hold. Import it by a name that can be read, or give it a line in UNSEEN of"
        " lab_utils/course/build_closure.py."
    )


def write(target: Target) -> None:
    """Seal the notebook and put it in place at once, so that an interrupt never leaves half a
    file."""
    target.notebook.metadata.lab.seal = seal(target.notebook)
    target.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.path.with_suffix(f".{os.getpid()}.tmp")
    unfinished.write_text(nbformat.writes(target.notebook) + "\n", encoding="utf-8")
    unfinished.replace(target.path)


def check(target: Target, root: Path) -> Iterator[str]:
    """What makes the notebook on disk another than a build would make, in one sentence; executes
    nothing."""
    name = target.path.relative_to(root)
    again = f"run python -m lab_utils build {target.source.name}"
    if not target.path.exists():
        yield f"{name} is missing: {again}."
        return
    old = read_built(target.path)
    if old is None:
        yield (
            f"{name} was edited after it was built: put the change into {target.source.where()} and"
            f" {again}."
        )
        return
    fresh = [(c.id, c.cell_type, c.source, c.metadata) for c in target.notebook.cells]
    if fresh != [(c.id, c.cell_type, c.source, c.metadata) for c in old.cells]:
        yield f"{name} is not what {target.source.where()} says now: {again}."
    elif target.executed and old.metadata.lab.get("inputs") != inputs_digest(
        code_of(target.notebook)
    ):
        yield f"{name} was executed with another lab_utils than this one: {again}."


def stray(root: Path, sources: list[Source]) -> Iterator[str]:
    """Notebooks in the built folders that no source makes."""
    homes = {"lessons": "lessons", "solutions": "solutions", "labs": "solutions"}
    for form, room in homes.items():
        names = {s.name for s in sources if s.room == room}
        for path in sorted((root / form).glob("*/*.ipynb")):
            if path.stem not in names:
                yield (
                    f"{path.relative_to(root)} has no source in {room}/source: delete it, or write"
                    " one."
                )
