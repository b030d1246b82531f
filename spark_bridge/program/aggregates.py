"""Aggregates taken apart: what is kept of the rows of a key until the results are wanted.

`analyze` looks at the plan that Spark made of the user's aggregate columns. Where every aggregate is a count, sum,
minimum, maximum or average (alone, or inside larger expressions) state is parts: partial aggregates that merge into
each other, from which the results follow at the end with Spark's own expressions. Where one is anything else, or the
parts would not give Spark's result to the letter, the rows themselves are kept, cut down to the columns that matter.

Either way state has the column `TIME`, then those of the keys, then what is kept. What is merged and finished together
agrees in its time: in the stretch of event time that it is of, or in the one value of state that is not cut by time.
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
"""The start of the stretch of event time that a row of state is of, in microseconds since the epoch.

The name is that of files in checkpoints, and was chosen when nothing but windows had state.
"""

NEWS = "__news"
"""True for a row that is in no result yet, where state is read with rows of which only some are news."""

_ROWS_COLUMN = ("rows", "bigint")
"""The number of input rows behind a row of state, as readers of a checkpoint know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialAggregates:
    """State is parts."""

    key_columns: tuple[Column | str, ...]
    key_names: tuple[str, ...]
    key_types: tuple[DataType, ...]
    parts: tuple[Part, ...]
    results: tuple[Column, ...]
    structure: str
    key_columns_ddl: str
    kept_columns_ddl: str

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
        return StateSchema(keys=self.key_columns_ddl, columns=self.kept_columns_ddl, merged_by=merged_by)

    @property
    def merging(self) -> dict[str, PartFunction]:
        return {**{part.name: part.function for part in self.parts}, ROWS: PartFunction.SUM}

    @property
    def wrapping(self) -> frozenset[str]:
        return frozenset(part.name for part in self.parts if part.wraps)

    def local(self, rows: DataFrame, time: Column, *also: Column) -> DataFrame:
        made = (*also, *(part.of_rows for part in self.parts), F.count(F.lit(1)).alias(ROWS))
        return rows.groupBy(time.alias(TIME), *self._made_keys).agg(*made)

    def row_by_row(self, rows: DataFrame, time: Column, *also: Column) -> DataFrame:
        """Make parts of each row by itself: sooner done than `local` where hardly two rows have the same key."""
        one = F.lit(1).cast("bigint").alias(ROWS)
        return rows.select(time.alias(TIME), *self._made_keys, *also, *(part.of_row for part in self.parts), one)

    def merge(self, state: DataFrame, time: Column | str = TIME, *also: Column) -> DataFrame:
        """Merge the parts of each time and key, and compute what else is wanted of them."""
        count = F.sum(ROWS).alias(ROWS)
        return state.groupBy(time, *self.keys).agg(*(part.merged() for part in self.parts), count, *also)

    def evaluated(self, merged: DataFrame, **of_time: Column) -> DataFrame:
        """The results of parts that are merged: columns made `of_time`, the keys, the aggregates."""
        return merged.select(*_named(of_time), *self._named_keys, *self.results)

    @property
    def _made_keys(self) -> tuple[Column, ...]:
        keys = zip(self.key_columns, self.key_types, strict=True)
        return tuple(
            normalised_column(_column(key), data_type).alias(_key(place)) for place, (key, data_type) in enumerate(keys)
        )

    @property
    def _named_keys(self) -> tuple[Column, ...]:
        return tuple(key.alias(name) for key, name in zip(self.keys, self.key_names, strict=True))

    def results_of(self, state: DataFrame, **of_time: Column) -> DataFrame:
        return self.evaluated(self.merge(state), **of_time)

    def news_of(self, state: DataFrame, **of_time: Column) -> DataFrame:
        """The results of all rows, for the times and keys that have `NEWS`."""
        return self.evaluated(self.merge(state, TIME, _has_news()).where(NEWS), **of_time)

    def rows_behind(self, counted: Column) -> Column:
        return F.sum(F.when(counted, F.col(ROWS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """State is rows, cut down to the columns that are needed."""

    key_columns: tuple[Column | str, ...]
    needed: tuple[str, ...]
    structure: str
    key_columns_ddl: str
    kept_columns_ddl: str

    @property
    def keys(self) -> tuple[Column, ...]:
        """The user's own expressions: the columns they need are kept."""
        return tuple(_column(key) for key in self.key_columns)

    @property
    def state_schema(self) -> StateSchema:
        return StateSchema(keys=self.key_columns_ddl, columns=self.kept_columns_ddl)

    def local(self, rows: DataFrame, time: Column) -> DataFrame:
        return rows.select(time.alias(TIME), *(F.col(quoted(name)) for name in self.needed))

    def merge(self, state: DataFrame) -> DataFrame:
        return state

    def rows_behind(self, counted: Column) -> Column:
        """A row of state is a row of input."""
        return F.count_if(counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsKept(KeptRows):
    """Aggregates of rows that are kept as they are."""

    aggregates: tuple[Column, ...]

    def results_of(self, state: DataFrame, **of_time: Column) -> DataFrame:
        """Aggregate the rows as Spark does: columns made `of_time`, the keys, the aggregates."""
        results = state.groupBy(TIME, *self.keys).agg(*self.aggregates)
        return results.select(*_named(of_time), *(F.col(quoted(name)) for name in results.columns[1:]))

    def news_of(self, state: DataFrame, **of_time: Column) -> DataFrame:
        results = state.groupBy(TIME, *self.keys).agg(*self.aggregates, _has_news()).where(NEWS)
        return results.select(*_named(of_time), *(F.col(quoted(name)) for name in results.columns[1:-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsApplied(KeptRows):
    """A function of rows that are kept as they are, of all keys and times together."""

    function: Callable[[DataFrame], DataFrame]

    def given(self, state: DataFrame, **of_time: Column) -> DataFrame:
        """The rows for the function: columns made `of_time`, then their own others."""
        own = (F.col(quoted(name)) for name in self.needed if name not in of_time)
        return state.select(*_named(of_time), *own)

    def results_of(self, state: DataFrame, **of_time: Column) -> DataFrame:
        return applied(self.function, self.given(state, **of_time))

    def news_of(self, state: DataFrame, **of_time: Column) -> DataFrame:
        has_news = F.max(NEWS).over(Window.partitionBy(TIME, *self.keys))
        return self.results_of(state.withColumn(NEWS, has_news).where(NEWS).drop(NEWS), **of_time)


StatePlan = PartialAggregates | KeptRows
"""The state of one operator: how it is kept and merged."""

AggregatePlan = PartialAggregates | RowsKept | RowsApplied
"""The aggregates of one operator: how its state is made, merged and finished."""


def kept_whole(
    prototype: DataFrame, keys: Sequence[Column | str], function: Callable[[DataFrame], DataFrame]
) -> RowsApplied:
    """Plan the state of rows like `prototype`, keyed by `keys`, for a function of all their columns."""
    kept = kept_rows(prototype, keys, prototype.columns)
    return RowsApplied(
        key_columns=kept.key_columns,
        needed=kept.needed,
        structure=kept.structure,
        key_columns_ddl=kept.key_columns_ddl,
        kept_columns_ddl=kept.kept_columns_ddl,
        function=function,
    )


def kept_rows(prototype: DataFrame, keys: Sequence[Column | str], needed: Sequence[str]) -> KeptRows:
    """Plan the state of rows like `prototype`, keyed by `keys`, of which some columns are needed."""
    keyed = prototype.select(*keys).schema
    return KeptRows(
        key_columns=tuple(keys),
        needed=tuple(needed),
        structure=_rows_structure(prototype, needed),
        key_columns_ddl=columns_ddl((key.name, key.dataType.simpleString()) for key in keyed),
        kept_columns_ddl=columns_ddl((name, prototype.schema[name].dataType.simpleString()) for name in needed),
    )


def analyze(prototype: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column]) -> AggregatePlan:
    """Plan the state of rows like `prototype`, keyed by `keys`, for these aggregates.

    Raises:
        AnalysisException: a key or an aggregate does not fit the columns of the prototype.
    """
    aggregation = Aggregation.analyze(prototype, keys, aggregates)
    named = zip(aggregation.key_names, aggregation.key_types, strict=True)
    key_columns = columns_ddl((name, data_type.simpleString()) for name, data_type in named)
    taken = aggregation.take_apart(key_name=_key, row_count=ROWS)
    if taken is None:
        needed = aggregation.needed_columns()
        return RowsKept(
            key_columns=tuple(keys),
            aggregates=tuple(aggregates),
            needed=needed,
            structure=_rows_structure(prototype, needed),
            key_columns_ddl=key_columns,
            kept_columns_ddl=columns_ddl((name, prototype.schema[name].dataType.simpleString()) for name in needed),
        )
    parts = taken.parts
    key_types = ", ".join(data_type.simpleString() for data_type in aggregation.key_types)
    part_types = ", ".join(f"{part.function} {part.data_type.simpleString()}" for part in parts)
    return PartialAggregates(
        key_columns=tuple(keys),
        key_names=aggregation.key_names,
        key_types=aggregation.key_types,
        parts=parts,
        results=taken.results,
        structure=f"keys: {key_types}; parts: {part_types}",
        key_columns_ddl=key_columns,
        kept_columns_ddl=columns_ddl([*((part.label, part.data_type.simpleString()) for part in parts), _ROWS_COLUMN]),
    )


def _rows_structure(prototype: DataFrame, columns: Iterable[str]) -> str:
    kept = ", ".join(f"{name} {prototype.schema[name].dataType.simpleString()}" for name in columns)
    return f"rows: {kept}"


def _named(columns: Mapping[str, Column]) -> Iterator[Column]:
    return (column.alias(name) for name, column in columns.items())


def _has_news() -> Column:
    return F.max(NEWS).alias(NEWS)


def _key(place: int) -> str:
    return f"{KEY_PREFIX}{place}"


def _column(key: Column | str) -> Column:
    return F.col(key) if isinstance(key, str) else key
