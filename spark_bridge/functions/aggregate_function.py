"""Functions that combine many values into one, with Flink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
IN = TypeVar("IN")
ACC = TypeVar("ACC")
OUT = TypeVar("OUT")


class ReduceFunction(ABC, Generic[T]):
    """Combines two values of the same type into one. The result for many values may not depend on their order."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Return the combined value."""


class AggregateFunction(ABC, Generic[IN, ACC, OUT]):
    """Aggregates values in an accumulator, which may be changed in place or replaced."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return the accumulator for no values."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with one more value."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result of an accumulator, to which more values may be added later."""

    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Merge two accumulators and return the result. Only needed for merging windows, such as session windows."""
        raise NotImplementedError(f"{type(self).__name__} has no merge(acc_a, acc_b), which windows that merge need")


def reducer(function: ReduceFunction[T] | Callable[[T, T], T]) -> Callable[[T, T], T]:
    """Return a ReduceFunction or a plain function as a function of two values. Raises TypeError for other objects."""
    if isinstance(function, ReduceFunction):
        return function.reduce
    if not callable(function):
        raise TypeError(f"a reduce function is a ReduceFunction or a function of two values, not {function!r}")
    return function


AnyAggregateFunction = AggregateFunction[Any, Any, Any]
