"""Failures of tasks, slots and whole jobs: events in, effects out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.effects import Ignore, StartTimer
from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    Deploy,
    GlobalFailureReported,
    JobStatusMoved,
    RestartScheduled,
    RestoreStateReady,
)
from flykka.actors.machines.slots.slot_requests import ReturnSlot
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from tests.actors.machines.coordinators.coordinating import checkpoint_completed
from tests.actors.machines.graph.graphs import failure, graph_of, vertex
from tests.actors.machines.graph.running import Running

FIRST, SECOND = "default/0", "default/1"

IN_REGIONS = graph_of(
    vertex("source", 2, outputs=1), vertex("sink", 1, reads=("source",)), failover=FailoverStrategyKind.REGION
)

TWICE_THE_SAME = ExponentialDelayRestartStrategyConfiguration(
    initial_backoff_ms=1,
    max_backoff_ms=1,
    backoff_multiplier=2.0,
    reset_backoff_threshold_ms=1,
    jitter_factor=0.0,
    max_same_failures=2,
)


def test_a_failure_cancels_all_other_tasks_before_the_job_restarts() -> None:
    running = Running()
    running.run()

    running.report("job_sink_0_0", ExecutionState.FAILED)
    assert running.cancelled() == ["job_source_0_0", "job_source_1_0"]
    running.report("job_source_0_0", ExecutionState.CANCELED)
    assert running.statuses()[-1] is JobStatus.FAILING
    effects = running.report("job_source_1_0", ExecutionState.CANCELED)

    assert effects[-3:] == [
        JobStatusMoved(status=JobStatus.RESTARTING, cause=failure()),
        StartTimer(key="restart-2", delay_ms=0, message=JobRestartDue(version=2)),
        RestartScheduled(delay_ms=0, version=2, cause=failure()),
    ]


def test_a_restart_creates_attempts_that_request_slots_and_the_latest_state() -> None:
    running = Running()
    running.run()
    running.report("job_sink_0_0", ExecutionState.FAILED)
    running.report_all(ExecutionState.CANCELED)

    effects = running.tell(JobRestartDue(version=2))

    assert effects[:2] == [JobStatusMoved(status=JobStatus.CREATED), JobStatusMoved(status=JobStatus.RUNNING)]
    assert effects[-2] == AskForRestoreState(version=2)
    assert running.attempts_by_place() == {FIRST: ("job_source_0_1", "job_sink_0_1"), SECOND: ("job_source_1_1",)}
    assert running.graph.execution(ExecutionAttemptId("job_sink_0_1")) is not None


def test_a_finished_attempt_returns_its_slot_and_a_failed_one_reserves_it() -> None:
    running = Running()
    running.run()

    running.report("job_sink_0_0", ExecutionState.FINISHED)
    running.report("job_source_0_0", ExecutionState.FAILED)

    assert running.effects_of(ReturnSlot) == [
        ReturnSlot(attempt=ExecutionAttemptId("job_sink_0_0"), will_return=False),
        ReturnSlot(attempt=ExecutionAttemptId("job_source_0_0"), will_return=True),
    ]


def test_slots_lost_together_are_one_failure_without_cancellations() -> None:
    running = Running()
    running.run()

    running.lose_slots(FIRST, SECOND)

    assert running.statuses()[-2:] == [JobStatus.FAILING, JobStatus.RESTARTING]
    assert running.cancelled() == []


def test_only_tasks_in_other_slots_are_cancelled_when_a_slot_is_lost() -> None:
    running = Running()
    running.run()

    running.lose_slots(FIRST)

    assert running.cancelled() == ["job_source_1_0"]


def test_an_attempt_that_returns_after_its_loss_is_cancelled() -> None:
    running = Running()
    running.deploy()
    running.lose_slots(FIRST, SECOND)

    running.report("job_sink_0_0", ExecutionState.RUNNING)

    assert running.cancelled() == ["job_sink_0_0"]


def test_an_unrecoverable_failure_ends_the_job() -> None:
    running = Running()
    running.run()

    running.tell(GlobalFailureReported(cause=failure("hopeless", suppress_restarts=True)))
    running.report_all(ExecutionState.CANCELED)

    assert running.effects[-1] == JobStatusMoved(
        status=JobStatus.FAILED,
        cause=failure("hopeless", suppress_restarts=True),
        why="restarts are suppressed: no restart can fix TestError",
    )


def test_a_job_fails_when_its_restart_attempts_are_exhausted() -> None:
    once = FixedDelayRestartStrategyConfiguration(attempts=1, delay_ms=100)
    running = Running(graph_of(vertex("source"), restart=once))
    running.run()

    running.report("job_source_0_0", ExecutionState.FAILED)
    running.tell(JobRestartDue(version=2))
    running.restore()
    running.give_slots()
    running.report("job_source_0_1", ExecutionState.FAILED)

    assert running.effects_of(RestartScheduled) == [RestartScheduled(delay_ms=100, version=2, cause=failure())]
    assert running.effects[-1] == JobStatusMoved(
        status=JobStatus.FAILED,
        cause=failure(),
        why="the restart strategy allows 1 restart",
    )


@pytest.mark.parametrize("failover", list(FailoverStrategyKind))
def test_a_failure_repeated_without_a_checkpoint_fails_the_job(
    failover: FailoverStrategyKind,
) -> None:
    running = Running(replace(graph_of(vertex("source"), restart=TWICE_THE_SAME), failover_strategy=failover))
    running.run()

    running.fail_and_restart("job_source_0_0")
    running.report("job_source_0_1", ExecutionState.FAILED)

    repeated = "failed 2 times in a row with the same failure, without a completed checkpoint in between"
    assert running.effects[-1] == JobStatusMoved(
        status=JobStatus.FAILED,
        cause=failure(f"boom\n{repeated}; the job is not restarted again"),
        why=f"restarts are suppressed: the job {repeated}",
    )


def test_a_checkpoint_between_equal_failures_allows_further_restarts() -> None:
    running = Running(graph_of(vertex("source"), restart=TWICE_THE_SAME))
    running.run()

    running.fail_and_restart("job_source_0_0")
    running.tell(checkpoint_completed(1))
    running.report("job_source_0_1", ExecutionState.FAILED)

    assert running.statuses()[-1] is not JobStatus.FAILED


def test_a_restart_due_for_an_older_version_is_ignored() -> None:
    running = Running()
    running.schedule()
    running.tell(GlobalFailureReported(cause=failure()))
    running.tell(GlobalFailureReported(cause=failure("again")))

    effects = running.tell(JobRestartDue(version=2))

    assert [type(effect) for effect in effects] == [Ignore]
    assert [timer.version for timer in running.effects_of(RestartScheduled)] == [2, 3]


def test_restored_state_for_an_older_version_is_ignored() -> None:
    running = Running()
    running.schedule()
    running.tell(GlobalFailureReported(cause=failure()))
    running.tell(JobRestartDue(version=2))
    running.give_slots()

    running.tell(RestoreStateReady(version=1, checkpoint_id=None, states={}))

    assert running.effects_of(Deploy) == []


def test_a_global_restore_continues_although_all_requesting_tasks_failed() -> None:
    running = Running(IN_REGIONS)
    running.schedule()
    running.give_slots()

    running.lose_slots(*running.attempts_by_place())

    assert running.graph.restoring(1) == ()
    assert running.graph.restores_all(1)
    running.tell(RestoreStateReady(version=1, checkpoint_id=None, states={}))
    assert running.graph.restoring(1) is None


def test_a_region_restore_is_dropped_without_a_requesting_task() -> None:
    running = Running(IN_REGIONS)
    running.deploy()
    running.lose_slots(*running.attempts_by_place())
    running.tell(JobRestartDue(version=2))
    running.give_slots()
    asked = running.graph.restoring(2)

    running.lose_slots(*running.attempts_by_place())

    assert asked
    assert running.graph.restoring(2) is None


def test_a_job_fails_if_all_tasks_ended_without_finishing() -> None:
    running = Running()
    running.run()

    running.report_all(ExecutionState.CANCELED)

    assert running.statuses()[-2:] == [JobStatus.FAILING, JobStatus.RESTARTING]


def test_a_job_status_has_its_failure_and_a_restarted_job_has_none() -> None:
    running = Running()
    running.run()
    running.tell(GlobalFailureReported(cause=failure()))
    running.report_all(ExecutionState.CANCELED)

    running.tell(JobRestartDue(version=2))

    causes = {moved.status: moved.cause for moved in running.effects_of(JobStatusMoved)}
    assert causes == {
        JobStatus.FAILING: failure(),
        JobStatus.RESTARTING: failure(),
        JobStatus.CREATED: None,
        JobStatus.RUNNING: None,
    }
