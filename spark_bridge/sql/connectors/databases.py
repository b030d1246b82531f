"""Tables of Delta Lake, Iceberg and PostgreSQL. With a PRIMARY KEY, inserted rows are upserts by this key."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeVar

from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.connectors.delta.source import DeltaSource
from flykka.spark_bridge.connectors.iceberg import IcebergSink
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.connectors.postgres.changed_table import StartupMode
from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from flykka.spark_bridge.sql.connectors.table_connector import (
    Declared,
    OptionError,
    TableConnector,
    TableOptions,
    TableSink,
)

_STARTS: tuple[StartupMode, ...] = ("initial", "latest-offset", "committed-offset")
_IGNORED: tuple[Literal["fail"], Literal["ignore"]] = ("fail", "ignore")
# Unreadable rows cannot go to a side output, because SQL tables have none.
_UNREADABLE: tuple[Literal["fail"], Literal["null"]] = ("fail", "null")

Word = TypeVar("Word", bound=str)


def _delta_source(declared: Declared) -> DeltaSource:
    options = declared.options
    source = DeltaSource.of_path(options.required("path", "/data/orders")).storage_options(
        **options.with_prefix("storage.")
    )
    if (version := options.number("version_as_of")) is not None:
        source = source.version_as_of(version)
    if (moment := options.number("timestamp_as_of")) is not None:
        source = source.timestamp_as_of(moment)
    if (version := options.number("starting_version")) is not None:
        source = source.starting_version(version)
    if (moment := options.number("starting_timestamp")) is not None:
        source = source.starting_timestamp(moment)
    if (interval := options.text("monitor_continuously")) is not None:
        source = source.monitor_continuously(interval)
    source = source.ignore_deletes() if options.flag("ignore_deletes") else source
    return source.skip_change_commits() if options.flag("skip_change_commits") else source


def _delta_sink(declared: Declared) -> TableSink:
    options, path = declared.options, declared.options.required("path", "/data/orders")
    sequence = options.names("sequence_by")
    if sequence and not declared.primary_key:
        raise OptionError("the option 'sequence_by' orders the rows of a key: declare a PRIMARY KEY", "sequence_by")

    def configured(sink: DeltaSink) -> DeltaSink:
        sink = sink.storage_options(**options.with_prefix("storage."))
        sink = sink.partition_by(*declared.partition_by) if declared.partition_by else sink
        return sink.merge_schema() if options.flag("merge_schema") else sink

    if not declared.primary_key:
        return TableSink(
            sink=configured(DeltaSink.append(path)),
            whole_rows=lambda kind: configured(DeltaSink.apply_changes(path, row_kind=kind)),
        )
    upsert = partial(DeltaSink.upsert, path, keys=declared.primary_key)
    return TableSink(
        sink=configured(upsert(sequence_by=sequence)),
        keys=declared.primary_key,
        sequence_by=sequence,
        unsequenced=configured(upsert()),
    )


def _iceberg_sink(declared: Declared) -> TableSink:
    options = declared.options
    identifier, catalog = options.required("identifier", "shop.orders"), options.text("catalog") or "default"
    sink = IcebergSink.append(identifier, catalog=catalog, **options.with_prefix("catalog."))
    return TableSink(sink=sink.merge_schema() if options.flag("merge_schema") else sink)


def _postgres_source(declared: Declared) -> PostgresCdcSource | None:
    options = declared.options
    if (slot := options.text("slot")) is None:
        return None
    conninfo, table = _postgres_table(declared)
    source = PostgresCdcSource.of_table(
        conninfo,
        table,
        slot=slot,
        on_schema_change=_one_of(options, "on_schema_change", _IGNORED) or "fail",
        on_truncate=_one_of(options, "on_truncate", _IGNORED) or "fail",
        on_unreadable=_one_of(options, "on_unreadable", _UNREADABLE) or "fail",
    ).with_metadata(*options.names("metadata"))
    if (mode := _one_of(options, "start_from", _STARTS)) is not None:
        source = source.start_from(mode)
    if (lsn := options.text("bounded")) is not None:
        source = source.bounded(None if lsn.lower() == "true" else lsn)
    if (interval := options.text("poll_every")) is not None:
        source = source.poll_every(interval)
    return source


def _postgres_sink(declared: Declared) -> TableSink:
    conninfo, table = _postgres_table(declared)
    sequence = declared.options.names("sequence_by")
    if sequence and not declared.primary_key:
        raise OptionError("the option 'sequence_by' orders the rows of a key: declare a PRIMARY KEY", "sequence_by")

    def made(sequence_by: tuple[str, ...]) -> PostgresSink:
        sink = (
            PostgresSink.upsert(conninfo, table, keys=declared.primary_key, sequence_by=sequence_by)
            if declared.primary_key
            else PostgresSink.append(conninfo, table)
        )
        return sink.create_table() if declared.options.flag("create_table") else sink

    def whole_rows(kind: str) -> PostgresSink:
        changes = PostgresSink.apply_changes(conninfo, table, row_kind=kind)
        return changes.create_table() if declared.options.flag("create_table") else changes

    return TableSink(
        sink=made(sequence),
        keys=declared.primary_key,
        unordered=not sequence,
        sequence_by=sequence,
        unsequenced=made(()),
        whole_rows=None if declared.primary_key else whole_rows,
    )


def _one_of(options: TableOptions, name: str, words: tuple[Word, ...]) -> Word | None:
    text = options.text(name)
    word = next((each for each in words if each == text), None)
    if text is not None and word is None:
        raise OptionError(f"the option {name!r} is one of {', '.join(words)}, not {text!r}", name)
    return word


def _postgres_table(declared: Declared) -> tuple[str, str]:
    conninfo = declared.options.required("conninfo", "host=localhost dbname=shop")
    return conninfo, declared.options.required("table", "orders")


DELTA = TableConnector(
    name="delta",
    options=(
        "path",
        "storage.",
        "version_as_of",
        "timestamp_as_of",
        "starting_version",
        "starting_timestamp",
        "monitor_continuously",
        "ignore_deletes",
        "skip_change_commits",
        "merge_schema",
        "sequence_by",
    ),
    source=_delta_source,
    sink=_delta_sink,
    has_partitions=True,
    has_keys=True,
)
ICEBERG = TableConnector(
    name="iceberg", options=("identifier", "catalog", "catalog.", "merge_schema"), sink=_iceberg_sink
)
POSTGRES = TableConnector(
    name="postgres",
    options=(
        "conninfo",
        "table",
        "slot",
        "start_from",
        "metadata",
        "bounded",
        "poll_every",
        "on_schema_change",
        "on_truncate",
        "on_unreadable",
        "create_table",
        "sequence_by",
    ),
    source=_postgres_source,
    sink=_postgres_sink,
    has_keys=True,
)
