"""What a source must keep to, beyond being readable: each rule yields one sentence per break."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from ..i18n import LANGUAGES
from .build_source import (
    MENDED,
    NOTE,
    SOLUTION,
    Source,
    is_question,
    one_language,
    parsed,
    questions_of,
)
from .build_words import WIDEST, masked, shape
from .questions import Question

HAN = "一-鿿㐀-䶿"
TOUCHING = re.compile(f"[{HAN}][,;:()]|[,;:()][{HAN}]")
QUIET = re.compile(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|<!--.*?-->", re.S)
LINK_TARGET = re.compile(r"\]\([^)\s]*\)|https?://[!-~]+")
QUOTED = re.compile(r"“[^”]*”")  # a name in the other language, quoted
UNSTRICT = {"nbval-ignore-output", "nbval-skip", "nbval-raises-exception"}


def typography(chinese: str) -> Iterator[str]:
    """Each place where an ASCII , ; : ( or ) touches a Han character, outside code, formulas and
    link targets."""
    text = QUIET.sub("x", LINK_TARGET.sub("]", chinese)).replace("**", "")
    for hit in TOUCHING.finditer(text):
        around = text[max(0, hit.start() - 8) : hit.end() + 8].replace("\n", " ")
        yield f"ASCII punctuation touches a Han character in …{around}…: use ，；：（）"


def problems(source: Source, made: dict[str, dict[str, NotebookNode]]) -> Iterator[str]:
    """Every broken rule of one source, as sentences. `made` holds its notebooks by form (solution,
    lab) and language."""
    yield from (
        f"{source.where()}, front matter: {p}."
        for text in _front_texts(source)
        for p in typography(text)
    )
    for cell in source.cells:
        where = source.where(cell)
        if is_question(cell):
            texts = list(_chinese_of(questions_of(source, cell)))
        elif cell.cell_type == "code":
            texts = _chinese_in_code(cell.source)
        else:
            chinese = cell.source.split("<!-- zh -->")[-1]
            texts = [chinese]
            if re.match(r"#\s", cell.source):
                yield (
                    f"{where}: the first-level heading comes from title in the front matter; start"
                    " with ##."
                )
        yield from (f"{where}: {p}." for text in texts for p in typography(text))
    for form in made.values():
        yield from _same_code(source, form)
    yield from _objectives(source)
    if source.room == "solutions" and not any(
        SOLUTION.search(cell.source) or MENDED.search(cell.source)
        for cell in source.cells
        if cell.cell_type == "code"
    ):
        yield (
            f"{source.where()}: a lab needs at least one answer between # BEGIN SOLUTION and # END"
            " SOLUTION, or faults between # BEGIN MENDED and # END MENDED."
        )


def silent_claims(source: Source, built: NotebookNode) -> Iterator[str]:
    """Claims that print nothing: a cell tagged shows:ID must leave an output that is compared."""
    for cell in built.cells:
        claims = [tag for tag in cell.metadata.get("tags", []) if tag.startswith("shows:")]
        if claims and not cell.outputs:
            yield f"{source.where()}, cell {cell.id}: it is tagged {claims[0]} but prints nothing."


def _front_texts(source: Source) -> list[str]:
    return [source.front.title["zh"], *(o["zh"] for o in (source.front.objectives or {}).values())]


def _chinese_in_code(code: str) -> list[str]:
    """The Chinese of `# zh:` comments and of t(en, zh) calls; an f-string without its
    expressions."""
    found = [note[2] for note in map(NOTE.search, code.splitlines()) if note and note[1] == "zh"]
    try:
        tree = parsed(code)
    except SyntaxError:  # _same_code says so, with the error
        return found
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "t"
            and len(node.args) == 2
        ):
            parts = (
                node.args[1].values if isinstance(node.args[1], ast.JoinedStr) else [node.args[1]]
            )
            found.append(
                "".join(str(p.value) if isinstance(p, ast.Constant) else "x" for p in parts)
            )
    return found


def _chinese_of(questions: Iterable[Question]) -> Iterator[str]:
    for question in questions:
        for words in (question.text, question.unit, *(question.options or {}).values()):
            yield (words or {}).get("zh", "")
        yield from (words["zh"] for words in (question.why or {}).values())


def _same_code(source: Source, by_language: dict[str, NotebookNode]) -> Iterator[str]:
    """Both languages run the same code: all that is not words is compared. A page holds the words
    of its own language only."""
    shared = {cell.id: cell for cell in source.cells if cell.cell_type == "code"}
    for cells in zip(*(by_language[lang].cells for lang in LANGUAGES), strict=True):
        written = shared.get(cells[0].id)
        if written is None or is_question(written):
            continue
        where = f"{source.where()}, cell {cells[0].id}"
        try:
            shapes = {shape(parsed(cell.source)) for cell in cells}
            trees = {masked(parsed(one_language(written.source, lang))) for lang in LANGUAGES}
        except SyntaxError as error:
            yield f"{where} is not Python: {error.msg} in {(error.text or '').strip()!r}."
            continue
        if len(trees) > 1 or len(shapes) > 1:
            yield f"{where}: the code differs between the languages; only comments and t() may."
        if found := re.search(f".*[{HAN}].*", QUOTED.sub("", cells[0].source)):
            yield (
                f"{where}: the English page would show Chinese in its code,"
                f" {found[0].strip()[:60]!r}: put both into t()."
            )
        for name in _english_docstrings(parsed(cells[LANGUAGES.index("zh")].source)):
            yield (
                f"{where}: the Chinese page would show {name}'s docstring in English: put both into"
                " t()."
            )
        wide = max(cells[0].source.splitlines(), key=len, default="")
        if len(wide) > WIDEST:
            yield (
                f"{where}: a line of {len(wide)} columns would be cut, {wide.strip()[:40]!r}…:"
                f" {WIDEST} at most."
            )


def _english_docstrings(tree: ast.Module) -> Iterator[str]:
    """Names whose docstring holds no Han character."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            said = ast.get_docstring(node)
            if said and not re.search(f"[{HAN}]", said):
                yield node.name


def _objectives(source: Source) -> Iterator[str]:
    """Each objective is asked (a question cell tagged asks:ID) and shown (a compared cell
    tagged shows:ID)."""
    known, met = source.front.objectives or {}, set()
    for cell in source.cells:
        for tag in cell.metadata.get("tags", []):
            verb, _, objective = tag.partition(":")
            if verb not in ("asks", "shows") or not objective:
                continue
            met.add(tag)
            where = source.where(cell)
            if objective not in known:
                yield (
                    f"{where}: tag {tag} names no objective of the front matter"
                    f" ({', '.join(known) or 'there are none'})."
                )
            if verb == "asks" and not is_question(cell):
                yield f"{where}: it is tagged {tag} but holds no question."
            if verb == "shows" and (loose := UNSTRICT & {*cell.metadata.tags}):
                yield (
                    f"{where}: a claim ({tag}) must be compared strictly, so it cannot be tagged"
                    f" {', '.join(loose)}."
                )
    for objective in known:
        for verb, what in (
            ("asks", "question (a cell tagged question)"),
            ("shows", "claim or check (a cell whose output proves it)"),
        ):
            if f"{verb}:{objective}" not in met:
                yield (
                    f"{source.where()}: objective {objective} has no {what}: tag one"
                    f" {verb}:{objective}."
                )
    if known and not any(cell.source.strip() == "<!-- objectives -->" for cell in source.cells):
        yield (
            f"{source.where()}: say where the objectives are listed, with a prose cell that holds"
            " only <!-- objectives -->."
        )
