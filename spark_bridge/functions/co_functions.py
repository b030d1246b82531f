"""Functions of two inputs, by Flink's names: CoProcessFunction, KeyedCoProcessFunction, CoMapFunction and its like.

Rows of an input come in the order of their stream; between the two inputs there is no order, as in Flink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from flykka.spark_bridge.functions.contexts import FunctionContext, KeyedContext, TimerContext
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.process_function import BaseFunction, Rows, TimedFunction, WatermarkFunction


class CoProcessFunction(WatermarkFunction, ABC):
    """Makes rows of each row of two inputs, without keys."""

    @abstractmethod
    def process_element1(self, row: Row, ctx: FunctionContext) -> Rows:
        """Emit rows for a row of the first input."""

    @abstractmethod
    def process_element2(self, row: Row, ctx: FunctionContext) -> Rows:
        """Emit rows for a row of the second input."""


class KeyedCoProcessFunction(TimedFunction, ABC):
    """Makes rows of each row of two keyed inputs, and of each timer. A key has one state, which both inputs share."""

    @abstractmethod
    def process_element1(self, row: Row, ctx: KeyedContext) -> Rows:
        """Emit rows for a row of the first input; states and timers are those of its key."""

    @abstractmethod
    def process_element2(self, row: Row, ctx: KeyedContext) -> Rows:
        """Emit rows for a row of the second input; states and timers are those of its key."""

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Rows:
        """Emit rows for a timer that fires; states and timers are those of its key."""


class CoMapFunction(BaseFunction, ABC):
    """Makes one row of each row of two inputs. Where they are keyed, it may have keyed state."""

    @abstractmethod
    def map1(self, row: Row) -> Row:
        """Return the row that is made of a row of the first input."""

    @abstractmethod
    def map2(self, row: Row) -> Row:
        """Return the row that is made of a row of the second input."""


class CoFlatMapFunction(BaseFunction, ABC):
    """Makes any number of rows of each row of two inputs. Where they are keyed, it may have keyed state."""

    @abstractmethod
    def flat_map1(self, row: Row) -> Rows:
        """Emit rows for a row of the first input."""

    @abstractmethod
    def flat_map2(self, row: Row) -> Rows:
        """Emit rows for a row of the second input."""
