"""The code of operators: live objects that stay in the driver.

A job graph names them by uid and fingerprint. A fingerprint is a short readable text of what must agree for stored
state to fit the code (the kind of operator, sizes, names and types) and of nothing that may differ between two runs of
one program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.aggregates import AggregatePlan
    from flykka.spark_bridge.sinks.file_sink import FileSink
    from flykka.spark_bridge.sources.file_source import FileSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCode:
    """Reads splits. `watermark_delay_ms` is how far event time may be out of order; None: no watermarks."""

    source: FileSource
    watermark_delay_ms: int | None = None

    @property
    def fingerprint(self) -> str:
        """The format: where the files lie may change between two runs."""
        return f"source({self.source.format})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformCode:
    """A function of batches without memory."""

    function: Callable[[DataFrame], DataFrame]

    @property
    def fingerprint(self) -> str:
        """Stateless: any function may take the place of another."""
        return "transform"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyByCode:
    """The key expressions of a keyed edge."""

    columns: tuple[Column | str, ...]

    @property
    def fingerprint(self) -> str:
        """How many keys there are; the window behind the edge knows their types."""
        return f"key_by({len(self.columns)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCode:
    """Tumbling event-time windows of `size_ms`, shifted by `offset_ms`, over the timestamp column `time_column`."""

    keys: tuple[Column | str, ...]
    size_ms: int
    offset_ms: int
    time_column: str
    aggregates: tuple[Column, ...]
    plan: AggregatePlan

    @property
    def fingerprint(self) -> str:
        """Windows, and the columns that state is kept in."""
        return f"window(size={self.size_ms}, offset={self.offset_ms}, state={self.plan.structure})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWindowCode:
    """The part of a window aggregation that runs before the exchange."""

    window: WindowCode

    @property
    def fingerprint(self) -> str:
        """That of the windows it feeds."""
        return f"local_{self.window.fingerprint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCode:
    """Writes rows."""

    sink: FileSink

    @property
    def fingerprint(self) -> str:
        """The format: where the rows go may change between two runs."""
        return f"sink({self.sink.format})"


OperatorCode = SourceCode | TransformCode | KeyByCode | WindowCode | LocalWindowCode | SinkCode
