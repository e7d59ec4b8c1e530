"""Command-line flags from the configuration's fields: name, type, choices and help are written
once, in config/."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import wraps
from typing import get_args, get_type_hints

from ..config import ConfigError, TrainConfig, flag_fields
from ..config.presets import PRESETS
from ..i18n import t


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """One flag per field of the configuration, and --preset. A flag that is not given leaves the
    preset's value."""
    parser.add_argument(
        "--preset",
        default="tiny",
        metavar="NAME",
        help=t(f"named model shape: {', '.join(PRESETS)}", f"预设的模型规模：{'、'.join(PRESETS)}"),
    )
    for name, (owner, field) in flag_fields().items():
        flag, help_text = "--" + name.replace("_", "-"), t(*field.metadata["help"])
        hint = get_type_hints(owner)[name]
        if hint is bool:
            usual = t(" (default on)", "（默认开）"), t(" (default off)", "（默认关）")
            parser.add_argument(
                flag,
                action=argparse.BooleanOptionalAction,
                default=None,
                help=help_text + usual[not field.default],
            )
            continue
        words = [word for word in get_args(hint) if not isinstance(word, type)]
        kind = (
            type(words[0])
            if words
            else next(kind for kind in (*get_args(hint), hint) if kind is not type(None))
        )
        shown = "{" + ",".join(map(str, words)) + "}" if words else kind.__name__.upper()
        default = (
            ""
            if field.default is None
            else t(f" (default {field.default})", f"（默认 {field.default}）")
        )
        parser.add_argument(
            flag,
            type=kind,
            default=None,
            metavar=shown,
            help=(help_text + default).replace("%", "%%"),
        )


def add_force(parser: argparse.ArgumentParser) -> None:
    """--force, of the commands that start ranks."""
    parser.add_argument(
        "--force",
        action="store_true",
        help=t(
            "start the ranks even if they do not fit this machine's memory and cores",
            "即使本机的内存和核数容纳不下，也照样启动各进程",
        ),
    )


def whole_from_1(text: str) -> int:
    """The argparse type of a count."""
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(
            t(
                f"must be a whole number from 1 up, not {text!r}",
                f"应为不小于 1 的整数，而不是 {text!r}",
            )
        )
    return int(text)


def seconds_above_0(text: str) -> float:
    """The argparse type of a time limit."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e7:
        raise argparse.ArgumentTypeError(
            t(
                f"must be a number of seconds above 0, not {text!r}",
                f"应为大于 0 的秒数，而不是 {text!r}",
            )
        )
    return seconds


def config_from(args: argparse.Namespace) -> TrainConfig:
    """The configuration that the flags describe; raises ConfigError."""
    given = {name: getattr(args, name) for name in flag_fields() if getattr(args, name) is not None}
    return TrainConfig.of(args.preset, **given)


def one_sentence(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A wrong configuration ends the command with its sentence and exit status 2, not with a
    traceback."""

    @wraps(run)
    def wrapped(args: argparse.Namespace) -> int:
        import sys

        try:
            return run(args)
        except BrokenPipeError:
            raise  # not ours: whoever read the output has ended
        except (ConfigError, OSError) as error:
            # of the system's errors those with a number are not ours yet
            raw = isinstance(error, OSError) and error.errno is not None
            said = t(f"the system refused: {error}", f"系统拒绝了：{error}") if raw else error
            print(said, file=sys.stderr)
            return 2

    return wrapped
