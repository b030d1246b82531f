"""The JobMaster requests slots, deploys tasks, and reacts to lost components."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from flykka.actors.job_master.actor import JobMaster
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete, TriggerCheckpoint
from flykka.messages.control.job import (
    JobRestored,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    MetricsReported,
    TaskManagerLost,
)
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    Heartbeat,
    HeartbeatRequest,
    RegisterTaskManager,
)
from flykka.messages.control.slots import AcceptSlots, FreeSlot, OfferSlots, RequestSlot, SlotRequestFailed
from flykka.messages.graph.job_graph import (
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
    NoRestartStrategyConfiguration,
)
from flykka.messages.monitoring.exception_history import ExceptionHistoryChanged
from flykka.messages.tasks.source import AddSplits, NoMoreSplits
from flykka.messages.tasks.task import (
    CancelTask,
    ExecutionState,
    NotifyEndOfData,
    ReportTaskMetrics,
    SubmitTask,
    TaskIOMetrics,
)
from flykka.messages.wire.ids import ExecutionAttemptId, LeaderSessionId, OperatorId, TaskManagerId
from flykka.runtime.events import DeadLetter
from flykka.runtime.leader_session import Gateway
from flykka.runtime.ref import ActorRef
from tests.actors.job_cluster import JobCluster, file_split
from tests.actors.machines.graph.graphs import JOB, failure

SOURCE, SINK = ExecutionAttemptId("job_source_0_0"), ExecutionAttemptId("job_sink_0_0")


def attempts(cluster: JobCluster, task_manager: ActorRef) -> list[str]:
    return [descriptor.attempt for descriptor in cluster.deployed(task_manager)]


def checkpointed(cluster: JobCluster, interval_ms: int | None = None) -> JobGraph:
    graph = cluster.graph()
    return replace(graph, checkpointing=replace(graph.checkpointing, interval_ms=interval_ms))


def test_an_unhandled_checkpoint_message_is_logged_by_the_job_master(
    cluster: JobCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.submit(cluster.graph())
    trigger = TriggerCheckpoint(job_id=JOB, attempt=SOURCE, checkpoint_id=7, timestamp_ms=0)

    cluster.tell_job_master(trigger)

    (record,) = [each for each in caplog.records if "TriggerCheckpoint" in each.getMessage()]
    job_master = cluster.registration.job_master
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{job_master.path}#1 has no handler for TriggerCheckpoint")


def test_handling_an_effect_may_not_emit_further_events(
    cluster: JobCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobMaster, "_on_effect", lambda job_master, _: job_master._decide(()))

    cluster.submit(cluster.graph())

    text = "an effect has handled an event instead of returning it"
    assert text in caplog.text


# Slots and deployment


def test_vertices_that_share_slots_request_one_slot_per_subtask(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph(parallelism=2))

    assert cluster.received(cluster.resource_manager, RequestSlot) == []
    cluster.accept_job_master()

    assert len(cluster.received(cluster.resource_manager, RequestSlot)) == 2


def test_deployment_waits_for_every_slot(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph(parallelism=2))
    cluster.accept_job_master()
    task_manager = cluster.register_task_manager("tm-1")

    cluster.offer("tm-1", 1)
    assert cluster.deployed(task_manager) == []
    cluster.offer("tm-1", 1)

    assert attempts(cluster, task_manager) == ["job_source_0_0", "job_source_1_0", "job_sink_0_0", "job_sink_1_0"]


def test_a_slot_is_accepted_before_its_task_arrives(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    classes = [type(message) for message in cluster.all_received(task_manager)]
    assert classes.index(AcceptSlots) < classes.index(SubmitTask)


def test_offering_a_slot_twice_deploys_once(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())
    cluster.accept_job_master()
    task_manager = cluster.register_task_manager("tm-1")
    cluster.offer("tm-1", 1)
    offer = OfferSlots(task_manager_id=TaskManagerId("tm-1"), offers=cluster.offered[-1])

    cluster.tell_job_master(offer)

    assert [answer.accepted for answer in cluster.received(task_manager, AcceptSlots)] == [
        (offer.offers[0].allocation_id,),
        (offer.offers[0].allocation_id,),
    ]
    assert len(cluster.deployed(task_manager)) == 2


def test_an_unavailable_slot_fails_the_job(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph(restart=NoRestartStrategyConfiguration()))
    cluster.accept_job_master()
    wanted = cluster.last(cluster.resource_manager, RequestSlot)

    cluster.tell_job_master(SlotRequestFailed(allocation_id=wanted.allocation_id, reason="there are no more"))

    assert cluster.last(cluster.client, JobResultFailure).cause.message == "there are no more"


def test_a_repeated_registration_is_acknowledged_again(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())
    task_manager = cluster.register_task_manager("tm-1")

    cluster.tell_job_master(RegisterTaskManager(task_manager_id=TaskManagerId("tm-1"), task_manager=task_manager))

    assert [ack.job_id for ack in cluster.received(task_manager, AcknowledgeRegistration)] == [JOB, JOB]


def test_slots_are_returned_when_the_job_has_ended(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    for attempt in attempts(cluster, task_manager):
        cluster.report(attempt, ExecutionState.FINISHED)

    assert len(cluster.received(task_manager, FreeSlot)) == 1


def test_messages_under_another_session_are_dropped(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())
    letters: list[DeadLetter] = []
    cluster.system.event_stream.subscribe(letters.append, DeadLetter)

    stale = Gateway(cluster.registration.job_master, LeaderSessionId("somebody-else"))
    stale.tell(ReportTaskMetrics(attempt=SOURCE, metrics=TaskIOMetrics()))
    cluster.system.run_until_idle()

    assert "stale leader session somebody-else" in letters[-1].reason


# Failure and restart


def test_a_failed_task_cancels_the_others_and_all_restart(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.report(SOURCE, ExecutionState.FAILED, failure())
    assert cluster.received(task_manager, CancelTask) == [CancelTask(attempt=SINK)]
    cluster.report(SINK, ExecutionState.CANCELED)
    cluster.system.advance(1)

    assert attempts(cluster, task_manager)[2:] == ["job_source_0_1", "job_sink_0_1"]
    assert cluster.statuses()[-4:] == [JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.CREATED, JobStatus.RUNNING]
    assert cluster.last(cluster.client, JobRestored).checkpoint_id is None


def test_a_job_that_is_not_restarted_logs_and_publishes_the_reason(
    cluster: JobCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="flykka.actors")
    cluster.run(cluster.graph(restart=NoRestartStrategyConfiguration()), slots=1)

    cluster.report(SOURCE, ExecutionState.FAILED, failure())
    cluster.report(SINK, ExecutionState.CANCELED)

    why = "the restart strategy allows no restart"
    assert f"job {JOB} could not be restarted: {why}" in caplog.messages
    assert cluster.last(cluster.client, ExceptionHistoryChanged).entry.why_not_restarted == why


def test_a_restart_uses_the_slots_that_the_job_already_has(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)

    cluster.report(SOURCE, ExecutionState.FAILED, failure())
    cluster.report(SINK, ExecutionState.CANCELED)
    cluster.system.advance(1)

    assert len(cluster.received(cluster.resource_manager, RequestSlot)) == 1


def test_a_killed_task_manager_is_one_failure_and_its_slots_are_rerequested(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(parallelism=2), slots=2)

    cluster.system.kill(task_manager)
    cluster.system.advance(1)

    assert [lost.task_manager for lost in cluster.received(cluster.client, TaskManagerLost)] == ["tm-1"]
    assert cluster.statuses().count(JobStatus.FAILING) == 1
    assert len(cluster.received(cluster.resource_manager, RequestSlot)) == 4


def test_a_job_resumes_on_the_replacement_of_a_killed_task_manager(cluster: JobCluster) -> None:
    cluster.system.kill(cluster.run(cluster.graph(), slots=1))
    cluster.system.advance(1)

    replacement = cluster.register_task_manager("tm-2")
    cluster.offer("tm-2", 1)

    assert attempts(cluster, replacement) == ["job_source_0_1", "job_sink_0_1"]


def test_a_task_manager_that_is_silent_for_too_long_is_lost(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.system.advance(60_000)

    assert len(cluster.received(task_manager, HeartbeatRequest)) > 1
    assert "sent no heartbeat" in cluster.last(cluster.client, TaskManagerLost).reason
    assert cluster.received(task_manager, DisconnectJobMaster) == [DisconnectJobMaster(job_id=JOB)]


def test_a_task_manager_that_sends_heartbeats_is_not_lost(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)

    for _ in range(10):
        cluster.system.advance(10_000)
        cluster.tell_job_master(Heartbeat(task_manager_id=TaskManagerId("tm-1")))

    assert cluster.received(cluster.client, TaskManagerLost) == []


# Sources


def test_discovery_continues_until_everything_is_discovered_and_read(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.request_splits(count=4)
    cluster.system.advance(300)

    handed = [each.splits for each in cluster.received(task_manager, AddSplits)]
    assert handed == [(file_split("file-0"),), (file_split("file-1"),), (file_split("file-2"),)]
    assert len(cluster.received(task_manager, NoMoreSplits)) == 1


def test_a_failing_discovery_fails_the_job_and_is_repeated(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    cluster.data_plane.discoveries[OperatorId("source")].failures_left = 1

    cluster.system.advance(100)
    for cancel in cluster.received(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)
    cluster.system.advance(1)
    cluster.request_splits("job_source_0_1", count=2)

    assert [each.attempt for each in cluster.received(task_manager, AddSplits)] == ["job_source_0_1"]
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING


def test_splits_of_a_failed_reader_are_reassigned(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    cluster.request_splits()

    cluster.report(SINK, ExecutionState.FAILED, failure())
    cluster.report(SOURCE, ExecutionState.CANCELED)
    cluster.system.advance(1)
    cluster.request_splits("job_source_0_1")

    assert [each.splits for each in cluster.received(task_manager, AddSplits)] == [(file_split("file-0"),)] * 2


def test_the_request_of_an_earlier_attempt_gets_no_split(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    cluster.report(SINK, ExecutionState.FAILED, failure())
    cluster.report(SOURCE, ExecutionState.CANCELED)
    cluster.system.advance(1)

    cluster.request_splits(SOURCE)

    assert cluster.received(task_manager, AddSplits) == []


# Checkpoints


def test_a_reader_gets_no_splits_between_a_snapshot_and_its_reply(cluster: JobCluster) -> None:
    task_manager = cluster.run(checkpointed(cluster, interval_ms=50), slots=1)
    cluster.system.advance(60)

    cluster.request_splits()
    assert cluster.received(task_manager, AddSplits) == []
    cluster.acknowledge(SOURCE)

    assert [each.splits for each in cluster.received(task_manager, AddSplits)] == [(file_split("file-0"),)]


def test_a_final_checkpoint_is_taken_when_all_tasks_have_read_everything(cluster: JobCluster) -> None:
    task_manager = cluster.run(checkpointed(cluster), slots=1)

    cluster.tell_job_master(NotifyEndOfData(attempt=SOURCE))
    assert cluster.received(task_manager, TriggerCheckpoint) == []
    cluster.tell_job_master(NotifyEndOfData(attempt=SINK))
    trigger = cluster.last(task_manager, TriggerCheckpoint)
    cluster.acknowledge(SOURCE)
    cluster.acknowledge(SINK)
    attempts = {notification.attempt for notification in cluster.received(task_manager, NotifyCheckpointComplete)}
    for attempt in (SOURCE, SINK):
        cluster.report(attempt, ExecutionState.FINISHED)

    assert (trigger.attempt, trigger.options.is_final) == (SOURCE, True)
    assert attempts == {SOURCE, SINK}
    assert cluster.received(cluster.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_metrics_of_tasks_are_forwarded_with_their_names(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)

    cluster.tell_job_master(ReportTaskMetrics(attempt=SOURCE, metrics=TaskIOMetrics(rows_out=7)))

    reported = cluster.last(cluster.client, MetricsReported)
    assert (reported.task_name, reported.metrics.rows_out) == ("source (1/1)", 7)


def test_the_number_of_waiting_files_is_reported_with_the_reader_metrics(cluster: JobCluster) -> None:
    cluster.data_plane.files_left = 42
    cluster.run(cluster.graph(), slots=1)

    for attempt in (SOURCE, SINK):
        cluster.tell_job_master(ReportTaskMetrics(attempt=attempt, metrics=TaskIOMetrics()))

    reported = cluster.received(cluster.client, MetricsReported)
    assert [(message.vertex_id, message.files_unassigned) for message in reported] == [("source", 42), ("sink", 0)]


def test_a_job_cancelled_during_its_restart_delay_does_not_restart(cluster: JobCluster) -> None:
    later = FixedDelayRestartStrategyConfiguration(delay_ms=1_000)
    task_manager = cluster.run(cluster.graph(restart=later), slots=1)
    cluster.report(SOURCE, ExecutionState.FAILED, failure())
    cluster.report(SINK, ExecutionState.CANCELED)

    cluster.cancel()
    cluster.system.advance(2_000)

    assert cluster.last(cluster.client, JobResultFailure).status is JobStatus.CANCELED
    assert len(cluster.deployed(task_manager)) == 2


def test_a_failing_discovery_does_not_prevent_cancellation(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    cluster.data_plane.discoveries[OperatorId("source")].failures_left = 1
    cluster.cancel()

    cluster.system.advance(100)
    for cancel in cluster.received(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)

    assert cluster.last(cluster.client, JobResultFailure).status is JobStatus.CANCELED
