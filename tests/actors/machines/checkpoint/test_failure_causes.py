"""A failed checkpoint is reported with its cause, its task and TaskManager, and how often the same failure occurred."""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.control.checkpoint_coordination import AbortPendingCheckpoints
from flykka.messages.control.job import CheckpointAborted
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.checkpoint.coordinating import JOB, SOURCE, Coordination, complete_checkpoint, planned_task

SINK = planned_task("sink", is_source=False, name="sink (1/1)", task_manager="taskmanager-2")
DISK_FULL = SerializedThrowable(type_name="DiskFullError", message="snapshot 3: No space left on device\nline of user")
REASON = CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION


def tolerant() -> Coordination:
    return Coordination(SOURCE, SINK, tolerable_failures=99)


def decline_checkpoint(harness: Coordination, cause: SerializedThrowable = DISK_FULL) -> None:
    harness.trigger()
    harness.decline("sink", max(harness.machine.pending), REASON, cause)


def failures(harness: Coordination) -> list[str]:
    return [str(aborted.failure) for aborted in harness.effects(CheckpointAborted)]


def test_a_tolerated_decline_keeps_its_cause_task_and_task_manager() -> None:
    harness = tolerant()

    decline_checkpoint(harness)

    text = (
        "CHECKPOINT_ASYNC_EXCEPTION at sink (1/1) on taskmanager-2: DiskFullError: snapshot 3: No space left on device"
    )
    assert failures(harness) == [text]
    assert harness.stats.history[0].failure_text == text


def test_equal_failures_are_counted_until_a_checkpoint_completes() -> None:
    harness = tolerant()

    for number in (3, 4, 5):
        decline_checkpoint(harness, SerializedThrowable(type_name="E", message=f"checkpoint {number}"))
        harness.advance(1_000)
    complete_checkpoint(harness, 4)
    decline_checkpoint(harness, SerializedThrowable(type_name="E", message="checkpoint 9"))

    counts = [
        (aborted.failure.times, aborted.failure.since_ms)
        for aborted in harness.effects(CheckpointAborted)
        if aborted.failure
    ]
    assert counts == [(1, 0), (2, 0), (3, 0), (1, 3_000)]
    assert "E: checkpoint 5 (the same 3 times since " in failures(harness)[2]


def test_a_checkpoint_aborted_by_a_failover_has_no_failure_cause() -> None:
    harness = tolerant()
    harness.trigger()

    harness.handle(AbortPendingCheckpoints(job_id=JOB))

    assert failures(harness) == ["None"]


def test_an_expired_checkpoint_names_the_missing_tasks() -> None:
    harness = Coordination(SOURCE, SINK, planned_task("other"), tolerable_failures=9, timeout_ms=500)
    harness.trigger()
    harness.acknowledge("source", 1)

    harness.advance(500)

    assert failures(harness) == [
        "EXPIRED at sink (1/1) on taskmanager-2: TimeoutError: no acknowledgement within 500 ms, nor of 1 other tasks"
    ]
