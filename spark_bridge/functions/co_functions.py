"""Functions of two inputs, with Flink's names, such as CoProcessFunction, KeyedCoProcessFunction and CoMapFunction.

Rows of an input arrive in the order of their stream. As in Flink, there is no order between the two inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from flykka.spark_bridge.functions.contexts import FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.process_function import BaseFunction, Rows, TimedFunction, WatermarkFunction


class CoProcessFunction(WatermarkFunction, ABC):
    """Emits rows for each row of two inputs, without keys."""

    @abstractmethod
    def process_element1(self, row: Row, ctx: FunctionContext) -> Rows:
        """Emit rows for a row of the first input."""

    @abstractmethod
    def process_element2(self, row: Row, ctx: FunctionContext) -> Rows:
        """Emit rows for a row of the second input."""


class KeyedCoProcessFunction(TimedFunction, ABC):
    """Emits rows for each row of two keyed inputs, and for each timer. Both inputs share the state of a key."""

    @abstractmethod
    def process_element1(self, row: Row, ctx: KeyedContext) -> Rows:
        """Emit rows for a row of the first input, with the state and timers of its key."""

    @abstractmethod
    def process_element2(self, row: Row, ctx: KeyedContext) -> Rows:
        """Emit rows for a row of the second input, with the state and timers of its key."""

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Rows:
        """Emit rows for a timer that fires, with the state and timers of its key."""


class CoMapFunction(BaseFunction, ABC):
    """Maps each row of two inputs to one row. With keyed inputs it may have keyed state."""

    @abstractmethod
    def map1(self, row: Row) -> Row:
        """Return the result for a row of the first input."""

    @abstractmethod
    def map2(self, row: Row) -> Row:
        """Return the result for a row of the second input."""


class CoFlatMapFunction(BaseFunction, ABC):
    """Maps each row of two inputs to any number of rows. With keyed inputs it may have keyed state."""

    @abstractmethod
    def flat_map1(self, row: Row) -> Rows:
        """Emit rows for a row of the first input."""

    @abstractmethod
    def flat_map2(self, row: Row) -> Rows:
        """Emit rows for a row of the second input."""
