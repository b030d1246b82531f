"""Decomposes aggregates into the columns that state contains for the rows of a key, until results are computed.

`analyze` reads Spark's plan of the user's aggregate columns. If every aggregate is a count, sum, minimum, maximum or
average (alone, or inside larger expressions), state consists of parts: partial aggregates that can be merged, from
which Spark's own expressions compute the results at the end. If there is another aggregate, or the parts would not give
exactly Spark's result, state consists of the rows themselves, reduced to the needed columns.

In both cases state has the column `TIME`, followed by the key columns, and by the parts or rows. Only state with the
same time is merged: with the same interval of event time, or with a constant for state that is not divided by time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField

from flykka.actors.machines.state.schema_evolution import columns_ddl, quoted
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.expressions import Aggregation, Part
from flykka.spark_bridge.program.stored_columns import ROWS
from flykka.spark_bridge.rows.equality import normalised_column
from flykka.spark_bridge.worker.keys import KEY_PREFIX
from flykka.spark_bridge.worker.parts import PartFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

TIME = "__window"
"""The column with the start of the event-time interval of a row of state, in microseconds since the epoch.

The name is used in the files of checkpoints, and dates from when only windows had state.
"""

NEWS = "__news"
"""The column that is true for rows that are in no result yet, for state in which only some rows are new."""

_ROWS_COLUMN = ("rows", "bigint")
"""The name and type of the column with the number of input rows, as readers of a checkpoint see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialAggregates:
    key_columns: tuple[Column | str, ...]
    key_names: tuple[str, ...]
    key_types: tuple[DataType, ...]
    parts: tuple[Part, ...]
    results: tuple[Column, ...]
    structure: str
    key_columns_ddl: str
    state_columns_ddl: str

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(F.col(_key(place)) for place in range(len(self.key_names)))

    @property
    def key_fields(self) -> tuple[StructField, ...]:
        return tuple(StructField(_key(place), data_type) for place, data_type in enumerate(self.key_types))

    @property
    def part_fields(self) -> tuple[StructField, ...]:
        return (*(StructField(part.name, part.data_type) for part in self.parts), StructField(ROWS, LongType()))

    @property
    def state_schema(self) -> StateSchema:
        merged_by = tuple(function.value for function in self.merging.values())
        return StateSchema(keys=self.key_columns_ddl, columns=self.state_columns_ddl, merged_by=merged_by)

    @property
    def merging(self) -> dict[str, PartFunction]:
        return {**{part.name: part.function for part in self.parts}, ROWS: PartFunction.SUM}

    @property
    def wrapping(self) -> frozenset[str]:
        return frozenset(part.name for part in self.parts if part.wraps)

    def local(self, rows: DataFrame, time: Column, *also: Column) -> DataFrame:
        aggregates = (*also, *(part.of_rows for part in self.parts), F.count(F.lit(1)).alias(ROWS))
        return rows.groupBy(time.alias(TIME), *self._computed_keys).agg(*aggregates)

    def row_by_row(self, rows: DataFrame, time: Column, *also: Column) -> DataFrame:
        """Convert each row to parts separately, which is faster than `local` if hardly any rows have the same key."""
        one = F.lit(1).cast("bigint").alias(ROWS)
        return rows.select(time.alias(TIME), *self._computed_keys, *also, *(part.of_row for part in self.parts), one)

    def merge(self, state: DataFrame, time: Column | str = TIME, *also: Column) -> DataFrame:
        count = F.sum(ROWS).alias(ROWS)
        return state.groupBy(time, *self.keys).agg(*(part.merged() for part in self.parts), count, *also)

    def evaluated(self, merged: DataFrame, **of_time: Column) -> DataFrame:
        return merged.select(*_named(of_time), *self._named_keys, *self.results)

    @property
    def _computed_keys(self) -> tuple[Column, ...]:
        keys = zip(self.key_columns, self.key_types, strict=True)
        return tuple(
            normalised_column(_column(key), data_type).alias(_key(place)) for place, (key, data_type) in enumerate(keys)
        )

    @property
    def _named_keys(self) -> tuple[Column, ...]:
        return tuple(key.alias(name) for key, name in zip(self.keys, self.key_names, strict=True))

    def compute_results(self, state: DataFrame, **of_time: Column) -> DataFrame:
        return self.evaluated(self.merge(state), **of_time)

    def compute_new_results(self, state: DataFrame, **of_time: Column) -> DataFrame:
        """Return the results over all rows, for the times and keys that have a `NEWS` row."""
        return self.evaluated(self.merge(state, TIME, _has_news()).where(NEWS), **of_time)

    def input_rows(self, counted: Column) -> Column:
        return F.sum(F.when(counted, F.col(ROWS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowState:
    key_columns: tuple[Column | str, ...]
    needed: tuple[str, ...]
    structure: str
    key_columns_ddl: str
    state_columns_ddl: str

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(_column(key) for key in self.key_columns)

    @property
    def state_schema(self) -> StateSchema:
        return StateSchema(keys=self.key_columns_ddl, columns=self.state_columns_ddl)

    def local(self, rows: DataFrame, time: Column) -> DataFrame:
        return rows.select(time.alias(TIME), *(F.col(quoted(name)) for name in self.needed))

    def merge(self, state: DataFrame) -> DataFrame:
        return state

    def input_rows(self, counted: Column) -> Column:
        return F.count_if(counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStateAggregates(RowState):
    aggregates: tuple[Column, ...]

    def compute_results(self, state: DataFrame, **of_time: Column) -> DataFrame:
        results = state.groupBy(TIME, *self.keys).agg(*self.aggregates)
        return results.select(*_named(of_time), *(F.col(quoted(name)) for name in results.columns[1:]))

    def compute_new_results(self, state: DataFrame, **of_time: Column) -> DataFrame:
        results = state.groupBy(TIME, *self.keys).agg(*self.aggregates, _has_news()).where(NEWS)
        return results.select(*_named(of_time), *(F.col(quoted(name)) for name in results.columns[1:-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStateFunction(RowState):
    """A function of the rows in state, for all keys and times together."""

    function: Callable[[DataFrame], DataFrame]

    def function_input(self, state: DataFrame, **of_time: Column) -> DataFrame:
        own = (F.col(quoted(name)) for name in self.needed if name not in of_time)
        return state.select(*_named(of_time), *own)

    def compute_results(self, state: DataFrame, **of_time: Column) -> DataFrame:
        return applied(self.function, self.function_input(state, **of_time))

    def compute_new_results(self, state: DataFrame, **of_time: Column) -> DataFrame:
        has_news = F.max(NEWS).over(Window.partitionBy(TIME, *self.keys))
        return self.compute_results(state.withColumn(NEWS, has_news).where(NEWS).drop(NEWS), **of_time)


StatePlan = PartialAggregates | RowState

AggregatePlan = PartialAggregates | RowStateAggregates | RowStateFunction


def whole_row_state(
    prototype: DataFrame, keys: Sequence[Column | str], function: Callable[[DataFrame], DataFrame]
) -> RowStateFunction:
    """Plan the state of all columns of rows like `prototype`, for a function that reads them."""
    state = row_state(prototype, keys, prototype.columns)
    return RowStateFunction(
        key_columns=state.key_columns,
        needed=state.needed,
        structure=state.structure,
        key_columns_ddl=state.key_columns_ddl,
        state_columns_ddl=state.state_columns_ddl,
        function=function,
    )


def row_state(prototype: DataFrame, keys: Sequence[Column | str], needed: Sequence[str]) -> RowState:
    """Plan the state of the `needed` columns of rows like `prototype`."""
    keyed = prototype.select(*keys).schema
    return RowState(
        key_columns=tuple(keys),
        needed=tuple(needed),
        structure=_rows_structure(prototype, needed),
        key_columns_ddl=columns_ddl((key.name, key.dataType.simpleString()) for key in keyed),
        state_columns_ddl=columns_ddl((name, prototype.schema[name].dataType.simpleString()) for name in needed),
    )


def analyze(prototype: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column]) -> AggregatePlan:
    """Plan the state for these aggregates of rows like `prototype`. Raises `AnalysisException` if a key or an aggregate
    does not fit the columns.
    """
    aggregation = Aggregation.analyze(prototype, keys, aggregates)
    key_fields = zip(aggregation.key_names, aggregation.key_types, strict=True)
    key_columns = columns_ddl((name, data_type.simpleString()) for name, data_type in key_fields)
    decomposition = aggregation.decompose(key_name=_key, row_count=ROWS)
    if decomposition is None:
        needed = aggregation.required_columns()
        return RowStateAggregates(
            key_columns=tuple(keys),
            aggregates=tuple(aggregates),
            needed=needed,
            structure=_rows_structure(prototype, needed),
            key_columns_ddl=key_columns,
            state_columns_ddl=columns_ddl((name, prototype.schema[name].dataType.simpleString()) for name in needed),
        )
    parts = decomposition.parts
    key_types = ", ".join(data_type.simpleString() for data_type in aggregation.key_types)
    part_types = ", ".join(f"{part.function} {part.data_type.simpleString()}" for part in parts)
    return PartialAggregates(
        key_columns=tuple(keys),
        key_names=aggregation.key_names,
        key_types=aggregation.key_types,
        parts=parts,
        results=decomposition.results,
        structure=f"keys: {key_types}; parts: {part_types}",
        key_columns_ddl=key_columns,
        state_columns_ddl=columns_ddl([*((part.label, part.data_type.simpleString()) for part in parts), _ROWS_COLUMN]),
    )


def _rows_structure(prototype: DataFrame, columns: Iterable[str]) -> str:
    fields = ", ".join(f"{name} {prototype.schema[name].dataType.simpleString()}" for name in columns)
    return f"rows: {fields}"


def _named(columns: Mapping[str, Column]) -> Iterator[Column]:
    return (column.alias(name) for name, column in columns.items())


def _has_news() -> Column:
    return F.max(NEWS).alias(NEWS)


def _key(place: int) -> str:
    return f"{KEY_PREFIX}{place}"


def _column(key: Column | str) -> Column:
    return F.col(key) if isinstance(key, str) else key
