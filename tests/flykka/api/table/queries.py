"""Queries over bids that exist only as a schema, and the program that they extend."""

from __future__ import annotations

from pyspark.sql import SparkSession

from flykka.api.environment import StreamExecutionEnvironment
from flykka.client.client_actor import Attached
from flykka.client.job_client import JobClient
from flykka.cluster.local_cluster import ClusterSettings
from tests.flykka.programs import bids


class Queries(StreamExecutionEnvironment):
    def __init__(self, session: SparkSession) -> None:
        super().__init__(session, ClusterSettings())
        self.create_temporary_view("bid", bids(session, self.program))
        self.create_temporary_view("timeless", bids(session, self.program, event_time=None))

    def execute_async(self, job_name: str = "flykka job", *, attached: Attached = True) -> JobClient:
        raise AssertionError(f"the job {job_name} is not to run here")

    def operators(self, query: str) -> list[str]:
        numbered = [line.strip() for line in self.explain_sql(query).splitlines() if line.startswith("  ")]
        named = [line for line in numbered if line[0].isdigit()]
        return [line.split(". ", 1)[1].split("  <- ")[0] for line in named if not line.endswith(". bids")]
