"""How a checkpoint comes to be complete, and what happens to one that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.checkpoint import effects, events
from flykka.actors.checkpoint.effects import TimerKind
from flykka.messages.checkpoint import (
    CheckpointDeclineReason,
    CheckpointMetrics,
    OperatorCoordinatorsSnapshotted,
    OperatorCoordinatorState,
)
from flykka.messages.checkpoint_metadata import CompletedCheckpoint, TaskStateEntry
from flykka.messages.coordination import CheckpointTimedOut, MetadataWriteFailed, PeriodicTriggerDue
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import ExecutionAttemptId, JobId, JobVertexId, OperatorId
from flykka.messages.job import JobStatus
from flykka.messages.state import ExclusiveStateHandle, OperatorSubtaskState, SharedStateHandle
from flykka.messages.task import ExecutionState
from tests.actors.checkpoint.coordinating import JOB, Coordination, snapshot, task

SOURCE, SINK = task("source"), task("sink", is_source=False)


def two_tasks(**changed: Any) -> Coordination:
    return Coordination(SOURCE, SINK, **changed)


def shared(name: str) -> SharedStateHandle:
    return SharedStateHandle(state_id=name, path=name, rows=1, size_bytes=1)


def complete(world: Coordination, checkpoint_id: int, **state: object) -> None:
    world.trigger()
    world.acknowledge("source", checkpoint_id)
    world.acknowledge("sink", checkpoint_id, snapshot(**state) if state else None)  # type: ignore[arg-type]


def test_only_sources_are_triggered_and_everybody_is_waited_for() -> None:
    world = two_tasks()

    world.trigger()

    assert [effect.attempt for effect in world.effects(effects.TriggerTask)] == ["source"]
    assert world.machine.pending[1].awaited == {"source", "sink"}


def test_a_checkpoint_is_complete_only_when_its_metadata_is_durable() -> None:
    world = two_tasks(storage_answers=False)
    complete(world, 1)

    before = (list(world.machine.pending), world.completed(), world.effects(effects.NotifyComplete))
    world.written(1)

    assert before == ([1], [], [])
    assert (list(world.machine.pending), world.completed()) == ([], [1])
    assert [effect.attempt for effect in world.effects(effects.NotifyComplete)] == ["source", "sink"]


def test_the_metadata_holds_what_every_task_acknowledged() -> None:
    world = two_tasks()
    world.advance(100)
    world.trigger()
    world.advance(30)

    world.acknowledge("source", 1, snapshot())
    world.acknowledge("sink", 1, snapshot(shared=["x"]))

    [written] = world.effects(effects.WriteMetadata)
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


def test_what_is_reported_is_measured_up_to_the_durable_metadata() -> None:
    world = two_tasks(storage_answers=False)
    world.trigger()
    world.acknowledge("source", 1, metrics=CheckpointMetrics(size_bytes=10, incremental_bytes=10))
    world.acknowledge("sink", 1, metrics=CheckpointMetrics(size_bytes=500, incremental_bytes=20))

    world.advance(40)
    world.written(1)

    [report] = world.effects(effects.ReportCompleted)
    assert (report.stats.duration_ms, report.stats.size_bytes, report.stats.incremental_bytes) == (40, 510, 30)
    assert report.checkpoint.path == "chk-1"


def test_tasks_are_triggered_when_the_operator_coordinators_are_snapshotted() -> None:
    world = two_tasks(operator_coordinators=True)
    state = OperatorCoordinatorState(operator_id=OperatorId("files"), data=b"seen")

    first = world.trigger()
    then = world.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=(state,)))
    world.acknowledge("source", 1)
    world.acknowledge("sink", 1)

    assert effects.SnapshotCoordinators(checkpoint_id=1) in first
    assert not [effect for effect in first if isinstance(effect, effects.TriggerTask)]
    assert [effect.attempt for effect in then if isinstance(effect, effects.TriggerTask)] == ["source"]
    assert world.effects(effects.WriteMetadata)[0].checkpoint.coordinator_states == (state,)


def test_nobody_is_told_of_the_end_of_a_checkpoint_that_reached_no_task() -> None:
    world = two_tasks(operator_coordinators=True)
    world.trigger()

    world.handle(CheckpointTimedOut(checkpoint_id=1))
    late = world.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=()))

    assert world.effects(effects.NotifyAborted) == []
    assert [report.checkpoint_id for report in world.effects(effects.ReportAborted)] == [1]
    assert [type(effect) for effect in late] == [effects.Ignore]


def test_a_checkpoint_that_takes_too_long_expires() -> None:
    world = two_tasks(timeout_ms=1_000, tolerable_failures=1)
    world.trigger()
    world.acknowledge("source", 1, snapshot(exclusive=["s"]))

    world.advance(1_000)

    assert world.effects(effects.ReportAborted) == [
        effects.ReportAborted(checkpoint_id=1, reason=CheckpointDeclineReason.EXPIRED)
    ]
    assert [effect.attempt for effect in world.effects(effects.NotifyAborted)] == ["source", "sink"]
    assert world.disposed() == ["s"]


@pytest.mark.parametrize("outcome", ["written", "failed"])
def test_what_is_given_up_while_it_is_written_never_completes(outcome: str) -> None:
    world = two_tasks(storage_answers=False, tolerable_failures=1)
    complete(world, 1, shared=["x"])

    world.handle(CheckpointTimedOut(checkpoint_id=1))
    if outcome == "written":
        world.written(1)
    else:
        world.handle(_write_failed(1))

    assert world.completed() == []
    assert world.effects(effects.NotifyComplete) == []
    assert world.disposed() == (["chk-1"] if outcome == "written" else [])


def test_metadata_that_cannot_be_written_fails_the_checkpoint_and_counts() -> None:
    world = two_tasks()
    world.storage_fails = True

    complete(world, 1, exclusive=["s"])

    [failed] = world.effects(effects.FailJob)
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

    failed = [(effect.cause.type_name, effect.cause.message) for effect in world.effects(effects.FailJob)]
    assert failed == [
        (
            "CheckpointException",
            "more checkpoints failed than are tolerable, the last one 4 with CHECKPOINT_DECLINED",
        )
    ]


def test_a_newer_checkpoint_subsumes_the_older_pending_ones() -> None:
    world = two_tasks()
    world.trigger()
    world.acknowledge("source", 1, snapshot(exclusive=["s"]))
    world.trigger()

    world.acknowledge("source", 2)
    world.acknowledge("sink", 2)

    assert world.completed() == [2]
    assert effects.ReportAborted(checkpoint_id=1, reason=CheckpointDeclineReason.SUBSUMED) in world.log
    assert world.disposed() == ["s"]
    assert world.effects(effects.FailJob) == []


def test_a_duplicate_is_not_discarded_not_even_when_the_checkpoint_is_over() -> None:
    world = two_tasks()
    complete(world, 1, exclusive=["s"], shared=["x"])

    again = world.acknowledge("sink", 1, snapshot(exclusive=["s"], shared=["x"]))

    assert [type(effect) for effect in again] == [effects.Ignore]


def test_state_that_comes_late_is_discarded_once() -> None:
    world = two_tasks()
    world.trigger()
    world.acknowledge("source", 1, snapshot(exclusive=["s"]))
    world.decline("sink", 1)

    world.acknowledge("source", 1, snapshot(exclusive=["s"]))
    world.acknowledge("sink", 1, snapshot(exclusive=["late"]))

    assert world.disposed() == ["s", "late"]


def test_a_living_attempt_may_refer_again_to_the_shared_state_of_a_checkpoint_that_was_given_up() -> None:
    world = two_tasks(tolerable_failures=9)
    world.trigger()
    world.decline("source", 1)
    world.acknowledge("sink", 1, snapshot(shared=["x"]))

    complete(world, 2, shared=["x", "y"])

    assert world.disposed() == []
    assert list(world.effects(effects.ReportCompleted)[0].checkpoint.task_states[1].state.operators[0].shared) == [  # type: ignore[union-attr]
        shared("x"),
        shared("y"),
    ]


def test_shared_state_of_attempts_that_are_over_goes_at_once() -> None:
    world = two_tasks()
    complete(world, 1, shared=["x"])

    world.acknowledge("former", 2, snapshot(shared=["x", "y"]))

    assert world.disposed() == ["y"]


def test_shared_state_that_is_there_already_is_kept_once() -> None:
    world = two_tasks(retained=2)
    complete(world, 1, shared=["x"])
    rewritten = SharedStateHandle(state_id="x", path="elsewhere", rows=1, size_bytes=1)

    world.trigger()
    world.acknowledge("source", 2)
    state = snapshot(shared=["x"])
    [operator] = state.operators
    world.acknowledge("sink", 2, type(state)(operators=(_with_shared(operator, rewritten),)))

    assert world.disposed() == ["elsewhere"]
    assert world.effects(effects.ReportCompleted)[1].checkpoint.task_states[1].state == state


def test_subsuming_deletes_the_checkpoint_its_state_and_what_only_it_referred_to() -> None:
    world = two_tasks()
    complete(world, 1, exclusive=["s"], shared=["x", "y"])

    complete(world, 2, shared=["y"])

    [disposal] = world.effects(effects.Dispose)
    assert disposal == effects.Dispose(
        checkpoints=("chk-1",), state=(ExclusiveStateHandle(path="s", size_bytes=1), shared("x"))
    )


def test_messages_of_other_jobs_are_left_alone() -> None:
    world = two_tasks()
    world.trigger()

    made = world.acknowledge("sink", 1, snapshot(exclusive=["theirs"]), job=JobId("other"))

    assert [type(effect) for effect in made] == [effects.Ignore]
    assert world.machine.pending[1].awaited == {"source", "sink"}


def test_tasks_that_are_replaced_complete_nothing_any_more() -> None:
    world = two_tasks(storage_answers=False)
    complete(world, 1)

    world.handle(events.PendingAborted(reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    refused = world.trigger()
    world.written(1)
    world.handle(events.TasksChanged(tasks=(task("source 2"), task("sink 2", is_source=False))))
    world.trigger()

    assert world.completed() == []
    assert refused == [effects.TriggerDeclined(reason=CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert world.machine.pending[2].awaited == {"source 2", "sink 2"}


def test_new_attempts_wait_until_what_is_being_written_is_there_or_not() -> None:
    world = two_tasks(storage_answers=False, retained=2)
    complete(world, 1)
    world.written(1)
    complete(world, 2)

    asked = world.handle(events.RestoreRequested(version=5))
    answered = world.written(2)

    assert not [effect for effect in asked if isinstance(effect, effects.Restore)]
    [restore] = [effect for effect in answered if isinstance(effect, effects.Restore)]
    assert (restore.version, restore.checkpoint.checkpoint_id if restore.checkpoint else None) == (5, 1)
    assert world.disposed() == ["chk-2"]


def test_a_job_without_checkpoints_starts_from_the_beginning() -> None:
    world = two_tasks()

    made = world.handle(events.RestoreRequested(version=0))

    assert made == [effects.Restore(version=0, checkpoint=None)]


def test_a_checkpoint_of_an_earlier_job_is_started_from_and_never_deleted() -> None:
    earlier = two_tasks()
    complete(earlier, 1, exclusive=["s"], shared=["x"])
    [adopted] = earlier.machine.completed
    world = two_tasks()
    world.ids.skip_to(2)

    made = world.handle(events.CheckpointAdopted(version=1, checkpoint=adopted))
    world.handle(events.TasksChanged(tasks=(SOURCE, SINK)))
    complete(world, 2, shared=["x", "y"])
    complete(world, 3, shared=["y"])

    assert made == [effects.Restore(version=1, checkpoint=adopted)]
    assert world.disposed() == ["chk-2"]


def test_ids_go_on_across_restarts_of_the_tasks() -> None:
    world = two_tasks()
    complete(world, 1)

    world.handle(events.PendingAborted(reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    world.handle(events.TasksChanged(tasks=(SOURCE, SINK)))
    world.trigger()

    assert list(world.machine.pending) == [2]


def test_the_pause_after_a_checkpoint_holds_the_next_one_and_moves_the_clockwork() -> None:
    world = two_tasks(interval_ms=100, min_pause_ms=250)
    world.handle(events.SchedulerStarted())
    world.advance(100)
    world.acknowledge("source", 1)
    world.advance(40)
    world.acknowledge("sink", 1)

    world.advance(249)
    held = list(world.machine.pending)
    world.advance(1)

    assert held == []
    assert world.machine.pending[2].timestamp_ms == 390


def test_a_late_tick_does_not_move_those_that_follow() -> None:
    world = two_tasks(interval_ms=100)
    world.handle(events.SchedulerStarted())

    world.now = 130
    world.handle(PeriodicTriggerDue())
    rearmed = world.timers[TimerKind.PERIODIC, None]

    assert rearmed == 200


def test_a_checkpoint_that_was_due_before_all_tasks_ran_is_taken_when_they_do() -> None:
    world = Coordination(SOURCE, task("sink", ExecutionState.DEPLOYING, is_source=False), interval_ms=1_000)
    world.handle(events.SchedulerStarted())
    world.advance(1_000)

    world.advance(5)
    before = list(world.machine.pending)
    world.set_state("sink", ExecutionState.RUNNING)

    assert before == []
    assert world.machine.pending[1].timestamp_ms == 1_005


def test_requests_do_not_overtake_each_other_while_an_id_is_drawn() -> None:
    world = two_tasks(max_concurrent=1)
    inner: list[list[effects.CoordinatorEffect]] = []

    def meanwhile() -> None:
        world.while_an_id_is_drawn = lambda: None
        inner.append(world.trigger())

    world.while_an_id_is_drawn = meanwhile
    world.trigger()

    assert inner == [[]]
    assert list(world.machine.pending) == [1]
    assert world.effects(effects.TriggerDeclined) == [
        effects.TriggerDeclined(reason=CheckpointDeclineReason.TOO_MANY_CONCURRENT_CHECKPOINTS)
    ]


def test_a_finished_task_is_neither_triggered_nor_told() -> None:
    world = Coordination(task("done", ExecutionState.FINISHED), SOURCE, SINK)

    complete(world, 1)

    entries = [
        (entry.vertex_id, entry.state) for entry in world.effects(effects.WriteMetadata)[0].checkpoint.task_states
    ]
    assert [effect.attempt for effect in world.effects(effects.TriggerTask)] == ["source"]
    assert ("done", None) in entries
    assert "done" not in {effect.attempt for effect in world.effects(effects.NotifyComplete)}


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELED])
def test_a_job_that_ends_well_or_is_cancelled_leaves_nothing(status: JobStatus) -> None:
    world = two_tasks()
    complete(world, 1, shared=["x"])
    world.trigger()

    made = world.handle(events.Shutdown(job_status=status))

    assert made[-2:] == [effects.DeleteJob(), effects.ReportStopped(retained=())]
    assert list(world.machine.pending) == []


def test_a_job_that_fails_keeps_its_checkpoints_and_nothing_else() -> None:
    world = two_tasks(retained=2)
    complete(world, 1, shared=["x"])
    world.trigger()
    world.acknowledge("sink", 2, snapshot(shared=["x", "y"], exclusive=["s"]))

    made = world.handle(events.Shutdown(job_status=JobStatus.FAILED))

    assert world.disposed() == ["s", "y"]
    assert made[-1] == effects.ReportStopped(retained=("chk-1",))


def test_checkpointing_has_stopped_when_nothing_is_written_or_deleted_any_more() -> None:
    world = two_tasks(storage_answers=False)
    complete(world, 1)

    stopped = [world.handle(events.Shutdown(job_status=JobStatus.FINISHED))]
    stopped.append(world.written(1))
    stopped.append(world.handle(events.DisposalEnded()))
    stopped.append(world.handle(events.DisposalEnded()))

    assert world.disposed() == ["chk-1"]
    assert stopped[2] == [effects.DeleteJob()]
    assert stopped[3] == [effects.ReportStopped(retained=())]
    assert not [effect for made in stopped[:2] for effect in made if isinstance(effect, effects.DeleteJob)]


def test_a_coordinator_is_shut_down_once() -> None:
    world = two_tasks()
    world.handle(events.Shutdown(job_status=JobStatus.FINISHED))

    again = world.handle(events.Shutdown(job_status=JobStatus.FAILED))
    started = world.handle(events.SchedulerStarted())
    stranger = world.handle(events.TaskStateChanged(attempt=ExecutionAttemptId("nobody"), state=ExecutionState.RUNNING))

    assert [type(effect) for made in (again, started, stranger) for effect in made] == [effects.Ignore] * 3


def _write_failed(checkpoint_id: int) -> MetadataWriteFailed:
    cause = SerializedThrowable(type_name="OSError", message="disk full")
    return MetadataWriteFailed(checkpoint_id=checkpoint_id, cause=cause)


def _with_shared(state: OperatorSubtaskState, *handles: SharedStateHandle) -> OperatorSubtaskState:
    return replace(state, shared=handles)
