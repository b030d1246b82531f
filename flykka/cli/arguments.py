"""Shared code of the command lines: loads commands, and parses arguments."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

TRACE_FILE = "a trace: a file, or an address such as s3://bucket/run.trace"


class CommandParser(argparse.ArgumentParser):
    """The parser of one command. The command's module is loaded when the command is run, so `flykka --help` loads no
    command.

    The module's `configure(parser)`, or a function specified as `module:function`, describes the command and adds its
    arguments. It also sets the function `run`, which is called with the parsed arguments and returns the exit code.
    """

    module: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.module is not None:
            (module, _, function), self.module = self.module.partition(":"), None
            getattr(import_module(module), function or "configure")(self)
        return super().parse_known_args(args, namespace)


def add_commands(parser: argparse.ArgumentParser, commands: Mapping[str, tuple[str, str]]) -> None:
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, (module, line) in commands.items():
        command = subparsers.add_parser(name, help=line, formatter_class=argparse.RawDescriptionHelpFormatter)
        command.module = module


def describe(parser: argparse.ArgumentParser, description: str, epilog: str = "", **more: Any) -> None:
    parser.description, parser.epilog = description, epilog
    for setting, value in more.items():
        setattr(parser, setting, value)


def unknown_option(option: str, parser: argparse.ArgumentParser) -> str:
    options = [text for action in parser._actions for text in action.option_strings]
    typed = option.partition("=")[0]
    close = [text for text in options if text.startswith(typed)] or difflib.get_close_matches(typed, options, n=1)
    suggestion = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown option {option}{suggestion}; options for the app itself go after --"


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add `--import`. Modules other than flykka's are not imported just because a trace names them."""
    modules = "import this module, which declares actors or messages of the trace; may be given several times"
    parser.add_argument("--import", dest="modules", metavar="MODULE", action="append", default=[], help=modules)


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-cache", action="store_true", help="run the app up to its first execute(), even if its plan is cached"
    )
