"""From ranges of offsets to rows: records are read by Spark's tasks in Python, and decoded by the format of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.connectors.kafka.ranges import dealt
from flykka.spark_bridge.connectors.kafka.worker import ReadRecords
from flykka.spark_bridge.rows.marks import IS_CORRUPT, PARTITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange
    from flykka.spark_bridge.connectors.kafka.source_settings import KafkaSourceSettings

RECORDS_PER_TASK = 20_000
"""With fewer a task takes longer to be started than to read."""

METADATA = {
    "key": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
}
"""The columns of a record beside its value, by the names and with the types of Spark's own source."""


def read_records(
    session: SparkSession, source: KafkaSourceSettings, schema: StructType, ranges: Sequence[OffsetRange]
) -> DataFrame:
    """The rows of records; where there is event time, with the place of each one's partition in `ranges`."""
    cores = max(1, session.sparkContext.defaultParallelism)
    records = sum(each.offsets for each in ranges)
    tasks = dealt(ranges, min(cores, max(1, -(-records // RECORDS_PER_TASK))))
    columns = _needed(source)
    work = ReadRecords(
        cluster=source.cluster, tasks=tasks, columns=columns, places={each.at: n for n, each in enumerate(ranges)}
    )
    raw = ", ".join(f"{quoted(name)} {_TYPES[name]}" for name in columns)
    numbers = session.range(0, len(tasks), 1, max(1, len(tasks)))
    of_values = StructType([field for field in schema if field.name not in source.metadata])
    decoded = source.value_format.decoded(numbers.mapInArrow(work, raw), of_values)
    marks = (IS_CORRUPT,) if source.counts_corrupt else ()
    partition = () if source.event_time is None else (PARTITION,)
    return decoded.select(*map(quoted, schema.names), *partition, *marks)


def _needed(source: KafkaSourceSettings) -> tuple[str, ...]:
    # A corrupt record is named by where it is.
    where = () if source.value_format.on_corrupt in (None, "skip") else ("topic", "partition", "offset")
    partition = () if source.event_time is None else (PARTITION,)
    return tuple(dict.fromkeys(("value", *source.metadata, *where, *partition)))


_TYPES = {**METADATA, "value": "binary", PARTITION: "int"}
