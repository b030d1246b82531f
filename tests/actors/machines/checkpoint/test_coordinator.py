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


def test_only_sources_are_triggered_and_all_tasks_are_awaited() -> None:
    world = two_tasks()

    world.trigger()

    assert [effect.attempt for effect in world.effects(TriggerCheckpoint)] == ["source"]
    assert world.machine.pending[1].awaited == {"source", "sink"}


def test_a_checkpoint_is_complete_only_when_its_metadata_is_durable() -> None:
    world = two_tasks(storage_answers=False)
    complete_checkpoint(world, 1)

    before = (list(world.machine.pending), world.completed(), world.effects(NotifyCheckpointComplete))
    world.written(1)

    assert before == ([1], [], [])
    assert (list(world.machine.pending), world.completed()) == ([], [1])
    assert [effect.attempt for effect in world.effects(NotifyCheckpointComplete)] == ["source", "sink"]


def test_the_metadata_holds_what_every_task_acknowledged() -> None:
    world = two_tasks()
    world.advance(100)
    world.trigger()
    world.advance(30)

    world.acknowledge("source", 1, snapshot())
    world.acknowledge("sink", 1, snapshot(shared=["x"]))

    [written] = world.effects(events.WriteMetadata)
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


def test_a_completed_checkpoint_is_measured_up_to_its_durable_metadata() -> None:
    world = two_tasks(storage_answers=False)
    world.trigger()
    world.acknowledge("source", 1, metrics=CheckpointMetrics(size_bytes=10, incremental_bytes=10))
    world.acknowledge("sink", 1, metrics=CheckpointMetrics(size_bytes=500, incremental_bytes=20))

    world.advance(40)
    world.written(1)

    [report] = world.effects(CheckpointCompleted)
    assert (report.duration_ms, report.size_bytes, report.incremental_bytes) == (40, 510, 30)
    assert report.path == "chk-1"


def test_tasks_are_triggered_when_the_operator_coordinators_are_snapshotted() -> None:
    world = two_tasks(operator_coordinators=True)
    state = OperatorCoordinatorState(operator_id=OperatorId("files"), data=b"seen")

    first = world.trigger()
    then = world.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=(state,)))
    world.acknowledge("source", 1)
    world.acknowledge("sink", 1)

    assert SnapshotOperatorCoordinators(job_id=JOB, checkpoint_id=1) in first
    assert not [effect for effect in first if isinstance(effect, TriggerCheckpoint)]
    assert [effect.attempt for effect in then if isinstance(effect, TriggerCheckpoint)] == ["source"]
    assert world.effects(events.WriteMetadata)[0].checkpoint.coordinator_states == (state,)


def test_the_end_of_a_checkpoint_that_reached_no_task_is_not_announced() -> None:
    world = two_tasks(operator_coordinators=True)
    world.trigger()

    world.handle(CheckpointTimedOut(checkpoint_id=1))
    late = world.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=()))

    assert world.effects(NotifyCheckpointAborted) == []
    assert [report.checkpoint_id for report in world.effects(CheckpointAborted)] == [1]
    assert [type(effect) for effect in late] == [Ignore]


def test_a_checkpoint_that_takes_too_long_expires() -> None:
    world = two_tasks(timeout_ms=1_000, tolerable_failures=1)
    world.trigger()
    world.acknowledge("source", 1, snapshot(exclusive=["s"]))

    world.advance(1_000)

    (aborted,) = world.effects(CheckpointAborted)
    assert (aborted.checkpoint_id, aborted.timestamp_ms) == (1, 1_000)
    assert str(aborted.failure) == "EXPIRED at sink: TimeoutError: no acknowledgement within 1000 ms"
    assert [effect.attempt for effect in world.effects(NotifyCheckpointAborted)] == ["source", "sink"]
    assert world.disposed() == ["s"]


def test_metadata_that_cannot_be_written_fails_the_checkpoint_and_counts() -> None:
    world = two_tasks()
    world.storage_fails = True

    complete_checkpoint(world, 1, exclusive=["s"])

    [failed] = world.effects(CheckpointFailuresExceeded)
    assert "FINALIZE_CHECKPOINT_FAILURE" in failed.cause.message
    assert "disk full" in failed.cause.message
    assert world.disposed() == ["s"]


def test_the_job_fails_when_more_failures_come_in_a_row_than_are_tolerable() -> None:
    world = two_tasks(tolerable_failures=1, retained=2)

    for checkpoint_id, succeeds in enumerate([False, True, False, False], start=1):
        world.trigger()
        if succeeds:
            world.acknowledge("source", checkpoint_id)
            world.acknowledge("sink", checkpoint_id)
        else:
            world.decline("sink", checkpoint_id)

    failed = [(effect.cause.type_name, effect.cause.message) for effect in world.effects(CheckpointFailuresExceeded)]
    assert failed == [
        (
            "CheckpointError",
            "more checkpoints failed than are tolerable, the last one 4 with CHECKPOINT_DECLINED at sink",
        )
    ]


def test_a_finished_task_is_neither_triggered_nor_notified() -> None:
    world = Coordination(planned_task("done", ExecutionState.FINISHED), SOURCE, SINK)

    complete_checkpoint(world, 1)

    entries = [
        (entry.vertex_id, entry.state) for entry in world.effects(events.WriteMetadata)[0].checkpoint.task_states
    ]
    assert [effect.attempt for effect in world.effects(TriggerCheckpoint)] == ["source"]
    assert ("done", None) in entries
    assert "done" not in {effect.attempt for effect in world.effects(NotifyCheckpointComplete)}
