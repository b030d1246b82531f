"""Queries over bids that exist only as a schema, and a program that they are written into."""

from __future__ import annotations

from pyspark.sql import SparkSession

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.api.streams.sources import source_stream
from flykka.api.streams.watermark_strategy import WatermarkStrategy
from flykka.api.table.sql_verbs import SqlVerbs
from flykka.client.job_client import JobClient
from flykka.spark_bridge.program.source import Source
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

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        return source_stream(self._program, self._session, source, watermark_strategy, name, uid)

    def execute_async(self, job_name: str = "flykka job", *, attached: bool = True) -> JobClient:
        raise AssertionError(f"the job {job_name} is not to run here")

    def operators(self, query: str) -> list[str]:
        """The operators that a query becomes, behind the sources, as EXPLAIN tells them."""
        numbered = [line.strip() for line in self.explain_sql(query).splitlines() if line.startswith("  ")]
        named = [line for line in numbered if line[0].isdigit()]
        return [line.split(". ", 1)[1].split("  <- ")[0] for line in named if not line.endswith(". bids")]
