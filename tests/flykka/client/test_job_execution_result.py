"""The accumulators of a finished job as its author reads them."""

from __future__ import annotations

import pytest

from flykka.client.job_execution_result import JobExecutionResult
from flykka.errors import AccumulatorError
from flykka.messages.tasks.accumulator import (
    AccumulatorResults,
    AccumulatorSnapshot,
    AccumulatorType,
    FailedAccumulatorResult,
    HistogramCount,
)
from flykka.messages.wire.ids import JobId

COUNTED = (
    AccumulatorSnapshot(name="rows", type=AccumulatorType.LONG_COUNTER, count=7),
    AccumulatorSnapshot(name="price", type=AccumulatorType.DOUBLE_COUNTER, total=1.5),
    AccumulatorSnapshot(name="sizes", type=AccumulatorType.HISTOGRAM, counts=(HistogramCount(number=3, count=2),)),
)


def result(*failed: FailedAccumulatorResult) -> JobExecutionResult:
    accumulators = AccumulatorResults(merged=COUNTED, failed=failed)
    return JobExecutionResult(job_id=JobId("j"), job_name="bids", net_runtime_ms=1, accumulators=accumulators)


def test_every_accumulator_has_a_value_of_its_type() -> None:
    assert result().accumulator_results == {"rows": 7, "price": 1.5, "sizes": {3: 2}}
    assert result().get_accumulator_result("rows") == 7


def test_an_unknown_accumulator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AccumulatorError, match="job 'bids' has no accumulator 'row'; it has 'rows', 'price', 'sizes'"):
        result().get_accumulator_result("row")


def test_an_accumulator_of_two_types_is_refused_but_others_are_available() -> None:
    torn = result(FailedAccumulatorResult(name="torn", reason="it is two things"))

    with pytest.raises(AccumulatorError, match="accumulator 'torn' of job 'bids' has no result: it is two things"):
        _ = torn.accumulator_results
    assert torn.get_accumulator_result("rows") == 7
