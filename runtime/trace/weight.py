"""How much a message carries: what a recorder in memory has to reckon with."""

from __future__ import annotations

from dataclasses import fields

from flykka.messages.message import Value

_POINTER_BYTES = 8

_names: dict[type, tuple[str, ...]] = {}


def weight(item: object) -> int:
    """The characters, bytes and places in tuples within a value, each counted as often as it occurs.

    Objects that several messages share are held once and counted with each: it is a bound, not a measure.
    """
    kind = type(item)
    if kind is str or kind is bytes:
        return len(item)  # type: ignore[arg-type]
    if kind is tuple:
        return _POINTER_BYTES * len(item) + sum(map(weight, item))  # type: ignore[arg-type, call-overload]
    names = _names.get(kind)
    if names is None:
        names = _names[kind] = _fields_of(kind)
    carried = 0
    for name in names:
        carried += weight(getattr(item, name))
    return carried


def _fields_of(kind: type) -> tuple[str, ...]:
    """The fields of a declared class; anything else, such as a number or a ref, carries nothing."""
    return tuple(field.name for field in fields(kind)) if issubclass(kind, Value) else ()  # type: ignore[arg-type]
