"""Reads the options file: `flykka.yaml`, or `[tool.flykka]` of `pyproject.toml`, in the working folder."""

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
    """Return the file that `FLYKKA_CONFIG` names (empty: none), else the file in `folder`, else None.

    Raises:
        ConfigurationError: the named file does not exist, or the folder contains both files.
    """
    path = variables.get(CONFIG_FILE_VARIABLE)
    if path is not None:
        if path and not (folder / path).is_file():
            raise ConfigurationError(f"{CONFIG_FILE_VARIABLE}: there is no file {path}")
        return folder / path if path else None
    yaml, pyproject = folder / YAML, folder / PYPROJECT
    has_table = pyproject.is_file() and _table(pyproject) is not None
    if yaml.is_file() and has_table:
        raise ConfigurationError(f"both {yaml} and [{TABLE}] of {pyproject} contain options: keep one of them")
    if yaml.is_file():
        return yaml
    return pyproject if has_table else None


def file_values(file: Path) -> Values:
    """Read the options from a YAML file, or from the table `[tool.flykka]` of a TOML file.

    Paths in the file are relative to its folder.

    Raises:
        ConfigurationError: the file cannot be read, or contains an invalid option; the error names both.
    """
    options = (_table(file) or {}) if file.suffix == ".toml" else _mapping(file)
    values = read_values(options, str(file))
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
        with file.open("rb") as stream:
            document = tomllib.load(stream)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise ConfigurationError(f"{file} cannot be read: {wrong}") from None
    table = document.get("tool", {}).get("flykka")
    if table is not None and not isinstance(table, dict):
        raise ConfigurationError(f"{file}: [{TABLE}] is not a table")
    return table


def _mapping(file: Path) -> Mapping[str, Any]:
    # Imported here to save time, because most users have no YAML file.
    import yaml

    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as wrong:
        raise ConfigurationError(f"{file} cannot be read: {wrong}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{file} contains no options: write each on its own line, such as parallelism: 4")
    return {str(name): value for name, value in document.items()}
