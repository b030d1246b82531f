"""Plain values that functions and their coordinators may send to each other, as msgpack bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from flykka.spark_bridge.errors import EventValueError


def event_to_bytes(value: Any, what: str) -> bytes:
    """Encode None, a bool, number, text or bytes, or a list, tuple or dict of such values. Raises `EventValueError`,
    which names `what`, for another value.
    """
    try:
        packed: bytes = msgpack.packb(value, default=_plain, strict_types=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as refused:
        raise EventValueError(
            f"{what} must be a plain value (None, a bool, number, text or bytes, or a list, tuple or dict of these),"
            f" not {value!r}: {refused}"
        ) from None
    return packed


def event_from_bytes(data: bytes) -> Any:
    """Decode the bytes of `event_to_bytes`. A tuple is decoded as a list."""
    return msgpack.unpackb(data, strict_map_key=False)


def _plain(value: Any) -> Any:
    """Convert subclasses of plain values, such as string enums and named tuples, to their base."""
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not a plain value")
