"""Random tables: rows in files that arrive one after the other, and the current rows at the end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

TYPES = {
    "id": "bigint",
    "k": "string",
    "g": "int",
    "x": "double",
    "d": "decimal(10,2)",
    "s": "string",
    "at": "timestamp",
    "seen": "timestamp",
    "b": "boolean",
    "day": "date",
}

_ARROW = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "int": pa.int32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "timestamp": pa.timestamp("us", "UTC"),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
_NAMES = ("a.{}", "two {}", "t`{}", "größe🐟{}", "1{}", "it's {}", 'say "{}"', "100% {}", "back\\{}", "SELECT {}")
ROW_KIND = "row_kind"
MINUTE = 60_000_000


def micros(text: str) -> int:
    since = datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
BEGINS = tuple(
    micros(text)
    for text in (
        "2026-01-01T00:00",
        "2024-03-31T00:30",  # Clocks in Berlin go forward at one o'clock UTC, and back at one o'clock in October.
        "2024-10-27T00:30",
        "2024-11-03T05:30",  # Clocks in New York go back at six o'clock UTC.
        "1969-12-31T23:40",
    )
)
EDGES = tuple(
    micros(text)
    for text in (
        "0001-01-01T00:00",
        "1582-10-10T12:00",
        "1899-12-31T23:59:59.999999",
        "1969-12-31T23:59:59.999999",
        "1970-01-01T00:00",
        "2024-03-31T00:59:59.999999",
        "2024-03-31T01:00",
        "2024-10-27T00:30",
        "2024-10-27T01:30",
        "2038-01-19T03:14:08",
        "9999-12-31T23:59:59.999999",
    )
)
DAYS = tuple((date.fromisoformat(day) - date(1970, 1, 1)).days for day in ("0001-01-01", "1969-12-31", "2024-02-29"))
KEYS = ("a", "b", "A", "", " ", "größe🐟", None)
TEXTS = ("", "a", "null", "NULL", " x ", "it's", 'say "so"', "a,b", "l1\nl2", "\\", "%_", "ß", "🐟", None)
NUMBERS = (0.0, -0.0, 0.25, -1.5, 2.75, 1024.5, float("nan"), None)
DECIMALS = tuple(
    None if text is None else Decimal(text) for text in ("0.00", "0.01", "-0.01", "9999.99", "-2.50", None)
)


@dataclass(frozen=True)
class Table:
    """A table of a seed: its columns, named by their roles, and its files in arrival order."""

    name: str
    columns: dict[str, str]
    files: tuple[tuple[Row, ...], ...]
    primary_key: bool = False
    late: frozenset[int] = frozenset()
    """The ids of rows far behind the watermark; the bound of out-of-orderness is small then."""

    @property
    def bound(self) -> str:
        return "1min" if self.late else "21min"

    @property
    def own_schema(self) -> pa.Schema:
        return pa.schema([(name, _ARROW[TYPES[role]]) for role, name in self.columns.items()])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the files, with a row-kind column if rows may be deleted."""
        return self.own_schema.append(pa.field(ROW_KIND, pa.string())) if self.has_kinds else self.own_schema

    @property
    def ddl(self) -> str:
        types = {name.replace("`", "``"): TYPES[role] for role, name in self.columns.items()}
        return ", ".join(
            f"`{name}` {type_}" for name, type_ in (types | ({ROW_KIND: "string"} if self.has_kinds else {})).items()
        )

    @property
    def has_kinds(self) -> bool:
        """True if rows may be deleted."""
        return self.primary_key and any(ROW_KIND in row for file in self.files for row in file)

    def final_rows(self) -> list[Row]:
        """Return the current rows at the end, without late rows."""
        rows = [row for file in self.files for row in file]
        own = self.columns["id"]
        if self.primary_key:
            newest = {row[own]: row for row in rows if row.get(ROW_KIND) != "-U"}
            return [row for row in newest.values() if row.get(ROW_KIND) != "-D"]
        return [row for row in rows if row[own] not in self.late]

    def log(self) -> list[Row]:
        rows = [row for file in self.files for row in file if row.get(ROW_KIND) != "-U"]
        return [{**row, "place": place, "is_deletion": row.get(ROW_KIND) == "-D"} for place, row in enumerate(rows)]

    def of_files(self, files: tuple[tuple[Row, ...], ...]) -> Table:
        """Return the table with some of its rows: late rows still follow one in time, and `-U` precedes `+U`."""
        own, late, is_begun = self.columns["id"], set(), False
        files = tuple(self._without_halves(files))
        for file in files:
            late |= {row[own] for row in file if is_begun and row[own] in self.late}
            is_begun = is_begun or any(row[own] not in late for row in file)
        return replace(self, files=files, late=frozenset(late))

    def _without_halves(self, files: tuple[tuple[Row, ...], ...]) -> Iterator[tuple[Row, ...]]:
        """Yield the files without a `-U` that has no earlier row, or no following `+U` with the same key."""
        own, there, halves = self.columns["id"], dict[int, Row](), set[int]()
        rows = [row for file in files for row in file]
        for row, behind in zip(rows, [*rows[1:], {}], strict=False):
            key, kind = row[own], row.get(ROW_KIND)
            before = there.pop(key, None)
            if kind == "-U" and (row != before or (behind.get(own), behind.get(ROW_KIND)) != (key, "+U")):
                halves.add(id(row))
            if kind != "-D":
                there[key] = before if id(row) in halves and before else {**row, ROW_KIND: "-U"}
        for file in files:
            yield tuple(row for row in file if id(row) not in halves)

    def in_time(self) -> Table:
        own = self.columns["id"]
        return replace(
            self, files=tuple(tuple(row for row in file if row[own] not in self.late) for file in self.files)
        )


def write_file(table: Table, rows: tuple[Row, ...] | list[Row], path: Path) -> None:
    """Write rows into a file that readers see atomically.

    Dictionaries are disabled, because for `x = 0` Spark skips files whose dictionary only has -0.0, even in a batch.
    """
    hidden = path.with_name(f".{path.name}")
    pq.write_table(pa.Table.from_pylist(list(rows), table.schema), hidden, use_dictionary=False)
    hidden.rename(path)


def draw_tables(chance: random.Random) -> tuple[Table, ...]:
    """Draw two append-only tables, one of them with late rows, and two tables whose rows change."""
    begin = chance.choice(BEGINS)
    stay = [_table(chance, name, begin) for name in ("t", "u")]
    change = [_changing(chance, name, begin) for name in ("c", "e")]
    return (*stay, _with_late_rows(chance, begin), *change)


def _table(chance: random.Random, name: str, begin: int) -> Table:
    columns = _columns(chance)
    rows = [_row(chance, columns, number, begin) for number in range(chance.randrange(6, 16))]
    return Table(name=name, columns=columns, files=_files(chance, rows))


def _with_late_rows(chance: random.Random, begin: int) -> Table:
    columns = _columns(chance)
    files: list[tuple[Row, ...]] = []
    late: set[int] = set()
    number = 0
    for place in range(3):
        rows: list[Row] = []
        for _ in range(chance.randrange(2, 6)):
            row = _row(chance, columns, number, begin)
            # The last row of a file is always in time, and advances the watermark.
            at = begin + place * 30 * MINUTE + chance.randrange(60) * 1_000_000
            if place and rows and chance.random() < 0.3:
                at -= 24 * 60 * MINUTE
                late.add(number)
            rows.append({**row, columns["at"]: at})
            number += 1
        rows.append({**_row(chance, columns, number, begin), columns["at"]: begin + place * 30 * MINUTE + MINUTE})
        number += 1
        files.append(tuple(rows))
    late.add(number)
    files.append(({**_row(chance, columns, number, begin), columns["at"]: begin - 48 * 60 * MINUTE},))
    return Table(name="l", columns=columns, files=tuple(files), late=frozenset(late))


def _changing(chance: random.Random, name: str, begin: int) -> Table:
    columns, has_kinds = _columns(chance), chance.random() < 0.6
    living: dict[int, Row] = {}
    rows = []
    for place in range(chance.randrange(8, 18)):
        number = chance.randrange(5)
        row = _row(chance, columns, number, begin, place)
        row[columns["at"]] = row[columns["at"]] or begin + 10 * MINUTE * place
        if has_kinds:
            before = living.pop(number, None)
            kind = chance.choice(("+U", "+U", "-U", "-D")) if before else "+I"
            if before and kind == "-U":
                rows.append({**before, ROW_KIND: "-U"})
                kind = "+U"
            row[ROW_KIND] = kind
            if kind != "-D":
                living[number] = row
        rows.append(row)
    return Table(name=name, columns=columns, files=_files(chance, rows), primary_key=True)


def _columns(chance: random.Random) -> dict[str, str]:
    return {role: chance.choice(_NAMES).format(role) if chance.random() < 0.3 else role for role in TYPES}


def _row(chance: random.Random, columns: dict[str, str], number: int, begin: int, place: int | None = None) -> Row:
    """Draw a row whose time is out of order by less than 21 minutes."""
    at = begin + 10 * MINUTE * (number if place is None else place) + chance.randrange(21) * MINUTE
    values = {
        "id": number,
        "k": chance.choice(KEYS),
        "g": chance.choice((0, 1, 2, 3, -1, None)),
        "x": chance.choice(NUMBERS),
        "d": chance.choice(DECIMALS),
        "s": chance.choice(TEXTS),
        "at": None if chance.random() < 0.05 else at - chance.choice((0, 1, 999_999)),
        "seen": chance.choice((None, *EDGES)),
        "b": chance.choice((True, False, None)),
        "day": chance.choice((None, *DAYS)),
    }
    return {columns[role]: value for role, value in values.items()}


def _files(chance: random.Random, rows: list[Row]) -> tuple[tuple[Row, ...], ...]:
    cuts = sorted(chance.sample(range(1, len(rows)), chance.randrange(2, 4)))
    return tuple(tuple(rows[start:end]) for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True))
