"""DISTINCT in running aggregates: rows are marked that have a value of a group for the first time.

The aggregate of the marked rows is that of distinct values, and can be put together from parts. For every argument of
which distinct values are wanted there is an operator that knows them; calls with other FILTERs have marks of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flykka.api.table.refusals import RefusedError
from flykka.api.table.relation import distinct
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.table_types import marks_type
from flykka.spark_bridge.worker.first_rows import FirstOfValues

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_columns import PlanColumns
    from flykka.spark_bridge.sql.plan_node import Expression


class DistinctCalls:
    """Marks rows for calls of aggregates of distinct values."""

    def __init__(self, calls: Sequence[Expression], columns: PlanColumns) -> None:
        """Take those of some calls that are of distinct values.

        Raises:
            RefusedError: one has several arguments.
        """
        self._columns = columns
        self._calls = [call for call in calls if call.java.isDistinct()]
        for call in self._calls:
            if len(call.called.children) != 1:
                raise RefusedError(
                    f"{call.sql} without windows has several arguments: write struct(...) around them", call.position
                )
        self._arguments: list[Expression] = []
        for call in self._calls:
            if not any(call.called.children[0].equals(known) for known in self._arguments):
                self._arguments.append(call.called.children[0])
        self._names: dict[int, tuple[str, str]] = {}

    def marked(self, stream: DataStream, keys: Sequence[Column]) -> DataStream:
        """The rows with marks: the same, where no call is of distinct values."""
        for argument in self._arguments:
            stream = self._marked_by(stream, argument, keys)
        return stream

    def column(self, call: Expression) -> Column:
        """The aggregate of the marked rows, or for a call of all values the call itself."""
        place = next((place for place, each in enumerate(self._calls) if each is call), None)
        if place is None:
            return self._columns.column(call)
        value, mark = self._names[place]
        return self._columns.of_marked(call, named(value), named(mark))

    def _marked_by(self, stream: DataStream, argument: Expression, keys: Sequence[Column]) -> DataStream:
        places = [place for place, call in enumerate(self._calls) if call.called.children[0].equals(argument)]
        columns = stream.columns
        value, *marks = distinct(["value", *("mark" for _ in places)], taken=columns)
        self._names.update((place, (value, mark)) for place, mark in zip(places, marks, strict=True))
        conditions = {mark: self._columns.counts(self._calls[place]) for place, mark in zip(places, marks, strict=True)}
        stream = stream.with_columns({value: self._columns.column(argument), **conditions}).name(
            f"values of {argument.sql}"
        )
        *groups, last = distinct([*("key" for _ in keys), "key"], taken=stream.columns)
        keyed = stream.key_by(
            *(key.alias(name) for key, name in zip(keys, groups, strict=True)), named(value).alias(last)
        )
        function = FirstOfValues(keys=(*groups, last), columns=tuple(stream.columns), conditions=tuple(marks))
        marking = keyed.process_table(function, state=marks_type(marks), output=stream.schema)
        return marking.name(f"distinct {argument.sql}")
