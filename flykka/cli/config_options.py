"""Options of environments as options of a command line."""

from __future__ import annotations

import argparse
from typing import Any

from flykka.api.configuration.configuration import OPTIONS
from flykka.api.configuration.option import ConfigOption
from flykka.api.configuration.readers import flag, paths

_SHORT = {"from_savepoint": ("-s",), "allow_non_restored_state": ("-n",)}
"""Short names, as Flink's command line has them."""


def add_option(
    group: argparse._ArgumentGroup | argparse.ArgumentParser, option: ConfigOption, default: str | None = None
) -> None:
    """Add an option under its name; where it is not given it is None, and `default` says in words what holds then."""
    holds = default or f"what the app says, else {option.default}"
    names, what = (
        (*_SHORT.get(option.name, ()), option.flag),
        f"{option.description} (default: {holds})".replace("%", "%%"),
    )
    if option.read is flag:
        group.add_argument(*names, action=argparse.BooleanOptionalAction, default=None, help=what)
    elif option.read is paths:
        group.add_argument(*names, metavar=option.shape, action="append", help=what)
    else:
        group.add_argument(*names, metavar=option.shape, type=_reader(option), help=what)


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
    return {name: OPTIONS[name].read(value) if OPTIONS[name].read is paths else value for name, value in values.items()}


def _reader(option: ConfigOption) -> Any:
    def read(said: str) -> Any:
        try:
            return option.read(said)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return read
