"""Functions with a broadcast input, by Flink's names: BroadcastProcessFunction and KeyedBroadcastProcessFunction."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flykka.spark_bridge.functions.broadcast_contexts import (
    BroadcastContext,
    KeyedBroadcastContext,
    KeyedReadOnlyContext,
    ReadOnlyContext,
    ReadOnlyTimerContext,
)
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.process_function import Rows, TimedFunction, WatermarkFunction


class BroadcastProcessFunction(WatermarkFunction, ABC):
    """Makes rows of each row, by what was broadcast to all subtasks.

    Broadcast rows come to all subtasks, so what they make of broadcast state has to be the same in each: it may depend
    on them and on that state alone.
    """

    @abstractmethod
    def process_element(self, row: Row, ctx: ReadOnlyContext) -> Rows:
        """Emit rows for a row of the main input; broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, row: Row, ctx: BroadcastContext) -> Rows:
        """Take a broadcast row into broadcast state; what is emitted, every subtask emits."""


class KeyedBroadcastProcessFunction(TimedFunction, ABC):
    """Makes rows of each row and of each timer, with the state of its key and by what was broadcast to all subtasks."""

    @abstractmethod
    def process_element(self, row: Row, ctx: KeyedReadOnlyContext) -> Rows:
        """Emit rows for a row of the main input, with state and timers of its key; broadcast state can be read."""

    @abstractmethod
    def process_broadcast_element(self, row: Row, ctx: KeyedBroadcastContext) -> Rows:
        """Take a broadcast row, which has no key, into broadcast state; what is emitted, every subtask emits."""

    def on_timer(self, timestamp: int, ctx: ReadOnlyTimerContext) -> Rows:
        """Emit rows for a timer that fires, with state and timers of its key; broadcast state can be read."""
