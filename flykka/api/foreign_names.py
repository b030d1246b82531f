"""Hints for names of PySpark and Flink that flykka spells otherwise or does not have, shown by the errors.

The hints are in `foreign_names.toml`, which is read when the first of them is wanted.
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
    """The hints of one table, by name; a line of the file has several names with one hint."""
    read = tomllib.loads(files(__package__).joinpath("foreign_names.toml").read_text(encoding="utf-8"))
    phrases = {name: Template(phrase).safe_substitute(read["phrases"]) for name, phrase in read["phrases"].items()}
    if table == "behind_windows":
        return dict.fromkeys(hints("every_stream"), phrases[table])
    lines = read[table].items()
    return {name: Template(hint).substitute(phrases) for names, hint in lines for name in names.split()}


def import_hint(name: str) -> str | None:
    """The hint for a name that `flykka` does not have; None where there is none."""
    # Loaded when it is needed: this is asked for every module of flykka's too that is not loaded yet.
    if name.endswith("Error") and hasattr(import_module("flykka.errors"), name):
        return f"errors are in flykka.errors: from flykka.errors import {name}"
    return hints("imports").get(name)


class NamesElsewhere:
    """Adds the hint to the `AttributeError` of a name that a class does not have, but PySpark or Flink has."""

    __slots__ = ()
    _foreign_names: ClassVar[tuple[str, ...]] = ()
    """Of the tables of hints, the ones that are looked into, in this order."""

    # Type checkers are not told of it: they would let every name pass.
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if not name.startswith("_") and (hint := hint_for(type(self), name)) is not None:
                # Without `obj`, Python adds no guess of its own.
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: {hint}", name=name)
            # Python's own error, with what it may have meant; also that of a property whose code has raised it.
            return object.__getattribute__(self, name)


def hint_for(owner: type[NamesElsewhere], name: str) -> str | None:
    """The hint for an attribute that instances of `owner` do not have; None where there is none."""
    if hasattr(owner, name):
        return None
    spelled = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if spelled != name and hasattr(owner, spelled):
        return f"it is spelled {spelled}"
    return next((hints(table)[spelled] for table in owner._foreign_names if spelled in hints(table)), None)
