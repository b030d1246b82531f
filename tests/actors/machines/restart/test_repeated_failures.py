"""A failure that repeats is recognised, and the job is not restarted again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.restart.repeated_failures import MAX_SIGNATURES, RepeatedFailures, failure_signature
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobVertexId, ResultPartitionId

CAST = SerializedThrowable(type_name="NumberFormatException", message="stage 4 of 'logs -> counts': 'abc' is no number")
LOST = SerializedThrowable(type_name="SlotLostError", message="task-manager-1 is lost")
IN_A_ROW = "failed 3 times in a row with the same failure, without a completed checkpoint in between"


def count_failures(limit: int | None, *causes: SerializedThrowable) -> list[str | None]:
    repeated = RepeatedFailures(limit)
    return [repeated.count("counts", cause) for cause in causes]


def test_a_repeated_failure_ends_the_job_at_its_limit() -> None:
    assert count_failures(3, CAST, CAST, CAST) == [None, None, IN_A_ROW]


def test_without_a_limit_repeated_failures_always_restart() -> None:
    assert set(count_failures(None, *[CAST] * 100)) == {None}


def test_a_failure_of_many_regions_counts_once_per_region() -> None:
    repeated = RepeatedFailures(2)

    assert {repeated.count("counts", CAST, region) for region in range(10)} == {None}
    assert repeated.count("counts", CAST, 3) == (
        "failed 2 times with the same failure, without a completed checkpoint in between"
    )


def test_a_checkpoint_in_between_resets_the_count() -> None:
    repeated = RepeatedFailures(2)

    repeated.count("counts", CAST)
    repeated.checkpoint_completed()

    assert repeated.count("counts", CAST) is None


def test_two_alternating_failures_end_the_job_too() -> None:
    other = replace(CAST, message="another one")

    last = count_failures(3, CAST, other, CAST, other, CAST)[-1]

    assert last == IN_A_ROW.replace(" in a row", "")


@pytest.mark.parametrize(
    "type_name", ["SlotLostError", "HeartbeatTimeoutError", "BridgeLostError", "ExecutorLostError", "StorageError"]
)
def test_failures_of_the_environment_never_count_as_repeated(type_name: str) -> None:
    assert set(count_failures(2, *[replace(LOST, type_name=type_name)] * 10)) == {None}


def test_lost_partitions_never_count_as_repeated_failures() -> None:
    lost = replace(CAST, lost_partition=ResultPartitionId("part"))

    assert set(count_failures(2, *[lost] * 10)) == {None}


def test_the_loss_of_a_task_manager_does_not_affect_the_count() -> None:
    assert count_failures(3, CAST, LOST, CAST, LOST, CAST)[-1] == IN_A_ROW


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("stage 0 of 'a -> b': no", "stage 17 of 'a -> b': no"),
        ("Lost task 0.3 in stage 12.0 (TID 45): no", "Lost task 1.0 in stage 13.0 (TID 46): no"),
        ("from 10.0.0.1:7077", "from 10.0.0.2:7078"),
        ("part-3f2b8c1e-0000-4000-8000-1234567890ab", "part-4f2b8c1e-0000-4000-8000-1234567890ac"),
        ("attempt 3 of java.lang.Object@1b2c3d4e", "attempt 4 of java.lang.Object@1b2c3d4f"),
        ("the last one 1 with EXPIRED", "the last one 2 with EXPIRED"),
        (
            "[CAST_INVALID_INPUT] The value 'cart' cannot be cast",
            "[CAST_INVALID_INPUT] The value 'auth' cannot be cast",
        ),
        ("KeyError: 'NL'", "KeyError: 'BE'"),
    ],
)
def test_variable_parts_of_a_message_do_not_distinguish_failures(first: str, second: str) -> None:
    one, other = (failure_signature("v", replace(CAST, message=text)) for text in (first, second))

    assert one == other


@pytest.mark.parametrize(
    ("vertex", "cause"),
    [
        ("other", CAST),
        (None, CAST),
        ("counts", replace(CAST, type_name="ArithmeticException")),
        ("counts", replace(CAST, message="stage 4 of 'logs -> counts': 'abc' is no date")),
        ("counts", replace(CAST, message="the service has answered 503")),
    ],
)
def test_a_different_vertex_type_or_message_is_a_different_failure(
    vertex: JobVertexId | None, cause: SerializedThrowable
) -> None:
    assert failure_signature(vertex, cause) != failure_signature("counts", CAST)


def test_only_the_last_distinct_failures_are_remembered() -> None:
    different = [replace(CAST, message=f"no {number}") for number in range(MAX_SIGNATURES)]

    assert count_failures(2, CAST, *different, CAST)[-1] is None


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="1 or more, not 0"):
        RepeatedFailures(0)
