"""The build, for real: a small course in a folder of its own, with its own copy of lab_utils,
executed in both languages."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from lab_utils.doctor import find_browser

REPOSITORY = Path(__file__).resolve().parents[2]

LESSON = """\
---
title: {en: Sums over ranks, zh: 跨进程求和}
minutes: 5
needs: [1]
objectives:
  - {id: sum, en: say what an all-reduce leaves, zh: 说出 all-reduce 之后每个进程上有什么}
---
Eight GPUs, `4` of them idle.

<!-- zh -->
八张 GPU，其中 `4` 张空闲。

+++

<!-- objectives -->

+++

<!-- shared -->
$$2(N-1)/N$$

```{code-cell}
:tags: [question, "asks:sum"]
- id: 05-sum
  en: How many?
  zh: 有多少？
  options: {a: {en: four, zh: 四个}, b: {en: eight, zh: 八个}}
- id: 05-bytes
  en: How many bytes?
  zh: 多少字节？
  unit: {en: MB, zh: MB}
- id: 05-plus
  en: 2 + 2?
  zh: 2 + 2？
  answer: 4
  options: {4: {en: ["4", Yes.], zh: ["4", 对。]}, 5: {en: ["5", No.], zh: ["5", 不对。]}}
```

```{code-cell}
:name: claim
:tags: [shows:sum]
from lab_utils import t
total = sum(range(4))  # en: over ranks
                       # zh: 对所有进程求和
reveal("05-sum", "b")
print(t("total", "总和"), total)
```

```{code-cell}
:tags: [hide-input]
import plotly.graph_objects as go
from lab_utils import i18n, show
show(i18n.language)
go.Figure(go.Bar(x=[1, 2], y=[3, total]))
```

```{code-cell}
:tags: [nbval-ignore-output]
object()
```
"""

LAB = """\
---
title: {en: Write a sum, zh: 编写求和}
needs: ["05"]
---
Fill in `total`.

<!-- zh -->
补全 `total`。

```{code-cell}
:name: ex1
def total(numbers):
    # BEGIN SOLUTION
    # stub: result = 0
    result = 0
    for n in numbers:
        result += n  # zh: 逐个相加
    return result
    # END SOLUTION
```

```{code-cell}
assert total([1, 2]) == 3
print("ok")
```

```{code-cell}
:name: ex2
def mean(numbers):
    # BEGIN SOLUTION return ...
    return total(numbers) / len(numbers)
    # END SOLUTION
```
"""


def build(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """`python -m lab_utils build` in `root`, with the lab_utils that lies there."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-m", "lab_utils", "build", *flags],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


def new_course(root: Path) -> Path:
    shutil.copytree(
        REPOSITORY / "lab_utils", root / "lab_utils", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    for room, name, text in (("lessons", "05_sums", LESSON), ("solutions", "05_sums", LAB)):
        (root / room / "source").mkdir(parents=True)
        (root / room / "source" / f"{name}.md").write_text(text, encoding="utf-8")
    return root


def notebooks(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.glob("*/*/*.ipynb"))}


def load(root: Path, name: str) -> nbformat.NotebookNode:
    return nbformat.read(root / name, as_version=4)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    # the sample holds a figure, which the build saves as PNG
    if find_browser() is None:
        (pytest.fail if os.environ.get("LAB_REQUIRE_BROWSER") else pytest.skip)(
            "a build needs Chromium: apt-get install chromium"
        )
    root = new_course(tmp_path_factory.mktemp("course"))
    done = build(root)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def course(built, tmp_path) -> Path:
    """A built course to spoil."""
    return shutil.copytree(built, tmp_path / "course")


def test_makes_every_notebook_in_both_languages(built):
    assert list(notebooks(built)) == [
        f"{form}/{lang}/05_sums.ipynb"
        for form in ("labs", "lessons", "solutions")
        for lang in ("en", "zh")
    ]
    english, chinese = (load(built, f"lessons/{lang}/05_sums.ipynb") for lang in ("en", "zh"))
    assert (
        english.cells[0].source
        == "# 05 · Sums over ranks\n\nabout 5 minutes · needs 01 · [中文](../zh/05_sums.ipynb)"
    )
    assert chinese.cells[2].source == "八张 GPU，其中 `4` 张空闲。"
    assert "- say what an all-reduce leaves" in english.cells[3].source
    assert english.cells[4].source == chinese.cells[4].source == "$$2(N-1)/N$$"
    assert [c.id for c in english.cells] == [c.id for c in chinese.cells]


def claim(root: Path, lang: str) -> nbformat.NotebookNode:
    cells = load(root, f"lessons/{lang}/05_sums.ipynb").cells
    return next(cell for cell in cells if cell.id == "claim")


def test_comments_and_words_of_one_language_only(built):
    english, chinese = (claim(built, lang).source.splitlines() for lang in ("en", "zh"))
    assert english == [
        "total = sum(range(4))  # over ranks",
        'reveal("05-sum", "b")',
        'print("total", total)',
    ]
    assert chinese == [
        "total = sum(range(4))  # 对所有进程求和",
        'reveal("05-sum", "b")',
        'print("总和", total)',
    ]


def test_outputs_are_those_of_the_language(built):
    texts = ["".join(o.get("text", "") for o in claim(built, x).outputs) for x in ("en", "zh")]
    assert texts == ["total 6\n", "总和 6\n"]


def test_outputs_read_without_a_kernel_and_hold_nothing_of_this_machine(built):
    cells = load(built, "lessons/en/05_sums.ipynb").cells
    asked = [o.data for c in cells if "asks:sum" in c.metadata.get("tags", []) for o in c.outputs]
    assert len(asked) == 3
    assert all(set(data) == {"text/plain", "text/html"} for data in asked)
    shown, figure = cells[-2].outputs
    assert shown.data["text/html"].startswith("<div><b>lab_utils/i18n.py:")
    assert set(figure.data) == {"application/vnd.plotly.v1+json", "image/png"}
    assert cells[-1].outputs[0].data["text/plain"] == "<object at 0xADDRESS>"
    text = b"".join(notebooks(built).values()).decode()
    assert str(built) not in text
    assert sys.prefix not in text
    assert '"execution"' not in text


def test_second_build_keeps_every_byte(course):
    before = notebooks(course)
    again = build(course)
    assert again.returncode == 0, again.stderr
    assert "executed" not in again.stdout
    assert notebooks(course) == before


def test_prose_changes_without_running_anything(course):
    source = course / "lessons/source/05_sums.md"
    source.write_text(LESSON.replace("Eight GPUs", "Nine GPUs"), encoding="utf-8")
    again = build(course, "05", "--lang", "en")
    assert again.returncode == 0, again.stderr
    assert "executed" not in again.stdout
    cells = load(course, "lessons/en/05_sums.ipynb").cells
    assert cells[2].source.startswith("Nine GPUs")
    assert all(c.outputs for c in cells if "shows:sum" in c.metadata.get("tags", []))
    assert load(course, "lessons/zh/05_sums.ipynb").cells[2].source.startswith("八张")


def test_built_notebooks_pass_nbval_strictly(built):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--nbval",
        "--nbval-cell-timeout=60",
        "lessons",
        "solutions",
    ]
    done = subprocess.run(
        command,
        cwd=built,
        env={**os.environ, "PYTHONPATH": str(built)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    assert "18 passed" in done.stdout


def test_a_lab_links_to_its_lesson_and_the_other_language(built):
    titles = [
        load(built, f"{form}/zh/05_sums.ipynb").cells[0].source for form in ("labs", "solutions")
    ]
    facts = "\n\n需要先学：[05](../../lessons/zh/05_sums.ipynb) · [English](../en/05_sums.ipynb)"
    assert titles == [f"# 实验 05 · 编写求和{facts}", f"# 参考答案 05 · 编写求和{facts}"]


@pytest.mark.parametrize(
    ("lang", "stub", "sentence"),
    [
        ("en", "# YOUR CODE HERE", "Exercise ex1 is yours"),
        ("zh", "# 在此处编写代码", "练习 ex1 尚未完成"),
    ],
)
def test_the_lab_stops_at_its_first_exercise_with_a_sentence(built, lang, stub, sentence):
    lab = load(built, f"labs/{lang}/05_sums.ipynb")
    by_id = {cell.id: cell for cell in lab.cells}
    assert (
        by_id["ex1"].source == f'def total(numbers):\n    {stub}\n    result = 0\n    todo("ex1")'
    )
    assert by_id["ex2"].source == f'def mean(numbers):\n    {stub}\n    return ...\n    todo("ex2")'
    with pytest.raises(CellExecutionError):
        NotebookClient(lab, timeout=60, kernel_name="python3").execute(
            env={**os.environ, "PYTHONPATH": str(built)}
        )
    ran = [cell for cell in lab.cells if cell.cell_type == "code" and cell.outputs]
    assert ran[-1].source.startswith("assert total")
    assert len(ran[-1].outputs[0].traceback) == 1
    assert sentence in ran[-1].outputs[0].traceback[0]


def test_check_passes_what_was_built(built):
    done = build(built, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "6 notebooks from 2 sources: as built.\n"


def edit_cell(root: Path) -> None:
    path = root / "lessons/en/05_sums.ipynb"
    path.write_text(
        path.read_text(encoding="utf-8").replace("Eight GPUs", "Ten GPUs"), encoding="utf-8"
    )


def edit_output(root: Path) -> None:
    path = root / "lessons/en/05_sums.ipynb"
    path.write_text(
        path.read_text(encoding="utf-8").replace("total 6", "total 7"), encoding="utf-8"
    )


def edit_lab(root: Path) -> None:
    path = root / "labs/zh/05_sums.ipynb"
    path.write_text(
        path.read_text(encoding="utf-8").replace("result = 0", "result = 1"), encoding="utf-8"
    )


def change_source(root: Path) -> None:
    path = root / "solutions/source/05_sums.md"
    path.write_text(path.read_text(encoding="utf-8").replace("+= n", "+= 1 * n"), encoding="utf-8")


def change_package(root: Path) -> None:
    with (root / "lab_utils/i18n.py").open("a", encoding="utf-8") as file:
        file.write("\n")


def change_what_nobody_imports(root: Path) -> None:
    for file in ("lab_utils/estimate/plan/search.py", "lab_utils/bench/rows.py"):
        with (root / file).open("a", encoding="utf-8") as opened:
            opened.write("\n")


def lose_one(root: Path) -> None:
    (root / "solutions/zh/05_sums.ipynb").unlink()


def leave_a_stray(root: Path) -> None:
    shutil.copy(root / "lessons/en/05_sums.ipynb", root / "lessons/en/06_gone.ipynb")


@pytest.mark.parametrize(
    ("spoil", "sentences"),
    [
        (
            edit_cell,
            [
                "lessons/en/05_sums.ipynb was edited after it was built: put the change into"
                " lessons/source/05_sums.md"
            ],
        ),
        (edit_output, ["lessons/en/05_sums.ipynb was edited after it was built"]),
        (edit_lab, ["labs/zh/05_sums.ipynb was edited after it was built"]),
        (
            change_source,
            [
                f"solutions/{lang}/05_sums.ipynb is not what solutions/source/05_sums.md says now"
                for lang in ("en", "zh")
            ],
        ),
        (
            change_package,
            [
                f"{room}/{lang}/05_sums.ipynb was executed with another lab_utils"
                for room in ("lessons", "solutions")
                for lang in ("en", "zh")
            ],
        ),
        (change_what_nobody_imports, []),
        (
            lose_one,
            ["solutions/zh/05_sums.ipynb is missing: run python -m lab_utils build 05_sums."],
        ),
        (leave_a_stray, ["lessons/en/06_gone.ipynb has no source in lessons/source"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_check_says_what_is_not_as_built(course, spoil, sentences):
    spoil(course)
    done = build(course, "--check")
    assert done.returncode == bool(sentences)
    said = done.stderr.splitlines()
    assert len(said) == len(sentences)
    for line, sentence in zip(said, sentences, strict=True):
        assert line.startswith(sentence)


def test_a_failing_cell_leaves_the_old_notebook_and_is_named(course):
    before = notebooks(course)
    source = course / "lessons/source/05_sums.md"
    source.write_text(LESSON.replace("total = sum(range(4))", "total = 1 / 0"), encoding="utf-8")
    done = build(course, "--lang", "en")
    assert done.returncode == 1
    assert (
        "lessons/en/05_sums.ipynb was not built: cell claim failed with ZeroDivisionError: division"
        " by zero" in done.stderr
    )
    assert notebooks(course) == before
    assert not list(course.glob("*/*/*.tmp"))


def test_a_claim_that_prints_nothing_is_refused(course):
    source = course / "lessons/source/05_sums.md"
    quiet = LESSON.replace('reveal("05-sum", "b")\nprint(t("total", "总和"), total)\n', "")
    source.write_text(quiet, encoding="utf-8")
    done = build(course, "--lang", "en")
    assert done.returncode == 1
    assert "cell claim: it is tagged shows:sum but prints nothing" in done.stderr


def test_a_changed_output_is_said_and_nothing_else_is(course):
    source = course / "lessons/source/05_sums.md"
    source.write_text(LESSON.replace("sum(range(4))", "sum(range(5))"), encoding="utf-8")
    done = build(course, "--lang", "en")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "changed" in line]
    # the figure draws the total, and the untagged claim prints it
    assert said[0] == (
        "lessons/en/05_sums.ipynb, cell claim: output changed, 'total 6' → 'total 10'"
    )
    assert len(said) == 2
    assert "output changed" in said[1]


def test_what_was_executed_here_is_known_until_something_changes(course):
    names = [f"{room}/en/05_sums.ipynb" for room in ("lessons", "solutions")]
    assert executed_here(course, names) == [True, True]
    source = course / "lessons/source/05_sums.md"
    source.write_text(LESSON.replace("Eight GPUs", "Nine GPUs"), encoding="utf-8")
    assert build(course, "--lang", "en").returncode == 0
    # its prose alone has changed: its outputs are those of the execution
    assert executed_here(course, names) == [True, True]
    edit_output(course)
    assert executed_here(course, names) == [False, True]
    change_package(course)
    assert executed_here(course, names) == [False, False]


def executed_here(root: Path, names: list[str]) -> list[bool]:
    """What build_record says of notebooks in `root`, with the lab_utils that lies there."""
    asking = (
        "import sys; from pathlib import Path; from lab_utils.course.build_record import"
        " executed_here; print([executed_here(Path(name)) for name in sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", asking, *names],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.lower())


def test_a_file_outside_the_closure_is_refused(course):
    before = notebooks(course)
    source = course / "lessons/source/05_sums.md"
    hidden = '__import__("importlib").import_module("lab_utils." + "verb"); print(t("total"'
    source.write_text(LESSON.replace('print(t("total"', hidden), encoding="utf-8")
    done = build(course, "--lang", "en")
    assert done.returncode == 1
    assert "lab_utils/verb.py, which its import closure does not hold" in done.stderr
    assert notebooks(course) == before


def test_the_kernel_imports_the_package_that_was_built_with(course):
    (course / "lab_utils/whose.py").write_text("NAME = 'this copy'\n")
    source = course / "lessons/source/05_sums.md"
    source.write_text(
        LESSON.replace(
            'print(t("total"', 'from lab_utils.whose import NAME; print(NAME, t("total"'
        ),
        encoding="utf-8",
    )
    done = build(course, "--lang", "en")
    assert done.returncode == 0, done.stderr
    assert "this copy total 6" in json.dumps(load(course, "lessons/en/05_sums.ipynb").cells)


def test_an_interrupt_leaves_everything_as_it_was(course):
    before = notebooks(course)
    started = course / "started"
    slow = LESSON.replace(
        "total = sum(range(4))",
        f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(60);"
        " total = 6",
    )
    (course / "lessons/source/05_sums.md").write_text(slow, encoding="utf-8")
    command = [sys.executable, "-m", "lab_utils", "build", "05", "--lang", "en"]
    building = subprocess.Popen(
        command,
        cwd=course,
        env={**os.environ, "PYTHONPATH": str(course)},
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if started.exists() and started.read_text():
            break
        time.sleep(0.1)
    kernel = psutil.Process(int(started.read_text()))
    building.send_signal(signal.SIGINT)
    said = building.communicate(timeout=30)[1]
    assert building.returncode == 1
    assert said == "interrupted: what is not listed above is as it was before.\n"
    assert notebooks(course) == before
    assert not psutil.wait_procs([kernel], timeout=5)[1]
