"""The verbs that call a plain Python function for every row: `map`, `flat_map` and `filter`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from flykka.api.streams.stateless_verbs import listed, named
from flykka.errors import ProgramError
from flykka.spark_bridge.program import functions, python_functions
from flykka.spark_bridge.program.trials import checked_sendable

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType

Row = dict[str, Any]


class PythonVerbs(ABC):
    """Rows are dicts by the names of their columns. Spark's Python workers call the functions, a batch at a time.

    What columns can say is many times faster as an expression of Spark's: `select`, `with_column`, `where`.
    """

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def _then(self, name: str, make: Callable[[DataFrame], Callable[[DataFrame], DataFrame]]) -> DataStream:
        """Add the operator of this name."""

    def map(self, function: Callable[[Row], Row], output: StructType | str) -> DataStream:
        """Make one row of each, of the columns `output`, such as `"id bigint, name string"`.

        Raises:
            ProgramError: `function` is none.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        self._check_function("map", function)
        return self._then(
            f"map({named(function)})",
            lambda _: partial(python_functions.map_rows, function=checked_sendable(function), output=output),
        )

    def flat_map(self, function: Callable[[Row], Iterable[Row] | None], output: StructType | str) -> DataStream:
        """Make any number of rows of each: those that the function yields or returns. As `map`."""
        self._check_function("flat_map", function)
        return self._then(
            f"flat_map({named(function)})",
            lambda _: partial(python_functions.flat_map_rows, function=checked_sendable(function), output=output),
        )

    def where(self, condition: Column | str) -> DataStream:
        """Keep the rows for which the condition is true."""
        return self._then(f"where({listed(condition)})", lambda _: partial(functions.where, condition=condition))

    def filter(self, condition: Column | str | Callable[[Row], object]) -> DataStream:
        """Keep the rows for which a condition, or a Python function of a row, is true."""
        if not callable(condition):
            return self.where(condition)
        return self._then(
            f"filter({named(condition)})",
            lambda _: partial(python_functions.filter_rows, function=checked_sendable(condition)),
        )

    def _check_function(self, verb: str, function: object) -> None:
        if not callable(function):
            raise ProgramError(f"{verb} after {self._origins} takes a function of a row, not {function!r}")
