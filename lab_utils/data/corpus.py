"""The text that a model learns from.

By default it is what every Python installation carries, read at run time: the documentation topics
behind `help()` and the sources of the standard library. Nothing is downloaded and nothing is
shipped.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from ..config import ConfigError
from ..i18n import t

# 2,600 steps of `tiny` at the default batch before a window comes twice; read in under 0.1 s
DEFAULT_BYTES = 4_000_000


def load_corpus(path: str | None = None) -> str:
    """The text of a UTF-8 file, or the default text (about 4 MB of English documentation and Python
    source).

    Raises ConfigError for a file that is missing, empty, or not UTF-8 text.
    """
    return _python_text() if path is None else _file_text(Path(path))


def _python_text() -> str:
    parts = []
    try:
        from pydoc_data.topics import topics

        parts += [topics[name] for name in sorted(topics)]
    # some distributions put it into a package of its own; the sources alone will do
    except ImportError:
        pass
    size = sum(map(len, parts))
    for source in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        if size >= DEFAULT_BYTES:
            break
        text = source.read_text(encoding="utf-8", errors="replace")
        parts.append(text)
        size += len(text)
    return "\n".join(parts)


def _file_text(path: Path) -> str:
    def refuse(en: str, zh: str) -> ConfigError:
        return ConfigError(t(f"--corpus {path}: {en}", f"--corpus {path}：{zh}"))

    if path.is_dir():
        raise refuse(
            "this is a folder; give a UTF-8 text file in it.",
            "这是一个文件夹，请指定其中的一个 UTF-8 文本文件。",
        )
    if path.exists() and not path.is_file():
        raise refuse(
            "this is no regular file; give a UTF-8 text file.",
            "这不是普通文件，请指定一个 UTF-8 文本文件。",
        )
    if not path.is_file():
        raise refuse(
            "there is no such file; give a UTF-8 text file.",
            "找不到这个文件，请指定一个 UTF-8 文本文件。",
        )
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise refuse(
            f"cannot be read ({error.strerror}).", f"无法读取（{error.strerror}）。"
        ) from None
    if b"\0" in raw:
        raise refuse(
            "this is a binary file; give a UTF-8 text file.",
            "这是二进制文件，请指定一个 UTF-8 文本文件。",
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(
            f"byte {error.start} is not UTF-8; convert it, e.g. with iconv -t UTF-8.",
            f"第 {error.start} 个字节不是 UTF-8，请先转码，例如 iconv -t UTF-8。",
        ) from None
    if not text.strip():
        raise refuse(
            "the file is empty; give a file with text in it.",
            "文件是空的，请指定一个有内容的文件。",
        )
    return text
