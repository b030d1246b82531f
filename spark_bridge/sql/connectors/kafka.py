"""Tables of Kafka topics: records whose values are in a format. Options `kafka.*` are librdkafka's properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from pyspark.sql.types import StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.connectors.kafka.avro import AvroFormat
from flykka.spark_bridge.connectors.kafka.formats import (
    CsvFormat,
    DebeziumJsonFormat,
    JsonFormat,
    OnCorrupt,
    RawFormat,
    ValueFormat,
)
from flykka.spark_bridge.connectors.kafka.offsets import OffsetsInitializer
from flykka.spark_bridge.connectors.kafka.reading import METADATA
from flykka.spark_bridge.connectors.kafka.sink import KafkaSink
from flykka.spark_bridge.connectors.kafka.source import KafkaSource
from flykka.spark_bridge.sql.connectors.table_connector import (
    PRIMARY_KEY,
    Declared,
    OptionError,
    TableConnector,
    TableSink,
)

_SERVERS = "bootstrap.servers"
_CHANGES = "debezium-json"
_FORMATS = ("json", "csv", "raw", "avro", _CHANGES)
_CHANGE = ("row_kind", "ts_ms")


def _source(declared: Declared) -> KafkaSource | None:
    _check_keys(declared)
    options = declared.options
    servers, properties = _cluster(declared)
    topics, pattern = options.names("topic"), options.text("topic_pattern")
    if pattern is not None:
        source = KafkaSource.of_topic_pattern(servers, pattern, **properties)
    else:
        source = KafkaSource.of_topics(servers, *(topics or (options.required("topic", "orders"),)), **properties)
    source = source.values(_format(declared)).with_metadata(*options.names("metadata"))
    if (offsets := options.text("start_from")) is not None:
        source = source.start_from(_offsets(offsets, "start_from"))
    if (offsets := options.text("bounded")) is not None:
        source = source.bounded(_offsets(offsets, "bounded"))
    if (group := options.text("group_id")) is not None:
        source = source.group_id(group)
    if (rate := options.rate("rate_limit")) is not None:
        source = source.rate_limit(rate)
    if (interval := options.text("discover_partitions_every")) is not None:
        source = source.discover_partitions_every(interval)
    return source.align_partitions() if options.flag("align_partitions") else source


def _sink(declared: Declared) -> TableSink:
    servers, properties = _cluster(declared)
    topic = declared.options.required("topic", "orders")
    sink = KafkaSink.to_topic(servers, topic, **properties)
    if (guarantee := declared.options.text("delivery_guarantee")) is not None:
        sink = sink.delivery_guarantee(guarantee)
    return TableSink(sink=sink, encoded=_encoded(declared))


def _check_keys(declared: Declared) -> None:
    if declared.primary_key and _format_name(declared) != _CHANGES:
        raise OptionError(
            "PRIMARY KEY has no meaning for records, which are only added: leave it out. To read changes, use the"
            f" format '{_CHANGES}'",
            PRIMARY_KEY,
        )


def _cluster(declared: Declared) -> tuple[str, dict[str, str]]:
    servers = declared.options.required(f"kafka.{_SERVERS}", "localhost:9092")
    properties = declared.options.with_prefix("kafka.")
    return servers, {key.replace(".", "_"): text for key, text in properties.items() if key != _SERVERS}


def _offsets(text: str, option: str) -> OffsetsInitializer:
    word, _, behind = text.partition(":")
    initializers: dict[str, Callable[[], OffsetsInitializer]] = {
        "earliest": OffsetsInitializer.earliest,
        "latest": OffsetsInitializer.latest,
        "committed": lambda: OffsetsInitializer.committed_offsets(behind or "none"),
        "timestamp": lambda: OffsetsInitializer.timestamp(int(behind)),
    }
    if word not in initializers:
        raise OptionError(
            f"the option {option!r} must be earliest, latest, committed (or committed:earliest, to start at the"
            f" earliest offset if the group has none) or timestamp:1767225600000, not {text!r}",
            option,
        )
    return initializers[word]()


def _format(declared: Declared) -> ValueFormat:
    options, columns = declared.options, declared.required_columns()
    own = StructType([field for field in columns if field.name not in options.names("metadata")])
    text = options.text("on_corrupt") or "fail"
    corrupt = next((each for each in get_args(OnCorrupt) if each == text), None)
    if corrupt is None:
        raise OptionError(f"the option 'on_corrupt' is fail, skip or keep, not {text!r}", "on_corrupt")
    match _format_name(declared):
        case "json":
            return JsonFormat(own, on_corrupt=corrupt)
        case "csv":
            return CsvFormat(own, sep=options.text("sep") or ",", on_corrupt=corrupt)
        case "avro":
            schema = options.required("avro_schema", '{"type": "record", ...}')
            return AvroFormat(schema, registry_header=options.flag("registry_header"), on_corrupt=corrupt)
        case other if other == _CHANGES:
            table = StructType([field for field in own if field.name not in _CHANGE])
            return DebeziumJsonFormat(table, on_corrupt=corrupt)
    return RawFormat(text="value" in own.names and own["value"].dataType.simpleString() == "string")


def _format_name(declared: Declared) -> str:
    format_name = declared.options.required("format", "json").lower()
    if format_name not in _FORMATS:
        raise OptionError(f"the option 'format' is one of {', '.join(_FORMATS)}, not {format_name!r}", "format")
    return format_name


def _encoded(declared: Declared) -> tuple[str, ...]:
    """Return the encoded value, and the columns for other fields of a Kafka record, such as its key and headers."""
    name, columns = _format_name(declared), declared.required_columns().names
    if name == "raw":
        return ()
    beside = [column for column in columns if column in declared.options.names("metadata") and column in METADATA]
    listed = ", ".join(quoted(column) for column in columns if column not in beside)
    if name == "csv":
        sep = (declared.options.text("sep") or ",").replace("'", "\\'")
        value = f"to_csv(struct({listed}), map('sep', '{sep}'))"
    elif name == "json":
        value = f"to_json(struct({listed}))"
    else:
        raise OptionError(f"records are written as json, csv or raw, not as {name}")
    return (f"{value} AS value", *(quoted(column) for column in beside))


KAFKA = TableConnector(
    name="kafka",
    options=(
        "kafka.",
        "topic",
        "topic_pattern",
        "format",
        "on_corrupt",
        "sep",
        "avro_schema",
        "registry_header",
        "metadata",
        "start_from",
        "bounded",
        "group_id",
        "rate_limit",
        "align_partitions",
        "discover_partitions_every",
        "delivery_guarantee",
    ),
    source=_source,
    sink=_sink,
    has_keys=True,
)
