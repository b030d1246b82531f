"""Equality of keys as Python values; `rows.equality` has the rule, for Spark's columns and for Arrow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAN = float("nan")
"""The only NaN among normalised values: as one object, Python finds it in dicts and tuples."""


def normalised_value(value: Any) -> Any:
    """Return a value that can be hashed, and is equal to another one where Spark's values are."""
    match value:
        case float():
            return NAN if value != value else value + 0.0
        case list() | tuple():
            return tuple(map(normalised_value, value))
        case dict():
            return tuple(map(normalised_value, value.values()))
    return value


def entries_of(pairs: Any, normalised_key: Callable[[Any], Any] | None) -> dict[Any, Any]:
    """Return the entries of a map, or of pairs, as a dict; its keys are normalised where they have to be."""
    entries = dict(pairs)
    return entries if normalised_key is None else {normalised_key(key): value for key, value in entries.items()}
