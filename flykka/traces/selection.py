"""Selection of records of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from typing import Final

from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.records import DeadLetterRecord, Record, Turn
from flykka.runtime.trace.text import message_name, message_tag

KINDS: Final = {
    "heartbeats": ("Heartbeat*",),
    "metrics": ("*Metrics*",),
    "credits": ("AddCredit", "BacklogAnnouncement"),
}
"""Groups of frequent messages that are rarely of interest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Criteria for records. Patterns may contain `*` and `?`. Actors are selected by path, with or without `/user/`."""

    actor: str | None = None
    type: str | None = None
    without: tuple[str, ...] = ()
    first: int | None = None
    last: int | None = None
    limit: int | None = None

    def select(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the matching records. The input must be in start order. Reading ends with the last selected turn."""
        last = self.last
        before = records if last is None else takewhile(lambda record: record.sequence <= last, records)
        return islice(filter(self._wants, before), self.limit)

    def _wants(self, record: Record) -> bool:
        return (
            (self.first is None or record.sequence >= self.first)
            and (self.actor is None or is_at(recipient_of(record), self.actor))
            and (self.type is None or has_type(record, self.type))
            and not any(has_type(record, pattern) for pattern in self.without)
        )


class CountingIterator:
    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.count += 1
            yield record


def is_at(ref: Ref, pattern: str) -> bool:
    """Return whether an actor has this path. `/user/` may be omitted."""
    return fnmatchcase(ref.path, pattern if pattern.startswith("/") else f"/user/{pattern}")


def patterns_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns for names of `KINDS`. Any other name is a pattern of a message's class or tag."""
    return tuple(pattern for name in names for pattern in KINDS.get(name, (name,)))


def has_type(record: Record, pattern: str) -> bool:
    """Return whether the message of a record has this class or this tag."""
    if not isinstance(record, Turn | DeadLetterRecord):
        return False
    names = (message_name(record.message), message_tag(record.message))
    return any(fnmatchcase(name, pattern) for name in names)
