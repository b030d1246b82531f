"""Tests that the example connector passes the connector tests."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import count

import pytest

from examples.sqlite_connector import SqliteSink, SqliteSource
from flykka.connectors.testing import Row, SourceContract
from tests.spark_bridge.connectors.contracts import ShorterSinkContract

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Table:
    def __init__(self, path: str) -> None:
        self.path = path
        self._do("CREATE TABLE IF NOT EXISTS orders (id INTEGER, name TEXT)")

    def insert(self, rows: Sequence[Row]) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany("INSERT INTO orders VALUES (?, ?)", rows)

    def rows(self) -> list[Row]:
        return self._do("SELECT id, name FROM orders")

    def _do(self, statement: str, *values: object) -> list[Row]:
        with closing(sqlite3.connect(self.path)) as database, database:
            return database.execute(statement, values).fetchall()


class TestSqliteSink(ShorterSinkContract):
    def sink(self) -> SqliteSink:
        return SqliteSink(self._table().path, "orders")

    def published(self) -> list[Row]:
        return self._table().rows()

    def _table(self) -> Table:
        return Table(str(self.folder / "orders.db"))


class TestSqliteSource(SourceContract):
    _numbers = count()

    def source(self) -> SqliteSource:
        return SqliteSource(self._table().path, "orders", "id long, name string")

    def add(self, rows: Sequence[Row]) -> None:
        self._table().insert(rows)

    def rows(self) -> list[Row]:
        return [(number, f"row {number}") for number in (next(self._numbers) for _ in range(3))]

    def _table(self) -> Table:
        return Table(str(self.folder / "orders.db"))
