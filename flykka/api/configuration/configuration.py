"""The values of options: read under their names, and put together, the nearer to the run the stronger.

A command line wins over environment variables, these over the program, and the program over a file. One place of them
says where a job starts: options of the start that are said nearer to the run take the place of all that are said
further away.
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
"""Environment variables of commands, and of the file."""
_OF_KUBERNETES = re.compile(r"_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")
_START = tuple(option.name for option in OPTIONS.values() if option.group is OptionGroup.START)
_PLACES = tuple(name for name in _START if name != "allow_non_restored_state")


def read_values(said: Mapping[str, object], where: str) -> Values:
    """The values of options that are said in `where`.

    Raises:
        ConfigurationError: there is no such option, or a value is wrong, or they do not go together.
    """
    values = {name: read_value(name, value, f"{where}: {name}") for name, value in said.items()}
    if (wrong := conflict(values)) is not None:
        raise ConfigurationError(f"{where}: {wrong}")
    return values


def read_value(name: str, said: object, where: str) -> Any:
    """The value of one option. Raises `ConfigurationError`, which begins with `where`."""
    option = OPTIONS.get(name)
    if option is None:
        raise ConfigurationError(f"{where}: there is no such option{meant(name, OPTIONS)}")
    try:
        return option.form.read(said)
    except ValueError as wrong:
        raise ConfigurationError(f"{where}: {wrong}") from None


def environment_values(variables: Mapping[str, str]) -> Values:
    """The values of options that environment variables say.

    Raises:
        ConfigurationError: a value is wrong.
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
    """A warning for each environment variable that begins as ours do and is none of them.

    Kubernetes' own variables for a service that is called flykka are no mistake.
    """
    known = (*_by_variable(), *_NO_OPTIONS)
    return [
        f"{variable}: there is no such environment variable, and it is ignored{meant(variable, known)}"
        for variable in sorted(variables)
        if variable.startswith(PREFIX) and variable not in known and not _OF_KUBERNETES.search(variable)
    ]


def _by_variable() -> dict[str, str]:
    return {option.variable: option.name for option in OPTIONS.values()}


def merged(*levels: Values) -> Values:
    """All values; where levels say the same, the later one holds."""
    values: dict[str, Any] = {}
    for level in levels:
        if any(name in level for name in _PLACES):
            values = {name: value for name, value in values.items() if name not in _START}
        values |= level
    return values


def conflict(values: Values, spelled: Callable[[str], str] = str) -> str | None:
    """Tell which values do not go together; None where they do. `spelled` writes the name of an option."""
    given = [spelled(name) for name in _PLACES if name in values and values[name] is not False]
    if len(given) > 1:
        return f"a job starts from one place: give {given[0]} or {given[1]}, not both"
    if "ring" in values and "max_bytes" in values:
        return (
            f"{spelled('ring')} bounds a recording already: give {spelled('ring')} or {spelled('max_bytes')}, not both"
        )
    return None


def incomplete(values: Values, spelled: Callable[[str], str] = str) -> str | None:
    """Tell which value needs another one, when all levels have spoken; None where none is missing."""
    if "ring" in values and "record" not in values:
        return f"{spelled('ring')} says how much of a recording is kept: name its file, {spelled('record')}"
    if "max_bytes" in values and "record" not in values:
        return f"{spelled('max_bytes')} says how large a recording may be: name its file, {spelled('record')}"
    if values.get("allow_non_restored_state") and "from_savepoint" not in values:
        return (
            f"{spelled('allow_non_restored_state')} needs a savepoint whose state may be dropped:"
            f" {spelled('from_savepoint')}"
        )
    if "rest" not in values and (given := [name for name in values if name.startswith("rest_")]):
        return f"{spelled(given[0])} goes with {spelled('rest')}"
    if "network_memory_bytes" in values and "network_buffers" not in values:
        return (
            f"{spelled('network_memory_bytes')} is shared out among the network buffers: give"
            f" {spelled('network_buffers')} as well"
        )
    return None


def applied(settings: JobSettings, values: Values) -> JobSettings:
    """The settings of jobs with these values. Raises `ProgramError` where something does not go together."""
    for option in OPTIONS.values():
        if option.name in values:
            settings = option.applied(settings, values[option.name])
    return settings


def meant(name: str, known: Any) -> str:
    """Ask whether another name was meant; empty where none is near."""
    close = get_close_matches(name, tuple(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
