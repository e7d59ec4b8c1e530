"""The READMEs' pictures: each tool's first state as an SVG, in both languages, under assets/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..i18n import LANGUAGES


def pictures() -> Iterator[tuple[str, str]]:
    """File name and SVG text of every picture."""
    from ..widgets import data_parallelism, zero

    for lang in LANGUAGES:
        yield f"data_parallelism_{lang}.svg", data_parallelism.explorer(lang).svg()
        yield f"zero_stages_{lang}.svg", zero.explorer(lang).svg()


def write_pictures(root: Path) -> None:
    """Draw them into `root`/assets; files that are right already are left alone."""
    folder = root / "assets"
    for name, svg in pictures():
        if not _is(folder / name, svg):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(svg, encoding="utf-8")


def stale_pictures(root: Path) -> Iterator[str]:
    """One sentence for each picture that is missing or not what the tool draws now."""
    for name, svg in pictures():
        if not _is(root / "assets" / name, svg):
            yield f"assets/{name} is not what the tool draws now: run python -m lab_utils build."


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
