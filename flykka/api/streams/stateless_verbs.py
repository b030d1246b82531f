"""Verbs on rows without memory of others: those of a DataFrame, with its arguments and its meaning.

They are computed batch by batch, so what a row becomes must not depend on where the stream was cut, unless `transform`
is told that it may. Each is tried at once on the stream's prototype, and raises `StreamTypeError` where it does not
fit. Those that a DataFrame has in camel case have that name too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.program import functions
from flykka.spark_bridge.program.refreshed_join import JoinRefreshed, KeptTable
from flykka.spark_bridge.program.trials import (
    check_some,
    check_there,
    checked_function,
    checked_how,
    checked_sendable,
    checked_static,
)
from flykka.views.text.column_text import column_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.functions import ArrowFunction, JoinOn, PandasFunction
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType


_LONGEST = 60


class StatelessVerbs(ABC):
    """Every verb is an operator of its own; those that stand in a row run as one plan."""

    @abstractmethod
    def _then(
        self,
        name: str,
        make: Callable[[DataFrame], Callable[[DataFrame], DataFrame]],
        *,
        renamed: Mapping[str, str] | None = None,
        per_batch: bool = False,
    ) -> DataStream:
        """Put an operator behind this stream.

        `make` is given the prototype, says whether the user's words fit it, and returns the function of batches. With
        `per_batch` what that makes of a row may depend on the others of its batch.
        """

    def transform(self, function: Callable[[DataFrame], DataFrame], *, per_batch: bool = False) -> DataStream:
        """Apply a function, or a `RichFunction`, to every batch: rows in, rows out, with no memory of other batches.

        Where batches begin and end is decided by how the rows came in. So a function is refused that looks at several
        rows together: one that aggregates, sorts, limits or numbers them, removes duplicates, or joins the rows with
        each other. `per_batch=True` says that this is meant, for each batch by itself. Only what stands in Spark's plan
        is seen: not an action such as `rows.count()`, and not what Python code does with the rows that it is given.

        A function may be called for a batch before it is called for an earlier one; results leave in the order of the
        batches. A `RichFunction` is called for one batch after the other, in their order.

        Raises:
            StreamTypeError: the function does not fit the columns of this stream, or returns no DataFrame, or looks at
                several rows together.
        """
        return self._then(f"transform({named(function)})", lambda _: checked_function(function), per_batch=per_batch)

    def select(self, *columns: Column | str) -> DataStream:
        """Keep or compute these columns, each row for itself."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            return partial(functions.select, columns=columns)

        return self._then(f"select({listed(*columns)})", make)

    def select_expr(self, *expressions: str) -> DataStream:
        """Keep or compute these columns, each an expression of SQL: `select_expr("id", "price * 2 AS double")`."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(expressions)
            return partial(functions.select_expr, expressions=expressions)

        return self._then(f"select_expr({listed(*expressions)})", make)

    selectExpr = select_expr

    def with_column(self, name: str, column: Column) -> DataStream:
        """Add a column, or replace the one of this name, each row for itself."""
        function = partial(functions.with_columns, columns={name: column})
        return self._then(f"with_column({name})", lambda _: function)

    withColumn = with_column

    def with_columns(self, columns: Mapping[str, Column]) -> DataStream:
        """Add these columns, or replace those of their names, each computed from the columns before."""

        def make(_: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            return partial(functions.with_columns, columns=dict(columns))

        return self._then(f"with_columns({', '.join(columns)})", make)

    withColumns = with_columns

    def with_column_renamed(self, existing: str, new: str) -> DataStream:
        """Give a column another name; the event time stays the event time.

        Raises:
            StreamTypeError: there is no such column (a DataFrame would let that pass), or the new name is taken.
        """

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_there(prototype, (existing,), "to rename")
            return partial(functions.with_column_renamed, existing=existing, new=new)

        return self._then(f"with_column_renamed({existing}, {new})", make, renamed={existing: new})

    withColumnRenamed = with_column_renamed

    def drop(self, *columns: Column | str) -> DataStream:
        """Leave these columns out.

        Raises:
            StreamTypeError: there is no such column (a DataFrame would let that pass).
        """

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            check_some(columns)
            check_there(prototype, columns, "to drop")
            return partial(functions.drop, columns=columns)

        return self._then(f"drop({listed(*columns)})", make)

    def map_in_pandas(self, function: PandasFunction, schema: StructType | str) -> DataStream:
        """Let a function make pandas DataFrames of pandas DataFrames, in Python processes of the executors.

        It is given an iterator over a part of a batch and yields rows of `schema`, a StructType or DDL. Frames have
        nullable types for whole numbers and booleans, Arrow's for lists, maps and structs, and times in UTC.
        """
        return self._then(
            f"map_in_pandas({named(function)})",
            lambda _: partial(functions.map_in_pandas, function=checked_sendable(function), schema=schema),
        )

    mapInPandas = map_in_pandas

    def map_in_arrow(self, function: ArrowFunction, schema: StructType | str) -> DataStream:
        """Let a function make Arrow record batches of record batches: `map_in_pandas` without the way over pandas."""
        return self._then(
            f"map_in_arrow({named(function)})",
            lambda _: partial(functions.map_in_arrow, function=checked_sendable(function), schema=schema),
        )

    mapInArrow = map_in_arrow

    def join(
        self,
        static: DataFrame,
        on: JoinOn | None = None,
        how: str = "inner",
        refresh: Duration | None = None,
    ) -> DataStream:
        """Join every batch with a DataFrame: one that does not change, or with `refresh` one that may.

        `how` is inner, left, left_semi, left_anti or cross: what keeps static rows that match nothing has no meaning
        batch by batch. The DataFrame is computed again for every batch, from where it is read, unless it is cached, and
        must give the same rows each time: a restarted job works on with what it reads then.

        With `refresh`, such as `"10min"`, its rows are kept for so long, by the clock of this machine, and read again
        for the first batch behind that; so are the names of its files. Each batch is joined with one version of them,
        and every row comes out once; which version it was joined with may differ from run to run.

        Raises:
            DurationError: `refresh` is no length of time above zero.
            StreamTypeError: the columns do not fit, both sides have one of the same name beside those of `on`, or the
                kind of join is none of these.
        """

        refresh_ms = None if refresh is None else positive_duration_ms(refresh, "refresh")

        def make(prototype: DataFrame) -> Callable[[DataFrame], DataFrame]:
            table, kind = checked_static(static), checked_how(how, on)
            if refresh_ms is None:
                return partial(functions.join, static=table, on=on, how=kind)
            return JoinRefreshed(KeptTable(table, refresh_ms), on, kind, prototype)

        conditions: list[str] | list[Column] | list[Column | str] = (
            on if isinstance(on, list) else [on] if on is not None else []
        )
        return self._then(f"{how} join({listed(*conditions)})", make)


def listed(*columns: Column | str) -> str:
    """Columns as the user would write them, for names; what is long is cut short."""
    names = ", ".join(map(column_text, columns))
    return names if len(names) <= _LONGEST else names[: _LONGEST - 3] + "..."


def named(function: object) -> str:
    """The name of a function, or of what is called like one."""
    return getattr(function, "__name__", type(function).__name__)
