"""Hints in errors for names that PySpark or Flink has, and that flykka spells differently or lacks.

They are read from `migration_hints.toml` when the first hint is needed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, ClassVar


@cache
def hints(table: str) -> Mapping[str, str]:
    """Return the hints of one table, by name; an entry of the file may give several names the same hint."""
    read = tomllib.loads(files(__package__).joinpath("migration_hints.toml").read_text(encoding="utf-8"))
    phrases = {name: Template(phrase).safe_substitute(read["phrases"]) for name, phrase in read["phrases"].items()}
    if table == "behind_windows":
        return dict.fromkeys(hints("every_stream"), phrases[table])
    lines = read[table].items()
    return {name: Template(hint).substitute(phrases) for names, hint in lines for name in names.split()}


def import_hint(name: str) -> str | None:
    # Imported only when needed: Python also calls this function for each submodule of flykka that is not loaded yet.
    if name.endswith("Error") and hasattr(import_module("flykka.errors"), name):
        return f"errors are in flykka.errors: from flykka.errors import {name}"
    return hints("imports").get(name)


class MigrationHints:
    """Adds a hint to the `AttributeError` for a name that only PySpark or Flink has."""

    __slots__ = ()
    _hint_tables: ClassVar[tuple[str, ...]] = ()
    """The tables of hints, in search order."""

    # Hidden from type checkers, which would otherwise accept every name.
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if not name.startswith("_") and (hint := hint_for(type(self), name)) is not None:
                # Without `obj`, Python does not append its own suggestion.
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: {hint}", name=name)
            # Raises Python's own error with its suggestion, or the error raised by the code of a property.
            return object.__getattribute__(self, name)


def hint_for(owner: type[MigrationHints], name: str) -> str | None:
    if hasattr(owner, name):
        return None
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if snake_case != name and hasattr(owner, snake_case):
        return f"it is spelled {snake_case}"
    return next((hints(table)[snake_case] for table in owner._hint_tables if snake_case in hints(table)), None)
