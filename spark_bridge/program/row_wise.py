"""Finds functions that work row by row, so that a batch may be processed in slices.

The user's function may be any function of a DataFrame: it may deduplicate, sort, number rows, or look at all rows
first. The search calls the function with probe rows, and reads from Spark's analysis of the result whether it combines
rows. If the analysis does not decide this, batches are not divided.
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
        # A rich function may count its batches, so it must be called once for each batch, and never with probe rows.
        return False
    probe = _probe(session, schema)
    try:
        result = reduce(lambda rows, function: function(rows), functions, probe)
        plan = result._jdf.queryExecution().analyzed()
    except Exception:  # noqa: BLE001 - a wrong function is reported when it processes a batch
        return False
    # A subquery reads all rows, and random numbers and counters start again in every slice.
    return plan.deterministic() and plan.subqueriesAll().isEmpty() and _is_line(plan, _leaf(probe))


def _probe(session: SparkSession, schema: StructType) -> DataFrame:
    """Return streaming rows of this schema, which Spark refuses to compute.

    So a function that computes its rows, for example with `rows.count()`, raises. Its plan would not show that.
    """
    stream = session.readStream.format("rate").load()
    return stream.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema))


def _is_line(plan: Any, leaf: Any) -> bool:
    while plan.getClass().getSimpleName() in _ROW_BY_ROW:
        plan = plan.children().head()
    return bool(plan.equals(leaf))


def _leaf(probe: DataFrame) -> Any:
    return probe._jdf.queryExecution().analyzed().collectLeaves().head()
