"""The life of a job: events in, effects out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.graph.effects import (
    AllTasksReachedEndOfData,
    CancelAttempt,
    CoordinateTasks,
    Deploy,
    ExecutionMoved,
    JobStatusMoved,
    RequestRestoreState,
    StartRestartTimer,
)
from flykka.actors.graph.events import (
    CancelJob,
    EndOfDataReported,
    Event,
    FailJob,
    RestartDue,
    RestoreStateReady,
    ScheduleJob,
    SlotAllocated,
    SlotAllocationFailed,
    SlotsLost,
    SuspendJob,
    TaskStateUpdated,
)
from flykka.actors.graph.slot_sharing import RequestSlots, ReturnSlot, SlotRequestId
from flykka.actors.graph.states import JOB_TERMINAL
from flykka.actors.scheduling.ignore import Ignore
from flykka.messages.ids import ExecutionAttemptId, JobVertexId, OperatorId
from flykka.messages.job import JobStatus
from flykka.messages.job_graph import RestartStrategyConfiguration, ShipStrategy
from flykka.messages.state import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.task import ExecutionState, TaskExecutionState
from tests.actors.graph.graphs import failure, graph_of, slot, vertex
from tests.actors.graph.running import Running, slot_for

FIRST, SECOND = SlotRequestId("default/0/1"), SlotRequestId("default/1/1")


def statuses(running: Running) -> list[JobStatus]:
    return [moved.status for moved in running.made(JobStatusMoved)]


def cancelled(running: Running) -> list[str]:
    return [cancel.attempt for cancel in running.made(CancelAttempt)]


# Scheduling


def test_a_scheduled_job_runs_and_asks_for_its_slots_and_its_state() -> None:
    running = Running()

    effects = running.schedule()

    assert effects[0] == JobStatusMoved(status=JobStatus.RUNNING)
    assert effects[-2:] == [RequestRestoreState(version=1), RequestSlots(request_ids=(FIRST, SECOND))]
    assert {moved.state for moved in running.made(ExecutionMoved)} == {ExecutionState.SCHEDULED}


def test_each_sharing_group_asks_for_as_many_slots_as_its_widest_vertex() -> None:
    running = Running(
        graph_of(
            vertex("a", 3, outputs=1),
            vertex("b", 2, reads=("a",), outputs=1),
            vertex("c", 2, reads=("b",), group="apart"),
        )
    )

    running.schedule()

    assert [*running.made(RequestSlots)[0].request_ids] == [
        "default/0/1",
        "default/1/1",
        "default/2/1",
        "apart/0/1",
        "apart/1/1",
    ]


def test_nothing_is_deployed_while_a_slot_or_the_state_is_missing() -> None:
    slots_first, state_first = Running(), Running()

    slots_first.schedule()
    slots_first.give_slots()
    state_first.schedule()
    state_first.restore()
    state_first.tell(SlotAllocated(request_id=FIRST, slot=slot_for(FIRST)))

    assert slots_first.made(Deploy) == state_first.made(Deploy) == []
    slots_first.restore()
    state_first.tell(SlotAllocated(request_id=SECOND, slot=slot_for(SECOND)))
    assert len(slots_first.made(Deploy)) == len(state_first.made(Deploy)) == 3


def test_the_coordinator_hears_of_the_attempts_before_they_are_deployed() -> None:
    running = Running()

    effects = running.deploy()

    kinds = [type(effect) for effect in effects]
    assert kinds == [CoordinateTasks, *[ExecutionMoved] * 3, *[Deploy] * 3]
    tasks = running.made(CoordinateTasks)[0].tasks
    assert [(task.attempt, task.is_source, task.state) for task in tasks] == [
        ("job_source_0_0", True, ExecutionState.DEPLOYING),
        ("job_source_1_0", True, ExecutionState.DEPLOYING),
        ("job_sink_0_0", False, ExecutionState.DEPLOYING),
    ]


def test_a_descriptor_says_where_to_read_and_for_whom_to_write() -> None:
    wide = graph_of(
        vertex("source", 2, outputs=1), vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.HASH)
    )
    running = Running(wide)

    running.deploy()

    source, _, _, sink = [deploy.descriptor for deploy in running.made(Deploy)]
    assert [(output.partition_id, output.subpartitions) for output in source.outputs] == [("job_source_0_0:0", 2)]
    assert [(channel.partition_id, channel.subpartition) for channel in sink.inputs[0].channels] == [
        ("job_source_0_0:0", 1),
        ("job_source_1_0:0", 1),
    ]
    assert sink.allocation_id == slot_for(SECOND).allocation_id


def test_every_attempt_is_deployed_with_its_own_state() -> None:
    running = Running()
    state = TaskStateSnapshot(operators=(OperatorSubtaskState(operator_id=OperatorId("source")),))
    running.schedule()

    running.tell(RestoreStateReady(version=1, checkpoint_id=7, states={(JobVertexId("source"), 1): state}))
    running.give_slots()

    descriptors = [deploy.descriptor for deploy in running.made(Deploy)]
    assert [descriptor.restore for descriptor in descriptors] == [None, state, None]
    assert {descriptor.restored_checkpoint_id for descriptor in descriptors} == {7}


def test_a_slot_that_comes_too_late_is_returned() -> None:
    running = Running()
    running.schedule()
    running.tell(CancelJob())

    late = running.tell(SlotAllocated(request_id=FIRST, slot=slot()))

    assert late == [ReturnSlot(request_id=FIRST)]


def test_a_slot_that_cannot_be_had_is_a_failure_of_the_job() -> None:
    running = Running()
    running.schedule()

    running.tell(SlotAllocationFailed(request_id=SECOND, cause=failure("no slot")))

    assert running.graph.failure_cause == failure("no slot")
    assert statuses(running)[-1] is JobStatus.RESTARTING
    assert running.made(ReturnSlot) == [ReturnSlot(request_id=SECOND), ReturnSlot(request_id=FIRST)]


# Failure


def test_one_failure_cancels_all_others_and_the_job_restarts_when_they_have_ended() -> None:
    running = Running()
    running.run()

    running.report("job_sink_0_0", ExecutionState.FAILED)
    assert cancelled(running) == ["job_source_0_0", "job_source_1_0"]
    running.report("job_source_0_0", ExecutionState.CANCELED)
    assert statuses(running)[-1] is JobStatus.FAILING
    effects = running.report("job_source_1_0", ExecutionState.CANCELED)

    assert effects[-2:] == [
        JobStatusMoved(status=JobStatus.RESTARTING, cause=failure()),
        StartRestartTimer(delay_ms=0, version=2),
    ]


def test_a_restart_makes_new_attempts_that_ask_for_new_slots_and_the_latest_state() -> None:
    running = Running()
    running.run()
    running.report("job_sink_0_0", ExecutionState.FAILED)
    running.report_all(ExecutionState.CANCELED)

    effects = running.tell(RestartDue(version=2))

    assert effects[:2] == [JobStatusMoved(status=JobStatus.CREATED), JobStatusMoved(status=JobStatus.RUNNING)]
    assert effects[-2] == RequestRestoreState(version=2)
    assert effects[-1] == RequestSlots(request_ids=(SlotRequestId("default/0/2"), SlotRequestId("default/1/2")))
    assert running.graph.execution(ExecutionAttemptId("job_sink_0_1")) is not None


def test_a_slot_goes_back_with_the_last_attempt_in_it() -> None:
    running = Running()
    running.run()

    running.report("job_sink_0_0", ExecutionState.FINISHED)
    assert running.made(ReturnSlot) == []
    running.report("job_source_0_0", ExecutionState.FINISHED)

    assert running.made(ReturnSlot) == [ReturnSlot(request_id=FIRST)]


def test_slots_that_are_lost_together_are_one_failure_and_nobody_there_is_told_to_cancel() -> None:
    running = Running()
    running.run()

    running.tell(SlotsLost(request_ids=(FIRST, SECOND), cause=failure("gone")))

    assert statuses(running)[-2:] == [JobStatus.FAILING, JobStatus.RESTARTING]
    assert cancelled(running) == []


def test_only_what_was_elsewhere_is_cancelled_when_a_slot_is_lost() -> None:
    running = Running()
    running.run()

    running.tell(SlotsLost(request_ids=(FIRST,), cause=failure("gone")))

    assert cancelled(running) == ["job_source_1_0"]


def test_an_attempt_that_comes_back_from_the_dead_is_told_to_cancel() -> None:
    running = Running()
    running.deploy()
    running.tell(SlotsLost(request_ids=(FIRST, SECOND), cause=failure("gone")))

    running.report("job_sink_0_0", ExecutionState.RUNNING)

    assert cancelled(running) == ["job_sink_0_0"]


def test_a_failure_that_no_restart_can_mend_ends_the_job() -> None:
    running = Running()
    running.run()

    running.tell(FailJob(cause=failure("hopeless", suppress_restarts=True)))
    running.report_all(ExecutionState.CANCELED)

    assert running.effects[-1] == JobStatusMoved(
        status=JobStatus.FAILED, cause=failure("hopeless", suppress_restarts=True)
    )


def test_a_job_fails_when_its_restarts_are_used_up() -> None:
    once = RestartStrategyConfiguration(attempts=1, delay_ms=100)
    running = Running(graph_of(vertex("source"), restart=once))
    running.run()

    running.report("job_source_0_0", ExecutionState.FAILED)
    running.tell(RestartDue(version=2))
    running.restore()
    running.give_slots()
    running.report("job_source_0_1", ExecutionState.FAILED)

    assert running.made(StartRestartTimer) == [StartRestartTimer(delay_ms=100, version=2)]
    assert statuses(running)[-1] is JobStatus.FAILED


def test_a_restart_of_an_older_version_is_ignored() -> None:
    running = Running()
    running.schedule()
    running.tell(FailJob(cause=failure()))
    running.tell(FailJob(cause=failure("again")))

    effects = running.tell(RestartDue(version=2))

    assert [type(effect) for effect in effects] == [Ignore]
    assert [timer.version for timer in running.made(StartRestartTimer)] == [2, 3]


def test_a_state_that_was_asked_for_by_an_older_version_is_ignored() -> None:
    running = Running()
    running.schedule()
    running.tell(FailJob(cause=failure()))
    running.tell(RestartDue(version=2))
    running.give_slots()

    running.tell(RestoreStateReady(version=1, checkpoint_id=None, states={}))

    assert running.made(Deploy) == []


def test_tasks_that_all_ended_by_themselves_without_finishing_fail_the_job() -> None:
    running = Running()
    running.run()

    running.report_all(ExecutionState.CANCELED)

    assert statuses(running)[-2:] == [JobStatus.FAILING, JobStatus.RESTARTING]


def test_a_status_carries_its_failure_and_a_new_start_carries_none() -> None:
    running = Running()
    running.run()
    running.tell(FailJob(cause=failure()))
    running.report_all(ExecutionState.CANCELED)

    running.tell(RestartDue(version=2))

    causes = {moved.status: moved.cause for moved in running.made(JobStatusMoved)}
    assert causes == {
        JobStatus.FAILING: failure(),
        JobStatus.RESTARTING: failure(),
        JobStatus.CREATED: None,
        JobStatus.RUNNING: None,
    }


# The end


def test_a_job_whose_tasks_have_all_finished_is_finished() -> None:
    running = Running()
    running.run()

    running.report_all(ExecutionState.FINISHED)

    assert running.effects[-1] == JobStatusMoved(status=JobStatus.FINISHED)


def test_when_the_last_task_has_read_everything_it_is_said_once() -> None:
    running = Running()
    running.run()

    for attempt in ("job_source_0_0", "job_source_1_0", "job_source_1_0", "job_sink_0_0", "job_sink_0_0"):
        running.tell(EndOfDataReported(attempt=ExecutionAttemptId(attempt)))

    assert running.made(AllTasksReachedEndOfData) == [AllTasksReachedEndOfData()]


def test_new_attempts_have_everything_still_to_read() -> None:
    running = Running(graph_of(vertex("source", 2)))
    running.run()
    running.tell(EndOfDataReported(attempt=ExecutionAttemptId("job_source_0_0")))
    running.tell(FailJob(cause=failure()))
    running.report_all(ExecutionState.CANCELED)
    running.tell(RestartDue(version=2))
    running.restore()
    running.give_slots()

    running.tell(EndOfDataReported(attempt=ExecutionAttemptId("job_source_1_1")))

    assert running.made(AllTasksReachedEndOfData) == []


def test_a_cancelled_job_waits_for_its_tasks() -> None:
    running = Running()
    running.run()

    running.tell(CancelJob())
    assert len(cancelled(running)) == 3
    assert statuses(running)[-1] is JobStatus.CANCELLING
    running.report_all(ExecutionState.CANCELED)

    assert statuses(running)[-1] is JobStatus.CANCELED


def test_a_job_that_is_cancelled_while_it_fails_does_not_restart() -> None:
    running = Running()
    running.run()
    running.tell(FailJob(cause=failure()))

    running.tell(CancelJob())
    running.report_all(ExecutionState.CANCELED)

    assert statuses(running)[-1] is JobStatus.CANCELED
    assert running.made(StartRestartTimer) == []


def test_a_suspended_job_waits_for_nobody() -> None:
    running = Running()
    running.run()

    running.tell(SuspendJob(cause=failure("another leads")))

    assert statuses(running)[-1] is JobStatus.SUSPENDED
    assert running.graph.live_attempts == 0
    assert len(cancelled(running)) == 3


# Whatever happens

attempts = st.builds(
    lambda place, number: ExecutionAttemptId(f"job_{place}_{number}"),
    st.sampled_from(["source_0", "source_1", "sink_0"]),
    st.integers(0, 2),
)
failures = st.builds(failure, st.just("boom"), suppress_restarts=st.booleans())
requests = st.builds(
    lambda index, version: SlotRequestId(f"default/{index}/{version}"), st.integers(0, 1), st.integers(1, 3)
)
happenings = st.one_of(
    st.builds(ScheduleJob),
    st.builds(SlotAllocated, request_id=requests, slot=st.just(slot())),
    st.builds(SlotAllocationFailed, request_id=requests, cause=failures),
    st.builds(SlotsLost, request_ids=st.lists(requests, max_size=2).map(tuple), cause=failures),
    st.builds(RestoreStateReady, version=st.integers(1, 3), checkpoint_id=st.just(None), states=st.just({})),
    st.builds(
        TaskStateUpdated,
        update=st.builds(TaskExecutionState, attempt=attempts, state=st.sampled_from(ExecutionState), failure=failures),
    ),
    st.builds(EndOfDataReported, attempt=attempts),
    st.builds(FailJob, cause=failures, attempt=st.none() | attempts),
    st.builds(CancelJob),
    st.builds(RestartDue, version=st.integers(1, 3)),
)


@pytest.mark.slow
@given(events=st.lists(happenings, max_size=40))
def test_no_sequence_of_events_breaks_an_invariant_or_leaves_an_end(events: list[Event]) -> None:
    running = Running()
    ended: JobStatus | None = None

    for event in events:
        running.tell(event)
        assert ended is None or running.graph.status is ended
        ended = running.graph.status if running.graph.status in JOB_TERMINAL else None


@pytest.mark.slow
@given(events=st.lists(happenings, max_size=40))
def test_every_slot_that_is_asked_for_is_returned_once_and_never_while_somebody_is_in_it(events: list[Event]) -> None:
    running = Running()
    running.deploy()

    for event in events:
        running.tell(event)
    running.tell(SuspendJob(cause=failure()))

    asked = [request_id for request in running.made(RequestSlots) for request_id in request.request_ids]
    late = {event.request_id for event in events if isinstance(event, SlotAllocated)}
    returned = [back.request_id for back in running.made(ReturnSlot)]
    assert set(asked) <= set(returned)
    assert all(returned.count(request_id) == 1 for request_id in asked if request_id not in late)


@pytest.mark.slow
@given(events=st.lists(happenings, max_size=40))
def test_at_most_one_attempt_of_a_subtask_is_alive(events: list[Event]) -> None:
    running = Running()
    running.deploy()

    for event in events:
        running.tell(event)

    for vertex_id, parallelism in (("source", 2), ("sink", 1)):
        for subtask in range(parallelism):
            assert all(prior.is_terminal for prior in running.graph.subtask(JobVertexId(vertex_id), subtask).prior)
