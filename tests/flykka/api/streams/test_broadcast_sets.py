"""Broadcast variables: invalid uses fail on their own line, and valid uses become edges of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from flykka import (
    ConsoleSink,
    DataStream,
    FileSource,
    FunctionRuntimeContext,
    ProcessFunction,
    RichFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ScheduleMode

pytestmark = pytest.mark.spark
Env = StreamExecutionEnvironment


class Rated(ProcessFunction):
    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.rates = runtime_context.get_broadcast_variable("rates")

    def process_element(self, row: dict[str, Any], ctx: object) -> Iterator[dict[str, Any]]:
        yield row


class Counted(RichFunction):
    schema = "id long, rates int"

    def open(self, context: RuntimeContext) -> None:
        self.rates = context.get_broadcast_variable("rates")

    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("rates", F.lit(sum(row["id"] for row in self.rates)).cast("int"))


def stream_of_numbers(env: Env, count: int = 3) -> DataStream:
    return env.from_dataframe(env.spark.range(count))


def rated(env: Env) -> DataStream:
    return stream_of_numbers(env).process(Rated(), "id long")


def endless(env: Env, folder: Path) -> DataStream:
    return env.from_source(FileSource.json(str(folder), schema="id long").monitor_continuously("1s"), None, "arriving")


def twice(env: Env) -> DataStream:
    return (
        rated(env)
        .with_broadcast_set(stream_of_numbers(env), "rates")
        .with_broadcast_set(stream_of_numbers(env), "rates")
    )


def no_stream(env: Env) -> DataStream:
    return rated(env).with_broadcast_set([1], "rates")  # type: ignore[arg-type]


def self_broadcast(env: Env) -> DataStream:
    stream = rated(env)
    return stream.with_broadcast_set(stream.where("id > 1"), "rates")


@pytest.mark.parametrize(
    ("write", "refusal"),
    [
        (
            twice,
            r"'rates'\) of process\(Rated\): the operator already has a broadcast variable of this name",
        ),
        (self_broadcast, "the operator would wait for a broadcast variable that is computed from its own rows"),
        (
            lambda env: rated(env).with_broadcast_set(stream_of_numbers(env), " "),
            "must be a non-empty text, not ' '",
        ),
        (no_stream, r"takes a stream, not \[1\]"),
        (
            lambda env: stream_of_numbers(env).with_broadcast_set(stream_of_numbers(env), "rates"),
            "it has no function that could read",
        ),
        (
            lambda env: stream_of_numbers(env).where("id > 0").with_broadcast_set(stream_of_numbers(env), "rates"),
            "use process.*, a window",
        ),
    ],
)
def test_invalid_broadcast_variables_are_refused(env: Env, write: Callable[[Env], object], refusal: str) -> None:
    with pytest.raises(ProgramError, match=refusal):
        write(env)


def test_an_unbounded_broadcast_variable_is_refused_with_its_source(env: Env, tmp_path: Path) -> None:
    with pytest.raises(
        ProgramError, match=r"the source arriving \(.*test_broadcast_sets.py:\d+\) has no end: .*connect"
    ):
        rated(env).with_broadcast_set(endless(env, tmp_path).where("id > 0"), "rates")


def test_a_stream_with_other_consumers_is_refused_only_in_streaming_mode(env: Env) -> None:
    rates = stream_of_numbers(env).where("id > 0").uid("rates")
    rated(env).uid("rated").with_broadcast_set(rates, "rates").sink_to(ConsoleSink()).uid("out")
    rates.sink_to(ConsoleSink()).uid("also")

    with pytest.raises(ProgramError, match=r"rows of 'rates' become .* of 'rated', and 'also' reads them as well"):
        env.get_job_graph()
    env.set_runtime_mode("BATCH").get_job_graph()


def test_a_reader_starts_when_the_broadcast_variable_is_complete(env: Env) -> None:
    reader = rated(env).uid("rated")
    reader.sink_to(ConsoleSink())
    reader.with_broadcast_set(stream_of_numbers(env).where("id > 0"), "rates")

    graph = env.get_job_graph()

    assert graph.schedule_mode is ScheduleMode.PIPELINED_REGION
    (read,) = (vertex.inputs for vertex in graph.vertices if vertex.operators[0].ref.uid == "rated")
    assert [edge.broadcast_variable for edge in read] == [None, "rates"]


def test_a_preview_computes_broadcast_variables_from_the_first_rows(env: Env) -> None:
    counted = stream_of_numbers(env).transform(Counted()).with_broadcast_set(stream_of_numbers(env, 4), "rates")

    assert counted.preview().to_dict("list") == {"id": [0, 1, 2], "rates": [6, 6, 6]}
