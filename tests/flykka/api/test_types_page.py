"""The types page agrees with the product: unsupported types are refused on their line, by column and type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType, TimestampType
from pyspark.testing.objects import ExamplePointUDT

from flykka import DataStream, FileSource
from flykka.api.streams.dataflow import Dataflow
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.transformation import Input, Transformation
from flykka.errors import FlykkaError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.errors import FunctionError
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.flykka.api.column_types import USES, VALUES
from tests.flykka.api.table.queries import Queries
from tests.layout.sources import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REFUSALS = (FlykkaError, FunctionError, PrototypeError)
COLUMNS = StructType(
    [StructField("id", LongType()), StructField("at", TimestampType()), StructField("point", ExamplePointUDT())]
)
LINES = (ROOT / "docs" / "types.md").read_text(encoding="utf-8").splitlines()
TABLE = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES if line.startswith("| ")]
CELLS = {row[0]: dict(zip(TABLE[0][1:], row[1:], strict=True)) for row in TABLE[2:]}
TOLD_APART = ("`bigint`", "`time`", "`void`")
"""The types whose rows on the page differ most."""


@pytest.fixture(scope="module")
def queries(spark: SparkSession) -> Iterator[Queries]:
    was = spark.conf.get("spark.sql.timeType.enabled")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield Queries(spark)
    spark.conf.set("spark.sql.timeType.enabled", was or "false")


def stream_of_columns(queries: Queries) -> DataStream:
    program = queries.program
    code = SourceCode(source=FileSource.parquet("/no/such/folder", schema=COLUMNS), watermark_delay_ms=0)
    made = Transformation(kind=OperatorKind.SOURCE, position=program.next_position, name="rows", code=code)
    program.add(made)
    prototype = queries.spark.createDataFrame([], COLUMNS)
    rows = StreamType(prototype=prototype, event_time=EventTime(column="at"))
    return DataStream(Dataflow(program=program, inputs=(Input(source=made),), type=rows))


def refusal(attempt: Callable[[], object]) -> str | None:
    try:
        attempt()
    except REFUSALS as refused:
        return str(refused)
    return None


def refusals_by_use(queries: Queries, kind: str) -> Iterator[tuple[str, list[str | None]]]:
    """Return the errors for a column of this type by use; if no stream can have such a column, return the stream's
    error.
    """
    source = stream_of_columns(queries)
    queries.create_temporary_view("source", source)
    try:
        stream = source.select_expr("id", "at", f"{VALUES[kind]} AS v")
    except StreamTypeError as refused:
        everywhere = [str(refused), refusal(lambda: queries.sql(f"SELECT {VALUES[kind]} AS v FROM source"))]
        yield from ((use, everywhere) for use in USES)
        return
    queries.create_temporary_view("t", stream)
    queries.create_temporary_view("newest", stream, primary_key="id")
    for name, use in USES.items():
        said = [refusal(lambda verb=verb: verb(stream)) for verb in use.verbs]  # type: ignore[misc]
        asked = [refusal(lambda query=query: queries.sql(query)) for query in use.queries]  # type: ignore[misc]
        yield name, said + asked


def test_the_page_lists_every_type_and_every_use() -> None:
    assert list(CELLS) == list(VALUES)
    assert TABLE[0][1:] == list(USES)
    assert {cell for row in CELLS.values() for cell in row.values()} == {"yes", "refused"}


@pytest.mark.parametrize(
    "kind", [kind if kind in TOLD_APART else pytest.param(kind, marks=pytest.mark.long) for kind in VALUES]
)
def test_a_column_is_accepted_or_refused_as_documented(queries: Queries, kind: str) -> None:
    found = dict(refusals_by_use(queries, kind))

    wrong = {
        use: texts
        for use, texts in found.items()
        if [text is not None for text in texts] != [CELLS[kind][use] == "refused"] * len(texts)
    }
    assert wrong == {}
    of_type = re.escape(kind.strip("`").partition("`")[0].partition("<")[0]) + "|udt|examplepoint|struct<>|collation"
    unnamed = [
        text
        for texts in found.values()
        for text in texts
        if text is not None and not (re.search(r"\bv\b", text) and re.search(of_type, text, re.IGNORECASE))
    ]
    assert unnamed == []
