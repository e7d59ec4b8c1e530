"""--help in the reader's language, with every default."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from ..i18n import t


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Says the default of every flag that has one and does not say it already."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, prefix or t("usage: ", "用法："))

    def _get_help_string(self, action: argparse.Action) -> str:
        said, default = action.help or "", action.default
        silent = default in (None, argparse.SUPPRESS) or isinstance(default, bool)
        if silent or not action.option_strings or "default" in said or "默认" in said:
            return said
        shown = ",".join(map(str, default)) if isinstance(default, list) else default
        return (said + t(f" (default {shown})", f"（默认 {shown}）")).replace("%", "%%")


def in_readers_language(parser: argparse.ArgumentParser) -> None:
    """Put what argparse itself says above and beside the flags into the reader's language."""
    parser._positionals.title = t("positional arguments", "位置参数")
    parser._optionals.title = t("options", "选项")
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            action.help = t("show this and end", "显示本帮助并退出")
