"""Combines the options of a launch and of environments from the command line, a file and environment variables."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from flykka.api.configuration.configuration import conflict, incomplete
from flykka.api.configuration.option import ConfigOption
from flykka.api.configuration.options import OPTIONS
from flykka.api.configuration.readers import flag, paths
from flykka.api.configuration.rest_settings import rest_settings
from flykka.errors import ConfigurationError
from flykka.spark_bridge.errors import MissingExtraError

if TYPE_CHECKING:
    from flykka.api.launch import LaunchOptions


def add_option(
    group: argparse._ArgumentGroup | argparse.ArgumentParser, option: ConfigOption, default: str | None = None
) -> None:
    """Add an option. Its value is None if the option is missing. `default` describes the default in the help."""
    fallback = default or f"as set by the app, else {option.meaning.default}"
    what = f"{option.meaning.description} (default: {fallback})".replace("%", "%%")
    if option.form.read is flag:
        group.add_argument(*option.flags, action=argparse.BooleanOptionalAction, default=None, help=what)
    elif option.form.read is paths:
        group.add_argument(*option.flags, metavar=option.form.shape, action="append", help=what)
    else:
        group.add_argument(*option.flags, metavar=option.form.shape, type=_reader(option), help=what)


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the options file (default: $FLYKKA_CONFIG, else flykka.yaml or [tool.flykka] of pyproject.toml in the"
        " working folder, if there is one)",
    )


def option_values(options: argparse.Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in OPTIONS if getattr(options, name, None) is not None}
    return {name: paths(value) if OPTIONS[name].form.read is paths else value for name, value in values.items()}


def _reader(option: ConfigOption) -> Any:
    def read(text: str) -> Any:
        try:
            return option.form.read(text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return read


def launch_options(options: argparse.Namespace, *, without: Collection[str] = ()) -> LaunchOptions:
    """Return the launch options, except those in `without`, which the command handles itself.

    If options contradict each other, or a file or variable has an invalid value, exit with a usage error.
    """
    # Imported here because commands that only parse options do not start a launch.
    from flykka.api.launch import LaunchOptions

    runs_jobs = hasattr(options, "no_rest")
    launch = LaunchOptions(
        values={name: value for name, value in option_values(options).items() if name not in without},
        config_file=options.config,
        offers_rest=runs_jobs and not options.no_rest and find_spec("uvicorn") is not None,
    )
    try:
        problem = _conflict(launch)
        if runs_jobs and problem is None:
            problem = _rest_conflict(launch, is_refused=options.no_rest)
    except (ConfigurationError, MissingExtraError) as refused:
        problem = str(refused)
    if problem is not None:
        options.parser.error(problem)
    return launch


def _conflict(launch: LaunchOptions) -> str | None:
    return conflict(launch.values, _flag) or incomplete(launch.all_values(), _flag)


def _rest_conflict(launch: LaunchOptions, *, is_refused: bool) -> str | None:
    if "rest" in launch.values and is_refused:
        return "--rest and --no-rest are opposites: give one of them"
    rest_settings(launch.all_values(), "--rest")
    return None


def _flag(name: str) -> str:
    return OPTIONS[name].flag
