"""Unpacks bytes that may come from anywhere, in memory that is proportional to their number."""

from __future__ import annotations

from typing import Any

import msgpack

MAX_NESTING = 100
"""Levels of maps and arrays that a value may have: code that goes through one may call itself for each."""

MAX_ITEMS = 4_000_000
"""Items that all maps and arrays of an object may have together."""

_CHECKED_BYTES = 1024
_COUNTED_BYTES = 1024 * 1024
"""Fewer bytes cannot be so many items that it matters."""


class Budget:
    """Counts the items of one object while msgpack makes it, as its `list_hook` and `object_hook`."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def __call__(self, made: Any) -> Any:
        """Count what was made. Raises `ValueError` for too many items."""
        self._left -= len(made) + 1
        if self._left < 0:
            raise ValueError(f"more than {self._most:,} items")
        return made


def hooks(size: int, most: int = MAX_ITEMS) -> dict[str, Any]:
    """The options that count the items of an object of so many bytes; none for a small one."""
    if size <= _COUNTED_BYTES:
        return {}
    budget = Budget(most)
    return {"list_hook": budget, "object_hook": budget}


def unpack(data: bytes, **options: Any) -> Any:
    """The one object of msgpack in `data`; `options` are those of `msgpack.unpackb`.

    Raises:
        ValueError: there is none, or something follows it: that is a `msgpack.ExtraData`.
    """
    try:
        if len(data) > _CHECKED_BYTES:
            # An array may say that it has more items than there are bytes, and so may each array within: msgpack makes
            # room for all of them before it looks.
            unpacker = msgpack.Unpacker(max_buffer_size=len(data))
            unpacker.feed(data)
            unpacker.skip()
        return msgpack.unpackb(data, **options, **hooks(len(data)))
    except msgpack.UnpackException as refusal:
        raise ValueError(str(refusal) or "incomplete input") from refusal


def is_nested_deeply(unpacked: object, most: int = MAX_NESTING) -> bool:
    """Tell whether an unpacked object has more than `most` levels."""
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
