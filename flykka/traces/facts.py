"""Facts of a message, of a class that this process knows or of another: its name, its tag and its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.messages.control.high_availability import LeaderSessionMessage
from flykka.messages.wire.forms import TAG_KEY
from flykka.messages.wire.message import Value
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.text import wire_fields


class Facts:
    """A message, or a value within one. Of one that is not known here the fields are as they stand on the wire."""

    __slots__ = ("_source", "name", "tag")

    def __init__(self, source: Value | Mapping[str, Any]) -> None:
        self._source = source
        if isinstance(source, Value):
            self.tag, self.name = source.wire_tag, type(source).__name__
        else:
            self.tag = self.name = str(source.get(TAG_KEY, "?"))

    def get(self, field: str) -> Any:
        """A field, None where there is none of this name."""
        return self._source.get(field) if isinstance(self._source, Mapping) else getattr(self._source, field, None)

    def part(self, field: str) -> Facts | None:
        """A field that is a value itself."""
        found = self.get(field)
        return Facts(found) if isinstance(found, Value | Mapping) else None


def facts_of(message: Value | Undecoded | None) -> Facts | None:
    """The facts of a message, without the leader session it was said under; None where nothing of it can be read."""
    match message:
        case LeaderSessionMessage(message=said):
            return Facts(said)
        case Undecoded():
            return _unpacked(message)
        case None:
            return None
        case _:
            return Facts(message)


def _unpacked(message: Undecoded) -> Facts | None:
    fields = wire_fields(message)
    if fields.get(TAG_KEY) == LeaderSessionMessage.wire_tag and isinstance(fields.get("message"), dict):
        return Facts(fields["message"])
    return Facts(fields) if fields else None
