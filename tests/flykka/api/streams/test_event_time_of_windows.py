"""The event time of window results is the column `window_end` minus one millisecond, as long as the rows have that
column.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import StreamTypeError
from flykka.messages.graph.job_graph import CheckpointingSettings, FiringMode
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark


def bids_per_hour(spark: SparkSession, program: Program | None = None) -> DataStream:
    return bids(spark, program).key_by("auction").window(HOURS).aggregate(F.count("*").alias("bids"))


def test_window_results_show_their_event_time(spark: SparkSession) -> None:
    assert "window_end -1 ms" in repr(bids_per_hour(spark))


def test_the_event_time_follows_its_column(spark: SparkSession) -> None:
    renamed = bids_per_hour(spark).with_column_renamed("window_end", "until")

    again = renamed.key_by("auction").window(HOURS).aggregate(F.max("bids"))

    assert "until -1 ms" in repr(renamed)
    assert again.columns == ["window_start", "window_end", "auction", "max(bids)"]


def test_results_without_window_end_have_no_event_time(spark: SparkSession) -> None:
    dropped = bids_per_hour(spark).drop("window_end")

    with pytest.raises(StreamTypeError, match=r"gives no event time to window by: .* has dropped"):
        dropped.key_by("auction").window(HOURS)


def test_a_union_of_windows_has_their_event_time(spark: SparkSession) -> None:
    program = Program()
    hours, others = bids_per_hour(spark, program), bids_per_hour(spark, program)

    both = hours.union(others)

    assert "window_end -1 ms" in repr(both)


def test_only_the_last_windows_of_a_chain_fire_on_checkpoints(spark: SparkSession) -> None:
    program = Program()
    again = (
        bids_per_hour(spark, program)
        .uid("first")
        .key_by("auction")
        .window(HOURS)
        .aggregate(F.max("bids"))
        .uid("second")
    )
    again.sink_to(FileSink.parquet("/most"))

    graph = job_graph(
        stream_graph(program.transformations, CodeRegistry(), Defaults()),
        job_id=JobId("job"),
        name="job",
        checkpointing=CheckpointingSettings(directory="/checkpoints"),
        heartbeat_interval_ms=1,
        heartbeat_timeout_ms=2,
    )

    assert {vertex.operators[0].ref.uid: vertex.firing_mode for vertex in graph.vertices} == {
        "source-1": FiringMode.ON_WATERMARK,
        "first": FiringMode.ON_WATERMARK,
        "second": FiringMode.ON_CHECKPOINT,
    }
