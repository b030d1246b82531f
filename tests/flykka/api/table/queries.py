"""Queries over bids that exist only as a schema, and a program that they are written into."""

from __future__ import annotations

from pyspark.sql import SparkSession

from flykka.api.streams.program import Program
from flykka.api.table.sql_verbs import SqlVerbs
from tests.flykka.programs import bids


class Queries(SqlVerbs):
    """Views of streams of one program."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__()
        self._session, self._program = session, Program()
        self.create_temporary_view("bid", bids(session, self._program))
        self.create_temporary_view("timeless", bids(session, self._program, event_time=None))

    @property
    def spark(self) -> SparkSession:
        return self._session

    @property
    def program(self) -> Program:
        return self._program

    def operators(self, query: str) -> list[str]:
        """The operators that a query becomes, behind the sources, as EXPLAIN tells them."""
        numbered = [line.strip() for line in self.explain_sql(query).splitlines() if line.startswith("  ")]
        named = [line for line in numbered if line[0].isdigit()]
        return [line.split(". ", 1)[1].split("  <- ")[0] for line in named if not line.endswith(". bids")]
