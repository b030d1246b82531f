"""The file of options: `flykka.yaml`, or `[tool.flykka]` of `pyproject.toml`, in the working folder."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flykka.api.configuration.configuration import CONFIG_FILE_VARIABLE, read_values
from flykka.api.configuration.option import Values
from flykka.api.configuration.options import OPTIONS
from flykka.errors import ConfigurationError

YAML, PYPROJECT = "flykka.yaml", "pyproject.toml"
TABLE = "tool.flykka"


def configuration_file(variables: Mapping[str, str], folder: Path) -> Path | None:
    """The file that `FLYKKA_CONFIG` names (empty: none), else that in `folder`; None where there is none.

    Raises:
        ConfigurationError: the named one is not there, or there are both in the folder.
    """
    named = variables.get(CONFIG_FILE_VARIABLE)
    if named is not None:
        if named and not (folder / named).is_file():
            raise ConfigurationError(f"{CONFIG_FILE_VARIABLE}: there is no file {named}")
        return folder / named if named else None
    yaml, pyproject = folder / YAML, folder / PYPROJECT
    has_table = pyproject.is_file() and _table(pyproject) is not None
    if yaml.is_file() and has_table:
        raise ConfigurationError(f"there are options in {yaml} and in [{TABLE}] of {pyproject}: keep one of them")
    if yaml.is_file():
        return yaml
    return pyproject if has_table else None


def file_values(file: Path) -> Values:
    """The values of options in a file: YAML, or TOML whose table `[tool.flykka]` has them.

    Paths in it are relative to its folder.

    Raises:
        ConfigurationError: it cannot be read, or something in it is wrong: it is named with the file.
    """
    said = (_table(file) or {}) if file.suffix == ".toml" else _mapping(file)
    values = read_values(said, str(file))
    is_path = {name: OPTIONS[name].form.is_path for name in values}
    return {name: _located(value, file.parent) if is_path[name] else value for name, value in values.items()}


def _located(value: Any, folder: Path) -> Any:
    if isinstance(value, tuple):
        return tuple(_located(each, folder) for each in value)
    if isinstance(value, dict):
        return {name: _located(each, folder) for name, each in value.items()}
    return value if "://" in value else str(folder / value)


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        with file.open("rb") as opened:
            told = tomllib.load(opened)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise ConfigurationError(f"{file} cannot be read: {wrong}") from None
    found = told.get("tool", {}).get("flykka")
    if found is not None and not isinstance(found, dict):
        raise ConfigurationError(f"{file}: [{TABLE}] is no table")
    return found


def _mapping(file: Path) -> Mapping[str, Any]:
    # Few have such a file, and the others need not wait for it.
    import yaml

    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as wrong:
        raise ConfigurationError(f"{file} cannot be read: {wrong}") from None
    if told is None:
        return {}
    if not isinstance(told, dict):
        raise ConfigurationError(f"{file}: it has no options, each on a line of its own such as parallelism: 4")
    return {str(name): value for name, value in told.items()}
