"""Valid programs of a data stream; invalid programs fail on the line of the error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.errors import DuplicateUidError, ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.connectors.file.sink import FileSink
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark


def kinds(program: Program) -> list[OperatorKind]:
    return [transformation.kind for transformation in program.transformations]


@pytest.mark.parametrize(
    ("operation", "begins"),
    [
        (lambda stream: stream.select("auction", "prize"), "select(auction, prize): "),
        (lambda stream: stream.where(F.col("prize") > 1), "where("),
        (lambda stream: stream.where("price"), "where(price): "),
        (lambda stream: stream.key_by("action"), "key_by(action) after bids: "),
    ],
)
def test_an_unknown_column_is_refused_at_its_use(
    spark: SparkSession, operation: Callable[[DataStream], object], begins: str
) -> None:
    stream = bids(spark)

    with pytest.raises(StreamTypeError) as refused:
        operation(stream)

    assert str(refused.value).startswith(begins)
    assert "\n" not in str(refused.value)


def test_an_operator_over_a_udf_is_named_after_function_and_columns(spark: SparkSession) -> None:
    @F.udf("long")
    def doubled(price: int) -> int:
        return 2 * price

    selected = bids(spark).select((doubled("price") + 1).alias("more"))

    assert selected.flow.operator.name == "select(+(doubled(price), 1) AS more)"


def test_an_unknown_column_in_a_function_is_refused_with_its_line(spark: SparkSession) -> None:
    def cheap(rows: DataFrame) -> DataFrame:
        return rows.where(F.col("prize") < 10)

    with pytest.raises(StreamTypeError) as refused:
        bids(spark).transform(cheap)

    message, *line = str(refused.value).splitlines()
    assert message.startswith("transform(cheap): ")
    assert "`prize`" in message
    assert line == [
        f'  File "{__file__}", line {cheap.__code__.co_firstlineno + 1}, in cheap',
        '    return rows.where(F.col("prize") < 10)',
    ]


def test_a_function_must_return_a_data_frame(spark: SparkSession) -> None:
    def forgets(rows: DataFrame) -> DataFrame:
        rows.where("price > 1")
        return None  # type: ignore[return-value]

    with pytest.raises(StreamTypeError, match=r"transform\(forgets\): .* returned nothing: is a `return` missing\?"):
        bids(spark).transform(forgets)


def test_exceptions_of_a_function_are_passed_on_with_a_note(spark: SparkSession) -> None:
    def fails(rows: DataFrame) -> DataFrame:
        raise KeyError("rates")

    with pytest.raises(KeyError, match="rates") as raised:
        bids(spark).transform(fails)

    assert "transform(fails)" in raised.value.__notes__[0]


def test_duplicate_column_names_are_refused(spark: SparkSession) -> None:
    with pytest.raises(StreamTypeError, match="two columns are named 'PRICE'"):
        bids(spark).select("price", F.col("bidder").alias("PRICE"))


def test_a_refused_call_leaves_the_program_unchanged(spark: SparkSession) -> None:
    program = Program()
    stream = bids(spark, program)

    with pytest.raises(StreamTypeError):
        stream.select("prize")
    stream.select("price")

    assert [str(made) for made in program.transformations] == ["bids", "select(price)"]


def test_an_event_time_window_needs_an_event_time(spark: SparkSession) -> None:
    keyed = bids(spark, event_time=None).key_by("auction")

    with pytest.raises(StreamTypeError, match=r"bids gives no event time"):
        keyed.window(HOURS)


def test_event_time_is_lost_with_its_column(spark: SparkSession) -> None:
    keyed = bids(spark).select("auction", "price").key_by("auction")

    with pytest.raises(StreamTypeError, match="dropped or renamed"):
        keyed.window(HOURS)


@pytest.mark.parametrize("column", ["price", "nothing"])
def test_a_window_accepts_aggregates_and_no_other_columns(spark: SparkSession, column: str) -> None:
    windowed = bids(spark).key_by("auction").window(HOURS)

    with pytest.raises(StreamTypeError, match=r"^aggregate\((price|nothing)\): "):
        windowed.aggregate(F.col(column))


def test_a_window_result_has_its_bounds_keys_and_aggregates(spark: SparkSession) -> None:
    counted = bids(spark).key_by("auction").window(HOURS).aggregate(F.count("*").alias("bids"), F.max("price"))

    selected = counted.select("window_start", "window_end", "auction", "bids", "`max(price)`")

    assert isinstance(selected, DataStream)


@pytest.mark.parametrize("empty", ["key_by", "aggregate"])
def test_untyped_nulls_can_be_neither_keys_nor_aggregated(spark: SparkSession, empty: str) -> None:
    stream = bids(spark)

    with pytest.raises(ProgramError, match="at least one column"):
        stream.key_by() if empty == "key_by" else stream.key_by("auction").window(HOURS).aggregate()


def test_a_duplicate_uid_is_refused(spark: SparkSession) -> None:
    stream = bids(spark).uid("bids")
    narrowed = stream.select("price")

    with pytest.raises(DuplicateUidError, match=r"the uid 'bids' for 'select\(price\)' belongs to 'bids'"):
        narrowed.uid("bids")
    assert narrowed.uid("prices") is narrowed


def test_a_uid_may_be_set_twice_on_the_same_operator(spark: SparkSession) -> None:
    stream = bids(spark).uid("bids")

    assert stream.uid("bids") is stream


@pytest.mark.parametrize("parallelism", [0, -1, True, 1.5, "2"])
def test_a_parallelism_must_be_a_positive_integer(spark: SparkSession, parallelism: int) -> None:
    stream = bids(spark)

    for setter in (stream.set_parallelism, stream.set_max_parallelism):
        with pytest.raises(ProgramError, match=r"parallelism of bids must be a whole number from 1"):
            setter(parallelism)


def test_a_stream_may_feed_several_operators(spark: SparkSession) -> None:
    program = Program()
    stream = bids(spark, program)

    stream.where("price > 100").sink_to(FileSink.parquet("/dear"))
    stream.where("price <= 100").sink_to(FileSink.parquet("/cheap"))

    stateless, sink = OperatorKind.STATELESS, OperatorKind.SINK
    assert kinds(program) == [OperatorKind.SOURCE, stateless, sink, stateless, sink]
