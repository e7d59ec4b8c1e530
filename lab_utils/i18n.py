"""The reader's language: `t("text", "文字")` gives the one that is set.

The language comes from, in this order: `set_language`, the environment variable LAB_LANG, English.
"""

from __future__ import annotations

import os

LANGUAGES = ("en", "zh")
_chosen: str | None = None


def language() -> str:
    """The language in force: "en" or "zh"."""
    if _chosen is not None:
        return _chosen
    # a locale's spelling will do: zh_CN.UTF-8, zh-Hans
    from_environment = os.environ.get("LAB_LANG", "en").lower().replace("-", "_")
    name = from_environment.partition(".")[0].partition("_")[0]
    return name if name in LANGUAGES else "en"


def set_language(lang: str) -> None:
    """Choose the language of everything that is printed from now on.

    Raises ValueError for anything but "en" and "zh".
    """
    global _chosen
    if lang not in LANGUAGES:
        raise ValueError(f'language must be "en" or "zh", not {lang!r}')
    _chosen = lang


def t(en: str, zh: str, lang: str | None = None) -> str:
    """The English or the Chinese text, by the language in force (or by `lang`)."""
    return zh if (lang or language()) == "zh" else en
