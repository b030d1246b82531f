"""Packed messages as values, once for equal ones."""

from __future__ import annotations

from flykka.messages.wire.codec import decode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Value
from flykka.runtime.trace.effects import Undecoded

_KEPT = 4096
_KEPT_BYTES = 1024
"""So many values are kept, of messages that are no larger: heartbeats and the like are the same again and again."""


class Decoding:
    """Keeps what it has decoded lately. The values are immutable, so that records may share them."""

    def __init__(self) -> None:
        self._kept: dict[bytes | str, Value | Undecoded] = {}

    def value(self, packed: bytes | str) -> Value | Undecoded:
        """The message, or why there is none."""
        found = self._kept.get(packed)
        if found is None:
            found = _value(packed)
            if len(packed) <= _KEPT_BYTES:
                if len(self._kept) >= _KEPT:
                    self._kept.clear()
                self._kept[packed] = found
        return found

    def failure(self, packed: bytes | str) -> SerializedThrowable:
        """A failure, in whatever state its record is."""
        found = self.value(packed)
        if isinstance(found, SerializedThrowable):
            return found
        reason = found.reason if isinstance(found, Undecoded) else f"not the record of a failure: {found}"
        return SerializedThrowable(type_name="Undecoded", message=reason)


def _value(packed: bytes | str) -> Value | Undecoded:
    if isinstance(packed, str):
        return Undecoded(data=b"", reason=packed)
    try:
        return decode(packed)
    except CodecError as refusal:
        # A class that is not imported here, or of another version: the turn is worth showing all the same.
        return Undecoded(data=packed, reason=str(refusal))
