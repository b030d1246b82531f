"""The code of operators: live objects that stay in the driver.

A job graph names them by uid and fingerprint. A fingerprint is a short readable text of what must agree for stored
state to fit the code (the kind of operator, sizes, names and types) and of nothing that may differ between two runs of
one program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.state.handles import StateSchema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.connectors.sink import Sink
    from flykka.spark_bridge.connectors.source import Source
    from flykka.spark_bridge.event_time_windows import EventTimeWindows
    from flykka.spark_bridge.program.aggregates import AggregatePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCode:
    """Reads splits. `watermark_delay_ms` is how far event time may be out of order; None: no watermarks.

    Where rows are to come in order, `watches_order`. Where some of them mark watermarks, they are those for which
    `punctuation` is true.
    """

    source: Source
    watermark_delay_ms: int | None = None
    watches_order: bool = False
    punctuation: Column | str | None = None

    @property
    def fingerprint(self) -> str:
        """The format: where the rows come from may change between two runs."""
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
    """Windows over the timestamp column `time_column`.

    `side_outputs_late_data`: rows that come too late are handed to `LateRowsCode`, not dropped. They must then come as
    they are, with no local part before the exchange.
    """

    keys: tuple[Column | str, ...]
    windows: EventTimeWindows
    time_column: str
    aggregates: tuple[Column, ...]
    plan: AggregatePlan
    side_outputs_late_data: bool = False

    @property
    def fingerprint(self) -> str:
        """Windows, and the columns that state is kept in."""
        windows = self.windows
        cut = f"size={windows.size_ms}, slide={windows.slide_ms}, offset={windows.offset_ms}"
        return f"window({cut}, state={self.plan.structure})"

    @property
    def state_schema(self) -> StateSchema:
        """What a checkpoint tells of the state to those who look into it."""
        windows = self.windows
        cut = f"size={windows.size_ms}ms, slide={windows.slide_ms}ms, offset={windows.offset_ms}ms"
        return StateSchema(keys=self.plan.key_columns_ddl, columns=self.plan.kept_columns_ddl, windows=cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWindowCode:
    """The part of a window aggregation that runs before the exchange."""

    window: WindowCode

    @property
    def fingerprint(self) -> str:
        """That of the windows it feeds."""
        return f"local_{self.window.fingerprint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRowsCode:
    """Passes on the rows that came too late for the windows it is chained to."""

    @property
    def fingerprint(self) -> str:
        """Stateless."""
        return "late_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCode:
    """Writes rows."""

    sink: Sink

    @property
    def fingerprint(self) -> str:
        """The format: where the rows go may change between two runs."""
        return f"sink({self.sink.format})"


OperatorCode = SourceCode | TransformCode | KeyByCode | WindowCode | LocalWindowCode | LateRowsCode | SinkCode
