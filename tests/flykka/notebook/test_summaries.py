"""Streams and environments have displays with their inputs, their progress, and the next possible calls."""

from __future__ import annotations

import pytest

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.summary import Summary
from tests.flykka.notebook.html_reader import Reader

BIDS = "price long, at timestamp"


def bids_source(env: StreamExecutionEnvironment) -> DataStream:
    source = FileSource.parquet("/bids", schema=BIDS, event_time="at").monitor_continuously("1s")
    return env.from_source(source, WatermarkStrategy.for_bounded_out_of_orderness("10s").with_idleness("1min"), "bids")


@pytest.mark.spark
def test_a_stream_lists_its_columns_source_watermark_and_operators(env: StreamExecutionEnvironment) -> None:
    assert repr(bids_source(env).where("price > 1")).splitlines() == [
        "DataStream of where(price > 1)",
        "  columns     price bigint, at timestamp",
        "  event time  at",
        "  source      bids, watermark 10.0 s behind the latest row, idle after 1 min 0 s",
        "  operators   bids, where(price > 1)",
        "  next        preview() shows first rows; where, select, key_by, ... continue; sink_to(...) ends it",
    ]


@pytest.mark.spark
def test_a_stream_that_lost_its_event_time_is_marked(env: StreamExecutionEnvironment) -> None:
    assert "  event time  none: windows need" in repr(bids_source(env).select("price"))


@pytest.mark.spark
def test_an_environment_lists_its_program_and_the_next_calls(env: StreamExecutionEnvironment) -> None:
    env.enable_checkpointing("10s").set_checkpoint_dir("/checkpoints")
    empty = repr(env)
    stream = bids_source(env)
    begun = repr(env)
    stream.sink_to(FileSink.parquet("/out"))

    assert "  checkpoints every 10.0 s, in /checkpoints" in empty
    assert "  jobs        none is running" in empty
    assert "  next        from_source(...) begins a stream" in empty
    assert "sink_to(...) ends it" in begun
    assert "  next        execute_async('name') submits it" in repr(env)


@pytest.mark.spark
def test_a_closed_environment_is_marked_without_a_spark_call(env: StreamExecutionEnvironment) -> None:
    env.close()

    assert repr(env).startswith("StreamExecutionEnvironment, closed\n")


def test_a_summary_is_a_table_with_escaped_names() -> None:
    summary = Summary(title="<script>", facts=(("next", "<b>"),), columns=(("<i>", "bigint"),))

    picture = Reader(summary.html())

    assert picture.rows == [["columns", "<i> bigint"], ["next", "<b>"]]
    assert "<script>" in picture.text
    assert picture.tags.isdisjoint({"script", "b", "i"})
