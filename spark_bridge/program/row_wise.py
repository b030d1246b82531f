"""Finds functions that work row by row, so that a batch may be taken through them in slices.

The user's function may be anything that makes a DataFrame of one: it may deduplicate, sort, number rows, or look at
all of them before it decides. It is tried on a probe, and Spark's analysis of the result says what it does. Where that
is not plain enough the batch stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from flykka.spark_bridge.program.rich_function import RichFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias"})


def works_row_by_row(
    session: SparkSession, schema: StructType, functions: Sequence[Callable[[DataFrame], DataFrame]]
) -> bool:
    if not functions:
        return True
    if any(isinstance(function, RichFunction) for function in functions):
        # It may count its batches: it is called once for each, and never on a probe.
        return False
    probe = _probe(session, schema)
    try:
        made = reduce(lambda rows, function: function(rows), functions, probe)
        plan = made._jdf.queryExecution().analyzed()
    except Exception:  # noqa: BLE001 - what is wrong with a function is told where a batch goes through it
        return False
    # A subquery sees all rows; numbers drawn by chance, or counted, start again in every slice.
    return plan.deterministic() and plan.subqueriesAll().isEmpty() and _is_line(plan, _leaf(probe))


def _probe(session: SparkSession, schema: StructType) -> DataFrame:
    """Rows of this schema, of a stream: Spark refuses to compute them.

    A function that looks at its rows, as `rows.count()` does, has no trace of that in its plan.
    """
    stream = session.readStream.format("rate").load()
    return stream.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema))


def _is_line(plan: Any, leaf: Any) -> bool:
    while plan.getClass().getSimpleName() in _ROW_BY_ROW:
        plan = plan.children().head()
    return bool(plan.equals(leaf))


def _leaf(probe: DataFrame) -> Any:
    return probe._jdf.queryExecution().analyzed().collectLeaves().head()
