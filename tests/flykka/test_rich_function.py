"""Functions are validated when they are declared: by a trial call between `open` and `close`, or by their declared
columns.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import RichFunction, RuntimeContext
from flykka.api.streams.program import Program
from flykka.errors import StreamTypeError
from flykka.spark_bridge.operators.stateless import TransformCode
from tests.flykka.programs import bids

spark_test = pytest.mark.spark


class Rates(RichFunction):
    """Adds a column from data that is available only while the function is open."""

    def __init__(self, *, fails_at: str = "") -> None:
        self.fails_at = fails_at
        self.calls: list[str] = []
        self.rate: int | None = None
        self.context: RuntimeContext | None = None

    def open(self, context: RuntimeContext) -> None:
        self._called("open")
        self.context = context
        self.rate = 7

    def close(self) -> None:
        self._called("close")

    def __call__(self, rows: DataFrame) -> DataFrame:
        self._called("call")
        return rows.withColumn("rate", F.lit(self.rate))

    def _called(self, what: str) -> None:
        # All copies share one list.
        self.calls.append(what)
        if what in self.fails_at:
            raise OSError(f"no {what} today")


class Declared(Rates):
    schema = "auction long, rate int"


@spark_test
def test_a_rich_function_is_opened_called_and_closed_to_derive_its_columns(spark: SparkSession) -> None:
    program, rates = Program(), Rates()

    stream = bids(spark, program).transform(rates)

    assert stream.flow.type.prototype.columns[-1] == "rate"
    assert rates.calls == ["open", "call", "close"]
    assert program.transformations[-1].name == "transform(Rates)"


@spark_test
def test_the_trial_call_uses_a_copy_of_the_function(spark: SparkSession) -> None:
    program, rates = Program(), Rates()

    bids(spark, program).transform(rates)

    assert rates.rate is None
    code = program.transformations[-1].code
    assert isinstance(code, TransformCode)
    assert code.function is rates


@spark_test
@pytest.mark.parametrize(
    ("fails_at", "called"),
    [("open", ["open", "close"]), ("call", ["open", "call", "close"]), ("close", ["open", "call", "close"])],
)
def test_a_failing_function_is_closed_and_its_error_raised(
    spark: SparkSession, fails_at: str, called: list[str]
) -> None:
    program, rates = Program(), Rates(fails_at=fails_at)
    stream = bids(spark, program)

    with pytest.raises(OSError, match=f"no {fails_at} today") as raised:
        stream.transform(rates)

    assert rates.calls == called
    assert "transform(Rates)" in raised.value.__notes__[-1]
    assert len(program.transformations) == 1


@spark_test
def test_an_error_in_close_does_not_hide_the_first_error(spark: SparkSession) -> None:
    with pytest.raises(OSError, match="no open today") as raised:
        bids(spark).transform(Rates(fails_at="open close"))

    assert raised.value.__notes__[0] == "flykka: afterwards its close() raised OSError: no close today"


@spark_test
def test_a_function_with_declared_columns_is_not_opened(spark: SparkSession) -> None:
    rates = Declared()

    stream = bids(spark).transform(rates)

    assert stream.flow.type.prototype.columns == ["auction", "rate"]
    assert rates.calls == []


@spark_test
def test_an_unparsable_schema_is_refused(spark: SparkSession) -> None:
    rates = Rates()
    rates.schema = "auction, rate"

    with pytest.raises(StreamTypeError, match=r"transform\(Rates\): the declared schema cannot be read"):
        bids(spark).transform(rates)


@spark_test
def test_the_trial_runs_as_subtask_0_of_1_without_a_job(spark: SparkSession) -> None:
    seen: list[RuntimeContext] = []

    class Looks(Rates):
        def open(self, context: RuntimeContext) -> None:
            seen.append(context)

    bids(spark).transform(Looks())

    (context,) = seen
    assert (context.uid, context.task_name, context.session) == ("stateless-2", "transform(Looks)", spark)
    assert (context.job_id, context.task_name_with_subtasks) == (None, "transform(Looks) (1/1)")


def test_a_rich_function_without_a_call_method_cannot_be_created() -> None:
    class Forgets(RichFunction):
        pass

    with pytest.raises(TypeError, match="__call__"):
        Forgets()  # type: ignore[abstract]


@pytest.mark.slow
def test_a_rich_function_is_defined_without_pyspark() -> None:
    code = "import sys; from flykka import RichFunction, RuntimeContext; assert 'pyspark' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
