"""Functions that see each row, by Flink's names: ProcessFunction and KeyedProcessFunction.

Rows are dicts by the names of their columns. What is emitted is yielded, or returned as an iterable of rows; a function
that emits nothing may return None.
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
    """A function of the user's, opened before the first row of a worker and closed behind its last.

    It is opened once for each batch or more seldom, so that what it keeps in itself is gone some time: what has to stay
    is state. What `open` makes is in no checkpoint.
    """

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        """Get ready, and register states."""

    def close(self) -> None:
        """Let go of what `open` took."""


class WatermarkFunction(BaseFunction):
    """A function that may want to know of watermarks."""

    def process_watermark(self, watermark_ms: int, ctx: FunctionContext) -> Rows:
        """Emit what is due now that no row before this time is to come; called behind the timers that it fires."""


class TimedFunction(WatermarkFunction):
    """A function with timers."""

    def on_timer(self, timestamp: int, ctx: Any) -> Rows:
        """Emit rows for a timer that fires; states and timers are those of its key."""


class ProcessFunction(WatermarkFunction, ABC):
    """Makes rows of each row, without keys."""

    @abstractmethod
    def process_element(self, row: Row, ctx: FunctionContext) -> Rows:
        """Emit rows for a row."""


class KeyedProcessFunction(TimedFunction, ABC):
    """Makes rows of each row and of each timer, with the state of its key."""

    @abstractmethod
    def process_element(self, row: Row, ctx: KeyedContext) -> Rows:
        """Emit rows for a row; states and timers are those of its key."""

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Rows:
        """Emit rows for a timer that fires; states and timers are those of its key."""
