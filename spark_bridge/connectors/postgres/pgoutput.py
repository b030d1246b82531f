"""Parses the messages of pgoutput, PostgreSQL's built-in decoding plugin (logical replication protocol 1).

A transaction is sent as a unit after its commit: `B`, its changes, `C`. Before the first change of a table, `R`
describes its columns. Values are texts. A large value that an update has not changed is omitted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from flykka.spark_bridge.functions.times import in_ms

EPOCH_MS = 946_684_800_000
"""The start of PostgreSQL's time, the year 2000, in ms since the epoch."""

_XIDS = 1 << 32


class AbsentValue(Enum):
    UNCHANGED = "unchanged"


Value = str | None | AbsentValue
Values = tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTable:
    """A table at the time of a write. `places` are the indexes of its columns in a row, `types` are their types.

    For a changed or deleted row the log contains the values of the `identity` columns.
    """

    oid: int
    schema: str
    name: str
    places: Mapping[str, int]
    types: Mapping[str, tuple[int, int]]
    identity: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTransaction:
    """A transaction: the position of its commit in the log, its time in ms, and its id without the epoch."""

    commit_lsn: int
    at_ms: int
    xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedChange:
    """`before` is set if the table's replica identity includes it, `after` unless the row was deleted."""

    transaction: LoggedTransaction
    relation: LoggedTable
    lsn: int
    is_insert: bool
    before: Values | None
    after: Values | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    transaction: LoggedTransaction
    lsn: int
    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleTransactions:
    """The transactions visible in a snapshot: all with ids below `behind`, except for the `running` transactions."""

    behind: int
    running: frozenset[int] = frozenset()

    @classmethod
    def of(cls, snapshot: str) -> Self:
        """Parse a snapshot from `pg_current_snapshot()`: `xmin:xmax:xip,...`."""
        _, behind, running = snapshot.split(":")
        return cls(behind=int(behind), running=frozenset(int(each) for each in running.split(",") if each))

    def __contains__(self, xid: int) -> bool:
        # The log only has the last 32 bits of an id. This is the nearest id with these bits.
        whole = self.behind + (xid - self.behind + _XIDS // 2) % _XIDS - _XIDS // 2
        return whole < self.behind and whole not in self.running


def changes(messages: Iterable[tuple[int, bytes]]) -> Iterator[LoggedChange | Truncation]:
    relations: dict[int, LoggedTable] = {}
    transaction: LoggedTransaction | None = None
    for lsn, data in messages:
        message = _Message(data)
        match message.letter():
            case "B":
                commit_lsn, at_us, xid = message.unpack(_BEGIN)
                transaction = LoggedTransaction(commit_lsn=commit_lsn, at_ms=in_ms(at_us) + EPOCH_MS, xid=xid)
            case "R":
                relation = message.relation()
                relations[relation.oid] = relation
            case "I" | "U" | "D" as kind:
                assert transaction is not None, "the log contains a change outside of a transaction"
                (oid,) = message.unpack(_OID)
                before, after = message.tuples(kind)
                yield LoggedChange(
                    transaction=transaction,
                    relation=relations[oid],
                    lsn=lsn,
                    is_insert=kind == "I",
                    before=before,
                    after=after,
                )
            case "T":
                assert transaction is not None, "the log contains a truncation outside of a transaction"
                yield Truncation(transaction=transaction, lsn=lsn, oids=message.truncated())
            case _:
                # Commits, origins and types are no changes of rows.
                pass


_BEGIN: Final = struct.Struct("!qqI")
_OID: Final = struct.Struct("!I")
_SHORT: Final = struct.Struct("!h")
_LENGTH: Final = struct.Struct("!i")
_TYPE: Final = struct.Struct("!Ii")
_TRUNCATE: Final = struct.Struct("!IB")
_OF_IDENTITY: Final = 1


class _Message:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def letter(self) -> str:
        self._at += 1
        return chr(self._data[self._at - 1])

    def unpack(self, layout: struct.Struct) -> Sequence[int]:
        values = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return values

    def relation(self) -> LoggedTable:
        (oid,) = self.unpack(_OID)
        schema, name = self._text(), self._text()
        self._at += 1
        (number,) = self.unpack(_SHORT)
        types: dict[str, tuple[int, int]] = {}
        identity: set[str] = set()
        for _ in range(number):
            flags = self._data[self._at]
            self._at += 1
            column = self._text()
            kind, modifier = self.unpack(_TYPE)
            types[column] = kind, modifier
            if flags & _OF_IDENTITY:
                identity.add(column)
        places = {column: place for place, column in enumerate(types)}
        return LoggedTable(oid=oid, schema=schema, name=name, places=places, types=types, identity=frozenset(identity))

    def truncated(self) -> tuple[int, ...]:
        number, _ = self.unpack(_TRUNCATE)
        return tuple(self.unpack(_OID)[0] for _ in range(number))

    def tuples(self, kind: str) -> tuple[Values | None, Values | None]:
        before: Values | None = None
        letter = self.letter()
        is_whole = letter == "O"
        if letter in "KO":
            before = self._values()
            if kind == "D":
                return before, None
            letter = self.letter()
        assert letter == "N", f"expected a new row (N), but got {letter}"
        after = self._values()
        if before is not None and is_whole:
            after = tuple(old if new is AbsentValue.UNCHANGED else new for old, new in zip(before, after, strict=True))
        return before, after

    def _values(self) -> Values:
        (number,) = self.unpack(_SHORT)
        values: list[Value] = []
        for _ in range(number):
            match self.letter():
                case "n":
                    values.append(None)
                case "u":
                    values.append(AbsentValue.UNCHANGED)
                case _:
                    (length,) = self.unpack(_LENGTH)
                    values.append(self._data[self._at : self._at + length].decode())
                    self._at += length
        return tuple(values)

    def _text(self) -> str:
        end = self._data.index(0, self._at)
        text = self._data[self._at : end].decode()
        self._at = end + 1
        return text
