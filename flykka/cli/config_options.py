"""Options of environments as options of a command line."""

from __future__ import annotations

import argparse
from typing import Any

from flykka.api.configuration.option import ConfigOption
from flykka.api.configuration.options import OPTIONS
from flykka.api.configuration.readers import flag, paths


def add_option(
    group: argparse._ArgumentGroup | argparse.ArgumentParser, option: ConfigOption, default: str | None = None
) -> None:
    """Add an option under its name; where it is not given it is None, and `default` says in words what holds then."""
    holds = default or f"what the app says, else {option.meaning.default}"
    what = f"{option.meaning.description} (default: {holds})".replace("%", "%%")
    if option.form.read is flag:
        group.add_argument(*option.flags, action=argparse.BooleanOptionalAction, default=None, help=what)
    elif option.form.read is paths:
        group.add_argument(*option.flags, metavar=option.form.shape, action="append", help=what)
    else:
        group.add_argument(*option.flags, metavar=option.form.shape, type=_reader(option), help=what)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the file of options."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the file of options (default: $FLYKKA_CONFIG, else flykka.yaml or [tool.flykka] of pyproject.toml in the"
        " working folder, if there is one)",
    )


def option_values(options: argparse.Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in OPTIONS if getattr(options, name, None) is not None}
    return {name: paths(value) if OPTIONS[name].form.read is paths else value for name, value in values.items()}


def _reader(option: ConfigOption) -> Any:
    def read(said: str) -> Any:
        try:
            return option.form.read(said)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return read
