"""Tables of files: a folder with files of one format, for reading and writing. Unknown options are passed to Spark."""

from __future__ import annotations

from functools import partial

from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.connectors.written_columns import check_known
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.file_formats import FileFormat
from flykka.spark_bridge.sql.connectors.table_connector import Declared, OptionError, TableConnector, TableSink

_READING = ("files_per_batch", "rows_per_batch", "monitor_continuously", "until")
_WRITING = ("rows_per_file", "files_per_checkpoint", "file_size", "mark_success")
_OWN = ("path", *_READING, *_WRITING)
_FORMATS: tuple[FileFormat, ...] = ("parquet", "orc", "avro", "json", "csv", "text")


def _source(declared: Declared, file_format: FileFormat) -> FileSource:
    options, path = declared.options, declared.options.required("path", "/data/orders")
    make = getattr(FileSource, file_format)
    source: FileSource = (
        make(path, **_of_spark(declared))
        if file_format == "text"
        else make(path, schema=declared.columns, **_of_spark(declared))
    )
    if (files := options.number("files_per_batch")) is not None:
        source = source.files_per_batch(files)
    if (rows := options.number("rows_per_batch")) is not None:
        source = source.rows_per_batch(rows)
    until, interval = options.text("until"), options.text("monitor_continuously")
    if until is not None and interval is None:
        raise OptionError("the option 'until' ends 'monitor_continuously': set that too", "until")
    if interval is not None:
        source = source.monitor_continuously(interval, until=until)
    return source


def _sink(declared: Declared, file_format: FileFormat) -> TableSink:
    options, path = declared.options, declared.options.required("path", "/data/orders")
    sink: FileSink = getattr(FileSink, file_format)(path, **_of_spark(declared))
    if declared.partition_by:
        sink = sink.partition_by(*declared.partition_by)
    if (rows := options.number("rows_per_file")) is not None:
        sink = sink.rows_per_file(rows)
    if (files := options.number("files_per_checkpoint")) is not None:
        sink = sink.files_per_checkpoint(files)
    if (size := options.text("file_size")) is not None:
        sink = sink.file_size(size)
    return TableSink(sink=sink.mark_success() if options.flag("mark_success") else sink)


def _of_spark(declared: Declared) -> dict[str, str]:
    return {key: text for key, text in declared.options.texts.items() if key.lower() not in _OWN}


def _check_other(declared: Declared, key: str, file_format: FileFormat) -> None:
    try:
        check_known(declared.session, file_format, [key])
    except PrototypeError as unknown:
        raise OptionError(f"{unknown}; flykka's own options are {', '.join(_OWN)}", key) from None


FILES = tuple(
    TableConnector(
        name=each,
        options=_OWN,
        source=partial(_source, file_format=each),
        sink=partial(_sink, file_format=each),
        check_other=partial(_check_other, file_format=each),
        has_partitions=True,
    )
    for each in _FORMATS
)
