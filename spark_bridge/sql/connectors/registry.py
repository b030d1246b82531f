"""All table connectors, by their names in USING."""

from __future__ import annotations

from flykka.spark_bridge.connectors.console import ConsoleSink
from flykka.spark_bridge.connectors.socket_text import SocketTextSource
from flykka.spark_bridge.sql.connectors.databases import DELTA, ICEBERG, POSTGRES
from flykka.spark_bridge.sql.connectors.datagen import DATAGEN
from flykka.spark_bridge.sql.connectors.files import FILES
from flykka.spark_bridge.sql.connectors.kafka import KAFKA
from flykka.spark_bridge.sql.connectors.table_connector import Declared, OptionError, TableConnector, TableSink


def _printed(declared: Declared) -> TableSink:
    sink = ConsoleSink(limit=declared.options.number("limit") or 20)
    if (truncate := declared.options.text("truncate")) is not None:
        whole = {"true": True, "false": False}.get(truncate.lower())
        sink = ConsoleSink(limit=sink.limit, truncate=_number(truncate, "truncate") if whole is None else whole)
    return TableSink(sink=sink, shows=True)


def _socket(declared: Declared) -> SocketTextSource:
    options = declared.options
    port = options.required("port", "9999")
    return SocketTextSource(
        options.required("host", "localhost"),
        _number(port, "port"),
        delimiter=options.text("delimiter") or "\n",
        max_retries=options.number("max_retries") or 0,
        retry_delay=options.text("retry_delay") or "500ms",
    )


def _number(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"the option {option!r} is a number, not {text!r}", option) from None


_ALL = (
    *FILES,
    KAFKA,
    DELTA,
    ICEBERG,
    POSTGRES,
    DATAGEN,
    TableConnector(name="print", options=("limit", "truncate"), sink=_printed, has_keys=True),
    TableConnector(name="socket", options=("host", "port", "delimiter", "max_retries", "retry_delay"), source=_socket),
)
TABLE_CONNECTORS = {each.name: each for each in _ALL}
