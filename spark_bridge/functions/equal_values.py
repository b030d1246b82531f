"""Equality of keys as Python values. `rows.equality` states the rule and implements it for Spark and Arrow columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAN = float("nan")
"""The only NaN object among normalised values, so that Python finds it in dicts and tuples."""


def normalised_value(value: Any) -> Any:
    """Return a hashable value that equals another normalised value exactly if Spark considers both values equal."""
    match value:
        case float():
            return NAN if value != value else value + 0.0
        case list() | tuple():
            return tuple(map(normalised_value, value))
        case dict():
            return tuple(map(normalised_value, value.values()))
    return value


def entries_of(pairs: Any, normalised_key: Callable[[Any], Any] | None) -> dict[Any, Any]:
    """Return the entries of a map, or of pairs, as a dict. Keys are normalised with `normalised_key`, unless it is
    None.
    """
    entries = dict(pairs)
    return entries if normalised_key is None else {normalised_key(key): value for key, value in entries.items()}
