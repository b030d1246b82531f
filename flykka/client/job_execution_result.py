"""The result of a job that has FINISHED (Flink's JobExecutionResult)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from flykka.errors import AccumulatorError
from flykka.messages.tasks.accumulator import (
    AccumulatorResults,
    AccumulatorSnapshot,
    AccumulatorType,
    FailedAccumulatorResult,
)
from flykka.messages.wire.ids import JobId

AccumulatorValue = int | float | dict[int, int]


def accumulator_value(snapshot: AccumulatorSnapshot) -> AccumulatorValue:
    match snapshot.type:
        case AccumulatorType.INT_COUNTER | AccumulatorType.LONG_COUNTER | AccumulatorType.METER:
            return snapshot.count
        case AccumulatorType.DOUBLE_COUNTER | AccumulatorType.GAUGE:
            return snapshot.total
        case AccumulatorType.HISTOGRAM:
            return {each.number: each.count for each in snapshot.counts}
        case _:
            assert_never(snapshot.type)


def accumulator_values(results: AccumulatorResults, job_name: str) -> dict[str, AccumulatorValue]:
    """Return the values of all accumulators of a job, by name.

    Raises:
        AccumulatorError: an accumulator has different types in different functions.
    """
    for failed in results.failed:
        raise _without_result(failed, job_name)
    return {each.name: accumulator_value(each) for each in results.merged}


def _without_result(failed: FailedAccumulatorResult, job_name: str) -> AccumulatorError:
    return AccumulatorError(f"the accumulator {failed.name!r} of job {job_name!r} has no result: {failed.reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExecutionResult:
    """The result of a job that has FINISHED. The client measures the run time from submission to the end.

    `checkpoint_path` is the checkpoint or savepoint retained for a stopped job. It is None for a job that reached the
    end of its input. `is_earlier` is True if the job had already finished in the same run of its application, so that
    it did not run again.
    """

    job_id: JobId
    job_name: str
    net_runtime_ms: int
    checkpoint_path: str | None = None
    accumulators: AccumulatorResults = field(default=AccumulatorResults(), repr=False)
    is_earlier: bool = False

    @property
    def accumulator_results(self) -> dict[str, AccumulatorValue]:
        """All accumulators, merged over all subtasks, by name: an int, a float, or counts by number.

        Raises:
            AccumulatorError: an accumulator has different types in different functions.
        """
        return accumulator_values(self.accumulators, self.job_name)

    def get_accumulator_result(self, name: str) -> AccumulatorValue:
        """Return one accumulator, merged over all subtasks.

        Raises:
            AccumulatorError: there is no such accumulator, or it has different types in different functions.
        """
        for failed in self.accumulators.failed:
            if failed.name == name:
                raise _without_result(failed, self.job_name)
        for snapshot in self.accumulators.merged:
            if snapshot.name == name:
                return accumulator_value(snapshot)
        names = ", ".join(repr(each.name) for each in self.accumulators.merged) or "no accumulators"
        raise AccumulatorError(f"job {self.job_name!r} has no accumulator {name!r}; it has {names}")
