"""Windows that Spark's plans compute: aggregates of columns, and functions of DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.api.streams.side_outputs import OwnOutputs
from flykka.api.streams.window_aggregation import WindowAggregation
from flykka.errors import ProgramError
from flykka.spark_bridge.functions.event_time import OF_WINDOWS
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
from flykka.spark_bridge.operators.window import LATE_DATA

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.transformation import Transformation
    from flykka.api.streams.windowed_rows import KeyedRows, WindowSettings
    from flykka.spark_bridge.program.prototype import Column, DataFrame


class ColumnWindows:
    """Rows in windows that Spark's plans compute, where these can."""

    def __init__(self, keyed: KeyedRows, settings: WindowSettings) -> None:
        self._keyed = keyed
        self._settings = settings

    def aggregate(self, columns: tuple[Column, ...]) -> DataStream:
        """Compute aggregates per key and window. Raises `ProgramError` where the windows are others."""
        assigner = self._settings.assigner
        if isinstance(assigner, EventTimeSessionWindows):
            self._check_sessions(assigner)
        elif not isinstance(assigner, PeriodicEventTimeWindows):
            raise self._refused(f"in {type(assigner).__name__}")
        for verb in ("trigger", "evictor"):
            if getattr(self._settings, verb):
                raise self._refused(f"with {verb}(...)")
        return self._results(*self._cut_into(assigner).add_to(self._keyed._program, columns))

    def apply(self, windows: PeriodicEventTimeWindows, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        """Give all rows of the windows that fire to a function."""
        return self._results(*self._cut_into(windows).add_function(self._keyed._program, function))

    def _check_sessions(self, sessions: EventTimeSessionWindows) -> None:
        if sessions.dynamic_gap is not None:
            raise self._refused("in sessions with a dynamic gap")
        if self._settings.allowed_lateness_ms:
            raise self._refused("in sessions with allowed_lateness(...)")
        if self._settings.late_data_tag is not None:
            raise self._refused("in sessions with side_output_late_data(...)")

    def _refused(self, why: str) -> ProgramError:
        return ProgramError(
            f"the window aggregation after {self._keyed._origins} aggregates columns in tumbling and sliding windows of"
            f" event time and in sessions, which fire at their end, not {why}: give aggregate(...) an"
            " AggregateFunction, or use reduce(function) or process(function, output)"
        )

    def _cut_into(self, windows: PeriodicEventTimeWindows | EventTimeSessionWindows) -> WindowAggregation:
        keyed, row_type = self._keyed, self._keyed._type
        assert row_type.event_time is not None, "without event time there are no windows of it"
        return WindowAggregation(
            inputs=keyed._inputs,
            rows=row_type.prototype,
            event_time=row_type.event_time,
            keys=keyed._keys,
            windows=windows,
            late_data_tag=self._settings.late_data_tag,
            allowed_lateness_ms=self._settings.allowed_lateness_ms,
        )

    def _results(self, made: Transformation, prototype: DataFrame) -> DataStream:
        row_type, tag = self._keyed._type, self._settings.late_data_tag
        late_data = None if tag is None else OwnOutputs(made, {tag: (LATE_DATA, row_type)})
        emitted = replace(row_type, event_time=OF_WINDOWS).of_rows(prototype).emitted_by(made.code)
        return self._keyed._emitted(made, emitted, late_data)
