"""Functions that are called for each row, with Flink's names: ProcessFunction and KeyedProcessFunction.

Rows are dicts by column name. Emit rows by yielding them or returning an iterable of them. A function that emits
nothing may return None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from flykka.spark_bridge.functions.contexts import FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.emission import Row as Row
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext

Rows = Iterable[Row] | None


class BaseFunction:
    """A user's function, opened before the first row in a worker and closed after the last.

    It is opened for each batch or less often, so its attributes are lost at some time. Use state for all data that must
    survive. Checkpoints do not contain what `open` creates.
    """

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        """Prepare for rows, and register states."""

    def close(self) -> None:
        """Release the resources of `open`."""


class WatermarkFunction(BaseFunction):
    def process_watermark(self, watermark_ms: int, ctx: FunctionContext) -> Rows:
        """Emit rows that are due at this watermark. Called after the timers that the watermark fires."""


class TimedFunction(WatermarkFunction):
    def on_timer(self, timestamp: int, ctx: Any) -> Rows:
        """Emit rows for a timer that fires, with the state and timers of its key."""


class ProcessFunction(WatermarkFunction, ABC):
    """Emits rows for each row, without keys."""

    @abstractmethod
    def process_element(self, row: Row, ctx: FunctionContext) -> Rows:
        """Emit rows for a row."""


class KeyedProcessFunction(TimedFunction, ABC):
    """Emits rows for each row and each timer, with the state of its key."""

    @abstractmethod
    def process_element(self, row: Row, ctx: KeyedContext) -> Rows:
        """Emit rows for a row, with the state and timers of its key."""

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Rows:
        """Emit rows for a timer that fires, with the state and timers of its key."""
