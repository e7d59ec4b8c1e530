"""One language of a cell: words are put in, what cannot be is refused, what remains is the same."""

from __future__ import annotations

import ast

import pytest

from lab_utils.course.build_words import WordsError, masked, resolve, shape, tidy, without_import

CELL = '''def f(n):
    t("""Count.""", """数一数。""")
    name = t(f"{n} ranks", f"{n} 个 rank")
    return {t("loss", "损失"): name, "both": t("a"
        "b", "甲乙")}
'''


def test_each_page_has_the_words_of_its_language():
    english, chinese = resolve(CELL, "en"), resolve(CELL, "zh")
    assert ast.get_docstring(ast.parse(english).body[0]) == "Count."
    assert ast.get_docstring(ast.parse(chinese).body[0]) == "数一数。"
    assert 'f"{n} ranks"' in english
    assert "损失" not in english
    assert '"loss"' not in chinese
    scope: dict = {}
    exec(english, scope)
    assert scope["f"](3) == {"loss": "3 ranks", "both": "ab"}


def test_what_remains_is_compared():
    other = CELL.replace("def f(n)", "def f(m, n)")
    reworded = CELL.replace("ranks", "processes")
    assert masked(ast.parse(CELL)) == masked(ast.parse(reworded))
    assert masked(ast.parse(CELL)) != masked(ast.parse(other))
    english, chinese = (ast.parse(resolve(CELL, lang)) for lang in ("en", "zh"))
    assert shape(english) == shape(chinese) != shape(ast.parse(resolve(other, "en")))


def test_words_made_at_run_time_stay_with_their_import():
    cell = "from lab_utils import t, train\nprint(t(a, b))"
    assert resolve(cell, "zh") == cell
    assert without_import([cell]) == [cell]


def test_the_import_goes_where_no_words_are_left():
    cells = [
        "from lab_utils import TrainConfig, t, train\nx = 1",
        "from lab_utils import t\n\ny = 2",
    ]
    assert without_import(cells) == ["from lab_utils import TrainConfig, train\nx = 1", "y = 2"]
    several = "from lab_utils import (\n    t,\n    train,\n)\n"
    assert without_import([several])[0].strip() == "from lab_utils import train"


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ('print(f"{t("a", "甲")}")', "inside an f-string"),
        ('t(f"{a} of {b}", f"{a}")', "different values"),
    ],
)
def test_what_cannot_be_put_into_one_language_is_refused(cell, complaint):
    cell = cell.replace('t("a", "甲")', "t('a', '甲')")
    with pytest.raises(WordsError, match=complaint):
        resolve(cell, "en")


def test_lines_fit_the_page_and_magics_stay():
    long = f"x = call({', '.join(f'argument_{i}=value_{i}' for i in range(9))})"
    laid, magic = tidy([long, "%time x"])
    assert max(map(len, laid.splitlines())) <= 88
    assert ast.dump(ast.parse(laid)) == ast.dump(ast.parse(long))
    assert magic == "%time x"
