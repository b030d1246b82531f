"""Completion of a checkpoint, and its abort."""

from __future__ import annotations

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import (
    CheckpointMetrics,
    CompletedCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorCoordinatorsSnapshotted,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
    TaskStateEntry,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import CheckpointFailuresExceeded, CheckpointTimedOut
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId, OperatorId
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    SINK,
    SOURCE,
    Coordination,
    complete_checkpoint,
    planned_task,
    snapshot,
    two_tasks,
)


def test_only_sources_are_triggered_but_all_tasks_must_acknowledge() -> None:
    harness = two_tasks()

    harness.trigger()

    assert [effect.attempt for effect in harness.effects(TriggerCheckpoint)] == ["source"]
    assert harness.machine.pending[1].awaited == {"source", "sink"}


def test_a_checkpoint_is_complete_only_when_its_metadata_is_durable() -> None:
    harness = two_tasks(storage_answers=False)
    complete_checkpoint(harness, 1)

    before = (list(harness.machine.pending), harness.completed(), harness.effects(NotifyCheckpointComplete))
    harness.written(1)

    assert before == ([1], [], [])
    assert (list(harness.machine.pending), harness.completed()) == ([], [1])
    assert [effect.attempt for effect in harness.effects(NotifyCheckpointComplete)] == ["source", "sink"]


def test_the_metadata_contains_the_acknowledged_state_of_every_task() -> None:
    harness = two_tasks()
    harness.advance(100)
    harness.trigger()
    harness.advance(30)

    harness.acknowledge("source", 1, snapshot())
    harness.acknowledge("sink", 1, snapshot(shared=["x"]))

    [written] = harness.effects(events.WriteMetadata)
    assert written.checkpoint == CompletedCheckpoint(
        job_id=JOB,
        checkpoint_id=1,
        timestamp_ms=100,
        duration_ms=30,
        task_states=(
            TaskStateEntry(
                vertex_id=JobVertexId("source"), subtask=0, parallelism=1, max_parallelism=128, state=snapshot()
            ),
            TaskStateEntry(
                vertex_id=JobVertexId("sink"),
                subtask=0,
                parallelism=1,
                max_parallelism=128,
                state=snapshot(shared=["x"]),
            ),
        ),
    )


def test_checkpoint_duration_includes_writing_the_metadata() -> None:
    harness = two_tasks(storage_answers=False)
    harness.trigger()
    harness.acknowledge("source", 1, metrics=CheckpointMetrics(size_bytes=10, incremental_bytes=10))
    harness.acknowledge("sink", 1, metrics=CheckpointMetrics(size_bytes=500, incremental_bytes=20))

    harness.advance(40)
    harness.written(1)

    [report] = harness.effects(CheckpointCompleted)
    assert (report.duration_ms, report.size_bytes, report.incremental_bytes) == (40, 510, 30)
    assert report.path == "chk-1"


def test_tasks_are_triggered_after_the_operator_coordinators_are_snapshotted() -> None:
    harness = two_tasks(operator_coordinators=True)
    state = OperatorCoordinatorState(operator_id=OperatorId("files"), data=b"seen")

    first = harness.trigger()
    then = harness.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=(state,)))
    harness.acknowledge("source", 1)
    harness.acknowledge("sink", 1)

    assert SnapshotOperatorCoordinators(job_id=JOB, checkpoint_id=1) in first
    assert not [effect for effect in first if isinstance(effect, TriggerCheckpoint)]
    assert [effect.attempt for effect in then if isinstance(effect, TriggerCheckpoint)] == ["source"]
    assert harness.effects(events.WriteMetadata)[0].checkpoint.coordinator_states == (state,)


def test_the_abort_of_a_checkpoint_that_reached_no_task_is_not_announced() -> None:
    harness = two_tasks(operator_coordinators=True)
    harness.trigger()

    harness.handle(CheckpointTimedOut(checkpoint_id=1))
    late = harness.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=()))

    assert harness.effects(NotifyCheckpointAborted) == []
    assert [report.checkpoint_id for report in harness.effects(CheckpointAborted)] == [1]
    assert [type(effect) for effect in late] == [Ignore]


def test_a_checkpoint_that_exceeds_its_timeout_expires() -> None:
    harness = two_tasks(timeout_ms=1_000, tolerable_failures=1)
    harness.trigger()
    harness.acknowledge("source", 1, snapshot(exclusive=["s"]))

    harness.advance(1_000)

    (aborted,) = harness.effects(CheckpointAborted)
    assert (aborted.checkpoint_id, aborted.timestamp_ms) == (1, 1_000)
    assert str(aborted.failure) == "EXPIRED at sink: TimeoutError: no acknowledgement within 1000 ms"
    assert [effect.attempt for effect in harness.effects(NotifyCheckpointAborted)] == ["source", "sink"]
    assert harness.disposed() == ["s"]


def test_unwritable_metadata_fails_the_checkpoint_and_counts_as_a_failure() -> None:
    harness = two_tasks()
    harness.storage_fails = True

    complete_checkpoint(harness, 1, exclusive=["s"])

    [failed] = harness.effects(CheckpointFailuresExceeded)
    assert "FINALIZE_CHECKPOINT_FAILURE" in failed.cause.message
    assert "disk full" in failed.cause.message
    assert harness.disposed() == ["s"]


def test_the_job_fails_after_too_many_consecutive_checkpoint_failures() -> None:
    harness = two_tasks(tolerable_failures=1, retained=2)

    for checkpoint_id, succeeds in enumerate([False, True, False, False], start=1):
        harness.trigger()
        if succeeds:
            harness.acknowledge("source", checkpoint_id)
            harness.acknowledge("sink", checkpoint_id)
        else:
            harness.decline("sink", checkpoint_id)

    failed = [(effect.cause.type_name, effect.cause.message) for effect in harness.effects(CheckpointFailuresExceeded)]
    assert failed == [
        (
            "CheckpointError",
            "more checkpoints failed than are tolerable, the last one 4 with CHECKPOINT_DECLINED at sink",
        )
    ]


def test_a_finished_task_is_neither_triggered_nor_notified() -> None:
    harness = Coordination(planned_task("done", ExecutionState.FINISHED), SOURCE, SINK)

    complete_checkpoint(harness, 1)

    entries = [
        (entry.vertex_id, entry.state) for entry in harness.effects(events.WriteMetadata)[0].checkpoint.task_states
    ]
    assert [effect.attempt for effect in harness.effects(TriggerCheckpoint)] == ["source"]
    assert ("done", None) in entries
    assert "done" not in {effect.attempt for effect in harness.effects(NotifyCheckpointComplete)}
