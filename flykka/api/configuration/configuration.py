"""Parses the values of options and merges their levels.

A command line overrides environment variables, these override the program, and the program overrides a file. Only one
level decides from where a job starts: if a level sets any start option, the start options of all lower levels are
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from flykka.api.configuration.option import PREFIX, OptionGroup, Values
from flykka.api.configuration.options import OPTIONS
from flykka.errors import ConfigurationError

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings

CONFIG_FILE_VARIABLE = f"{PREFIX}CONFIG"
_NO_OPTIONS = frozenset(f"{PREFIX}{name}" for name in ("CONFIG", "ADDRESS", "PID_DIR", "CACHE_DIR"))
"""Environment variables that are not options: variables of commands, and the path of the options file."""
_OF_KUBERNETES = re.compile(r"_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")
_START = tuple(option.name for option in OPTIONS.values() if option.group is OptionGroup.START)
_PLACES = tuple(name for name in _START if name != "allow_non_restored_state")


def read_values(texts: Mapping[str, object], where: str) -> Values:
    """Parse options; `where` names their origin in errors.

    Raises:
        ConfigurationError: there is no such option, a value is invalid, or values contradict each other.
    """
    values = {name: read_value(name, value, f"{where}: {name}") for name, value in texts.items()}
    if (wrong := conflict(values)) is not None:
        raise ConfigurationError(f"{where}: {wrong}")
    return values


def read_value(name: str, value: object, where: str) -> Any:
    option = OPTIONS.get(name)
    if option is None:
        raise ConfigurationError(f"{where}: unknown option{suggestion(name, OPTIONS)}")
    try:
        return option.form.read(value)
    except ValueError as wrong:
        raise ConfigurationError(f"{where}: {wrong}") from None


def environment_values(variables: Mapping[str, str]) -> Values:
    """Parse the options set by environment variables.

    Raises:
        ConfigurationError: a value is invalid.
    """
    values = {
        name: read_value(name, variables[variable], variable)
        for variable, name in _by_variable().items()
        if variable in variables
    }
    if (wrong := conflict(values)) is not None:
        raise ConfigurationError(f"environment variables: {wrong}")
    return values


def unknown_variables(variables: Iterable[str]) -> list[str]:
    """Return a warning for each environment variable that begins with `FLYKKA_` but is not an option.

    Variables that Kubernetes sets for a service called flykka are ignored.
    """
    names = (*_by_variable(), *_NO_OPTIONS)
    return [
        f"{variable}: unknown environment variable, which is ignored{suggestion(variable, names)}"
        for variable in sorted(variables)
        if variable.startswith(PREFIX) and variable not in names and not _OF_KUBERNETES.search(variable)
    ]


def _by_variable() -> dict[str, str]:
    return {option.variable: option.name for option in OPTIONS.values()}


def merged(*levels: Values) -> Values:
    """Merge the levels; later levels override earlier levels."""
    values: dict[str, Any] = {}
    for level in levels:
        if any(name in level for name in _PLACES):
            values = {name: value for name, value in values.items() if name not in _START}
        values |= level
    return values


def conflict(values: Values, format_name: Callable[[str], str] = str) -> str | None:
    """Describe a contradiction between values, or return None. `format_name` formats option names."""
    starts = [format_name(name) for name in _PLACES if name in values and values[name] is not False]
    if len(starts) > 1:
        return f"a job can start from one checkpoint only: give {starts[0]} or {starts[1]}, not both"
    if "ring" in values and "max_bytes" in values:
        ring, max_bytes = format_name("ring"), format_name("max_bytes")
        return f"{ring} already limits the recording: give {ring} or {max_bytes}, not both"
    return None


def incomplete(values: Values, format_name: Callable[[str], str] = str) -> str | None:
    """Describe a value that requires another option that no level sets, or return None."""
    if "ring" in values and "record" not in values:
        return f"{format_name('ring')} limits a recording: name its file, {format_name('record')}"
    if "max_bytes" in values and "record" not in values:
        return f"{format_name('max_bytes')} limits a recording: name its file, {format_name('record')}"
    if values.get("allow_non_restored_state") and "from_savepoint" not in values:
        return (
            f"{format_name('allow_non_restored_state')} needs a savepoint whose state may be dropped:"
            f" {format_name('from_savepoint')}"
        )
    if "rest" not in values and (names := [name for name in values if name.startswith("rest_")]):
        return f"{format_name(names[0])} goes with {format_name('rest')}"
    if "network_memory_bytes" in values and "network_buffers" not in values:
        return (
            f"{format_name('network_memory_bytes')} divides the network buffers by size: set"
            f" {format_name('network_buffers')} as well"
        )
    return None


def applied(settings: JobSettings, values: Values) -> JobSettings:
    for option in OPTIONS.values():
        if option.name in values:
            settings = option.applied(settings, values[option.name])
    return settings


def suggestion(name: str, names: Any) -> str:
    close = get_close_matches(name, tuple(names), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
