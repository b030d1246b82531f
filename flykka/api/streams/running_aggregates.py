"""The verbs of a keyed stream that aggregate without windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from flykka.api.streams.stateless_verbs import listed
from flykka.errors import ProgramError
from flykka.spark_bridge.program.functions import aggregated_columns, counted_rows

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.stream_type import StreamType
    from flykka.spark_bridge.program.prototype import Column


class RunningAggregates(ABC):
    """Aggregates of all rows of a key so far."""

    _type: StreamType

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def _running(self, name: str, columns: tuple[Column, ...]) -> DataStream:
        """Add the operator of this name that keeps aggregates."""

    def aggregate(self, *columns: Column) -> DataStream:
        """Compute running aggregates of each key, without windows: the keys, then these aggregates.

        Every batch emits one row for each key that it has, with the aggregates of all rows so far, as Flink's keyed
        aggregations do. So a key comes again and again, and its newest row is the one that holds: they are upserts by
        the keys, as `flykka plan` says. What is kept of the rows stays for as long as the job lives, and is part of its
        checkpoints. The stream has no event time.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column is no aggregate, does not fit this stream, or is not put together from counts,
                sums, minima, maxima and averages; or two columns of the result have one name.
        """
        if not columns:
            raise ProgramError(f"the aggregation after {self._origins} needs at least one column")
        return self._running(f"aggregate({listed(*columns)})", columns)

    def count(self, name: str = "count") -> DataStream:
        """Count the rows of each key so far: the keys, then the count in the column `name`. As `aggregate`.

        Raises:
            ProgramError: `name` is no name.
            StreamTypeError: a key is called like the count.
        """
        if not isinstance(name, str) or not name:
            raise ProgramError(f"count after {self._origins} takes the name of its column, not {name!r}")
        return self._running(f"count({name})", (counted_rows(name),))

    def sum(self, *columns: str) -> DataStream:
        """Add up columns for each key so far: the keys, then the sums under the names of the columns. As `aggregate`.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column is not there, cannot be summed, or is a key.
        """
        return self._running(f"sum({listed(*columns)})", self._each("sum", columns))

    def min(self, *columns: str) -> DataStream:
        """The least value of columns for each key so far, as `sum`."""
        return self._running(f"min({listed(*columns)})", self._each("min", columns))

    def max(self, *columns: str) -> DataStream:
        """The greatest value of columns for each key so far, as `sum`."""
        return self._running(f"max({listed(*columns)})", self._each("max", columns))

    def _each(self, function: Literal["sum", "min", "max"], columns: tuple[str, ...]) -> tuple[Column, ...]:
        if not columns or not all(isinstance(column, str) for column in columns):
            raise ProgramError(
                f"{function} after {self._origins} takes names of columns, such as {function}('amount'), not"
                f" {listed(*columns) or 'nothing'}; aggregate(...) takes expressions"
            )
        return aggregated_columns(self._type.prototype, function, columns)
