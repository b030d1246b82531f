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
"""Kinds of messages by names of their own: there are many of these, and few tell anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Criteria of records; patterns may hold `*` and `?`. An actor is named by its path, `/user/` may be left out."""

    actor: str | None = None
    type: str | None = None
    without: tuple[str, ...] = ()
    first: int | None = None
    last: int | None = None
    limit: int | None = None

    def select(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that are wanted, of records in the order in which they began; none is read behind the last."""
        last = self.last
        before = records if last is None else takewhile(lambda record: record.sequence <= last, records)
        return islice(filter(self._wants, before), self.limit)

    def _wants(self, record: Record) -> bool:
        return (
            (self.first is None or record.sequence >= self.first)
            and (self.actor is None or is_at(recipient_of(record), self.actor))
            and (self.type is None or is_called(record, self.type))
            and not any(is_called(record, pattern) for pattern in self.without)
        )


class Counted:
    """Hands records on, and knows how many those were."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.count += 1
            yield record


def is_at(ref: Ref, pattern: str) -> bool:
    """Tell whether an actor has this path; `/user/` may be left out."""
    return fnmatchcase(ref.path, pattern if pattern.startswith("/") else f"/user/{pattern}")


def patterns_of(names: Iterable[str]) -> tuple[str, ...]:
    """The patterns that names of `KINDS` stand for; anything else is a pattern of a message's class or tag."""
    return tuple(pattern for name in names for pattern in KINDS.get(name, (name,)))


def is_called(record: Record, pattern: str) -> bool:
    """Tell whether the message of a record has this class or this tag."""
    if not isinstance(record, Turn | DeadLetterRecord):
        return False
    names = (message_name(record.message), message_tag(record.message))
    return any(fnmatchcase(name, pattern) for name in names)
