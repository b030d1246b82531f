"""Few rows in the driver, as a LocalRelation: Spark's optimizer computes projections and filters of them without a job.

A job takes longer than computing a small batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.spark_bridge.rows.type_support import parts_of
from flykka.spark_bridge.session.jvm_classes import frame_of_plan, jvm_class, scala_object, scala_sequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOCAL = "LocalRelation"
_PROJECTIONS = frozenset({"CollectMetrics", "Filter", "Project", "SubqueryAlias"})
"""Kinds of nodes that return at most one row for each row."""

_RELATIONS = frozenset({_LOCAL, "LogicalRDD", "LogicalRelation"})
_PRESERVED = (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
"""Types whose values Arrow preserves."""

_UNLIMITED = 2**62


class LocalRows:
    """Rows in the driver's JVM. They are their own `Storage`, which is freed with the last reference to them."""

    rdd_id = None

    def __init__(self, frame: DataFrame, relation: Any) -> None:
        self.frame = frame
        self._relation = relation
        self.rows = int(relation.data().length())

    @classmethod
    def of_relation(cls, session: SparkSession, relation: Any) -> LocalRows:
        return cls(frame_of_plan(session, relation), relation)

    @classmethod
    def of_frame(cls, frame: DataFrame) -> LocalRows | None:
        plan = frame._jdf.queryExecution().analyzed()
        return cls(frame, plan) if str(plan.nodeName()) == _LOCAL else None

    def within(self, session: SparkSession) -> LocalRows:
        return LocalRows.of_relation(session, self._relation)

    def is_whole(self) -> bool:
        return True

    def free(self) -> None: ...

    def table(self) -> pa.Table:
        context = self.frame.sparkSession.sparkContext
        rows, schema = self._relation.data().iterator(), self._relation.schema()
        batches = _converters(context).toBatchWithSchemaIterator(
            rows, schema, _UNLIMITED, _UNLIMITED, "UTC", False, False
        )
        # Through a file, because the end of a long answer of Py4J waits 40 ms for an acknowledgement.
        with TemporaryFolder("rows") as folder:
            path = folder / "rows"
            stream = jvm_class(context, "java.io.DataOutputStream")(
                jvm_class(context, "java.io.FileOutputStream")(str(path))
            )
            jvm_class(context, "org.apache.spark.api.python.PythonRDD").writeIteratorToStream(batches, stream)
            stream.close()
            return _read_table(path)

    def followed_by(self, others: Sequence[LocalRows]) -> LocalRows:
        """Return these rows and then the others, whose columns differ at most in which of them can be null."""
        if not others:
            return self
        context = self.frame.sparkSession.sparkContext
        data = self._relation.data()
        for each in others:
            data = data.concat(each._relation.data())
        union = scala_object(context, "org.apache.spark.sql.catalyst.plans.logical.Union")
        columns = scala_sequence(context, (each._relation.output() for each in (self, *others)))
        output = union.mergeChildOutputs(columns)
        return LocalRows.of_relation(self.frame.sparkSession, local_relation(context, output, data))


def are_local(rows: DataFrame) -> bool:
    """Return True for projections and filters of rows in the driver."""
    return _source(rows) == _LOCAL


def local_rows(rows: DataFrame) -> LocalRows | None:
    """Compute projections and filters of rows in the driver without a job. Other rows are not computed."""
    if not are_local(rows):
        return None
    optimized = rows._jdf.queryExecution().optimizedPlan()
    return LocalRows.of_relation(rows.sparkSession, optimized) if str(optimized.nodeName()) == _LOCAL else None


def collected_rows(rows: DataFrame) -> LocalRows | None:
    """Compute rows with a job that moves them into the driver.

    Rows are not computed if the plan may return more rows than it reads, or if Arrow changes values of their types.
    """
    if _source(rows) not in _RELATIONS or any(type(each) not in _PRESERVED for each in parts_of(rows.schema)):
        return None
    return LocalRows.of_frame(rows_of_table(rows.sparkSession, rows.toArrow(), rows.schema))


def rows_of_table(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Return the rows of an Arrow table, with these columns: in the driver, or as partitions if they are large."""
    context = session.sparkContext
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content = jvm_class(context, "java.io.ByteArrayInputStream")(sink.getvalue().to_pybytes())
    channel = jvm_class(context, "java.nio.channels.Channels").newChannel(content)
    java_schema = jvm_class(context, "org.apache.spark.sql.types.DataType").fromJson(schema.json())
    converters = _converters(context)
    batches = converters.getBatchesFromStream(channel)
    return DataFrame(converters.toDataFrame(batches, java_schema, session._jsparkSession, "UTC", False, False), session)


def _source(rows: DataFrame) -> str:
    """Return the kind of the highest node that may return several rows for a row."""
    node = rows._jdf.queryExecution().analyzed()
    while (kind := str(node.nodeName())) in _PROJECTIONS:
        node = node.children().head()
    return kind


def local_relation(context: SparkContext, output: Any, data: Any) -> Any:
    make = jvm_class(context, "org.apache.spark.sql.catalyst.plans.logical.LocalRelation")
    return make(output, data, False, jvm_class(context, "scala.Option").empty())


def _read_table(path: Path) -> pa.Table:
    with path.open("rb") as file:
        file.read(4)
        return pa.ipc.open_stream(file.read()).read_all()


def _converters(context: SparkContext) -> Any:
    return scala_object(context, "org.apache.spark.sql.execution.arrow.ArrowConverters")
