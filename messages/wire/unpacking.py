"""Unpacks untrusted bytes, with memory proportional to their length."""

from __future__ import annotations

from typing import Any

import msgpack

MAX_NESTING = 100
"""The maximum nesting depth of maps and arrays in a value.

It is limited because code that traverses a value may recurse.
"""

MAX_ITEMS = 4_000_000
"""The maximum number of items in all maps and arrays of an object together."""

_CHECKED_BYTES = 1024
_COUNTED_BYTES = 1024 * 1024
"""The size of data in bytes below which items are not counted, because there cannot be too many."""


class Budget:
    """Counts the items of one object while msgpack creates it, as its `list_hook` and `object_hook`."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def __call__(self, container: Any) -> Any:
        self._left -= len(container) + 1
        if self._left < 0:
            raise ValueError(f"more than {self._most:,} items")
        return container


def hooks(size: int, most: int = MAX_ITEMS) -> dict[str, Any]:
    """Return the options that limit the items of an object of this size, or no options for a small object."""
    if size <= _COUNTED_BYTES:
        return {}
    budget = Budget(most)
    return {"list_hook": budget, "object_hook": budget}


def unpack(data: bytes, **options: Any) -> Any:
    """Unpack the single msgpack object in `data`. `options` are those of `msgpack.unpackb`.

    Raises:
        ValueError: the data is incomplete, or has trailing bytes (`msgpack.ExtraData`).
    """
    try:
        if len(data) > _CHECKED_BYTES:
            # An array may declare more items than there are bytes, and so may each nested array: msgpack allocates
            # room for all of them before it reads any.
            unpacker = msgpack.Unpacker(max_buffer_size=len(data))
            unpacker.feed(data)
            unpacker.skip()
        return msgpack.unpackb(data, **options, **hooks(len(data)))
    except msgpack.UnpackException as error:
        raise ValueError(str(error) or "incomplete input") from error


def is_nested_deeply(unpacked: object, most: int = MAX_NESTING) -> bool:
    """Return True if an unpacked object has more than `most` levels."""
    level = [unpacked] if type(unpacked) in _CONTAINERS else []
    for _ in range(most):
        if not level:
            return False
        level = [
            part
            for each in level
            for part in (each.values() if type(each) is dict else each)  # type: ignore[attr-defined]
            if type(part) in _CONTAINERS
        ]
    return bool(level)


_CONTAINERS = (dict, tuple, list)
