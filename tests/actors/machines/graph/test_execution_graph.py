"""A job from CREATED to RUNNING and to FINISHED: events in, effects out."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.effects import Ignore, StartTimer
from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    CoordinateTasks,
    Deploy,
    ExecutionMoved,
    FinalizeVertices,
    GlobalFailureReported,
    JobStatusMoved,
    RestartScheduled,
    RestoreStateReady,
)
from flykka.actors.machines.slots.slot_requests import (
    CoLocationConstraint,
    RequestSlots,
    ReturnSlot,
    SlotAllocationFailed,
    SlotRequest,
)
from flykka.messages.control.checkpoint_coordination import FinalCheckpointRequest
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue, JobVerticesFinalized
from flykka.messages.graph.job_graph import ResourceSpec, ShipStrategy
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.task import ExecutionState, NotifyEndOfData
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, OperatorId
from tests.actors.machines.graph.graphs import CANCEL, JOB, failure, graph_of, vertex
from tests.actors.machines.graph.running import Running, slot_for

FIRST, SECOND = "default/0", "default/1"


def test_a_scheduled_job_requests_its_slots_and_its_restore_state() -> None:
    running = Running()

    effects = running.schedule()

    assert effects[0] == JobStatusMoved(status=JobStatus.RUNNING)
    assert effects[-2] == AskForRestoreState(version=1)
    assert running.attempts_by_place() == {FIRST: ("job_source_0_0", "job_sink_0_0"), SECOND: ("job_source_1_0",)}
    assert {moved.state for moved in running.effects_of(ExecutionMoved)} == {ExecutionState.SCHEDULED}


def test_slot_requests_name_preferred_locations_and_co_located_attempts() -> None:
    needs = ResourceSpec(cpu_millis=500)
    sink = replace(
        vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.FORWARD, group="apart"),
        co_location_group="together",
        resources=needs,
    )
    running = Running(graph_of(vertex("source", 2, outputs=1), sink))

    running.schedule()

    assert running.effects_of(RequestSlots)[0].requests[3] == SlotRequest(
        attempt=ExecutionAttemptId("job_sink_1_0"),
        vertex_id=JobVertexId("sink"),
        subtask=1,
        slot_sharing_group="apart",
        co_location=CoLocationConstraint(group="together", index=1),
        resources=needs,
        inputs=(ExecutionAttemptId("job_source_1_0"),),
    )


def test_a_consumer_with_too_many_inputs_has_no_preferred_locations() -> None:
    running = Running(graph_of(vertex("source", 9, outputs=1), vertex("sink", 1, reads=("source",))))

    running.schedule()

    assert running.effects_of(RequestSlots)[0].requests[-1].inputs == ()


def test_deployment_waits_for_slots_and_state() -> None:
    slots_first, state_first = Running(), Running()

    slots_first.schedule()
    slots_first.give_slots()
    state_first.schedule()
    state_first.restore()
    state_first.give_slot(FIRST)

    assert slots_first.effects_of(Deploy) == state_first.effects_of(Deploy) == []
    slots_first.restore()
    state_first.give_slot(SECOND)
    assert len(slots_first.effects_of(Deploy)) == len(state_first.effects_of(Deploy)) == 3


def test_the_coordinator_is_notified_of_attempts_before_their_deployment() -> None:
    running = Running()

    effects = running.deploy()

    kinds = [type(effect) for effect in effects]
    assert kinds == [CoordinateTasks, *[ExecutionMoved] * 3, *[Deploy] * 3, StartTimer]
    tasks = running.effects_of(CoordinateTasks)[0].tasks
    assert [(task.attempt, task.is_source, task.state) for task in tasks] == [
        ("job_source_0_0", True, ExecutionState.DEPLOYING),
        ("job_source_1_0", True, ExecutionState.DEPLOYING),
        ("job_sink_0_0", False, ExecutionState.DEPLOYING),
    ]


def test_a_deployment_descriptor_names_inputs_and_consumers() -> None:
    wide = graph_of(
        vertex("source", 2, outputs=1), vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.HASH)
    )
    running = Running(wide)

    running.deploy()

    source, _, _, sink = [deploy.descriptor for deploy in running.effects_of(Deploy)]
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

    descriptors = [deploy.descriptor for deploy in running.effects_of(Deploy)]
    assert [descriptor.restore for descriptor in descriptors] == [None, state, None]
    assert {descriptor.restored_checkpoint_id for descriptor in descriptors} == {7}


def test_a_vertex_and_its_producers_adopt_the_key_groups_of_a_checkpoint() -> None:
    running = Running()
    running.schedule()

    taken_over = {JobVertexId("sink"): 64}
    running.tell(RestoreStateReady(version=1, checkpoint_id=7, states={}, max_parallelism=taken_over))
    running.give_slots()

    descriptors = [deploy.descriptor for deploy in running.effects_of(Deploy)]
    [coordinated] = running.effects_of(CoordinateTasks)
    assert [descriptor.vertex.max_parallelism for descriptor in descriptors] == [128, 128, 64]
    assert [output.max_parallelism for descriptor in descriptors for output in descriptor.outputs] == [64, 64]
    assert [task.max_parallelism for task in coordinated.tasks] == [128, 128, 64]


def test_a_slot_that_arrives_after_a_cancellation_is_not_returned_again() -> None:
    running = Running()
    running.schedule()
    running.tell(CANCEL)
    returned = running.effects_of(ReturnSlot)

    running.give_slot(FIRST)

    assert [each.attempt for each in returned] == ["job_source_0_0", "job_source_1_0", "job_sink_0_0"]
    assert running.effects_of(ReturnSlot) == returned


def test_an_unavailable_slot_fails_the_execution_graph() -> None:
    running = Running()
    running.schedule()

    running.tell(SlotAllocationFailed(attempts=running.attempts_by_place()[SECOND], cause=failure("no slot")))

    assert running.graph.failure_cause == failure("no slot")
    assert running.statuses()[-1] is JobStatus.RESTARTING
    assert len(running.effects_of(ReturnSlot)) == 3


# The end of a job


def test_a_job_finishes_after_its_tasks_have_finished_and_vertices_are_finalized() -> None:
    running = Running()
    running.run()

    for attempt in ("job_source_0_0", "job_source_1_0", "job_sink_0_0"):
        running.tell(NotifyEndOfData(attempt=ExecutionAttemptId(attempt)))
    running.report_all(ExecutionState.FINISHED)
    asked = running.effects[-1]
    running.finalize()
    again = running.finalize()

    assert asked == FinalizeVertices(version=1, vertices=running.graph.job_graph.vertices, has_read_all=True)
    assert running.effects_of(JobStatusMoved)[-1] == JobStatusMoved(status=JobStatus.FINISHED)
    assert len(running.effects_of(FinalizeVertices)) == 1
    assert [type(effect) for effect in again] == [Ignore]


def test_a_failed_finalization_fails_the_job_which_may_restart() -> None:
    running = Running()
    running.run()
    running.report_all(ExecutionState.FINISHED)

    running.finalize(failure("the marker cannot be written"))
    late = running.tell(JobVerticesFinalized(job_id=JOB, version=1))

    assert running.graph.status is JobStatus.RESTARTING
    assert running.graph.failure_cause == failure("the marker cannot be written")
    assert [type(effect) for effect in late] == [Ignore]


def test_a_failed_job_is_not_finalized() -> None:
    running = Running()
    running.run()

    running.report("job_source_0_0", ExecutionState.FAILED)
    running.report_all(ExecutionState.CANCELED)

    assert running.effects_of(FinalizeVertices) == []


def test_the_end_of_input_is_reported_once_by_the_last_task() -> None:
    running = Running()
    running.run()

    for attempt in ("job_source_0_0", "job_source_1_0", "job_source_1_0", "job_sink_0_0", "job_sink_0_0"):
        running.tell(NotifyEndOfData(attempt=ExecutionAttemptId(attempt)))

    assert running.messages_of(FinalCheckpointRequest) == [FinalCheckpointRequest(job_id=JOB)]


def test_new_attempts_must_report_the_end_of_input_again() -> None:
    running = Running(graph_of(vertex("source", 2)))
    running.run()
    running.tell(NotifyEndOfData(attempt=ExecutionAttemptId("job_source_0_0")))
    running.tell(GlobalFailureReported(cause=failure()))
    running.report_all(ExecutionState.CANCELED)
    running.tell(JobRestartDue(version=2))
    running.restore()
    running.give_slots()

    running.tell(NotifyEndOfData(attempt=ExecutionAttemptId("job_source_1_1")))

    assert running.messages_of(FinalCheckpointRequest) == []


def test_a_cancelled_job_waits_for_its_tasks() -> None:
    running = Running()
    running.run()

    running.tell(CANCEL)
    assert len(running.cancelled()) == 3
    assert running.statuses()[-1] is JobStatus.CANCELLING
    running.report_all(ExecutionState.CANCELED)

    assert running.statuses()[-1] is JobStatus.CANCELED


def test_a_failing_job_that_is_cancelled_does_not_restart() -> None:
    running = Running()
    running.run()
    running.tell(GlobalFailureReported(cause=failure()))

    running.tell(CANCEL)
    running.report_all(ExecutionState.CANCELED)

    assert running.statuses()[-1] is JobStatus.CANCELED
    assert running.effects_of(RestartScheduled) == []
