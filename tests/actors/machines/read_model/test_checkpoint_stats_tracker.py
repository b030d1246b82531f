"""Statistics of each checkpoint and its subtasks, in progress and completed."""

from __future__ import annotations

from flykka.actors.machines.read_model.checkpoint_stats_tracker import SUBTASK_HISTORY, CheckpointStatsTracker
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointMetrics
from flykka.messages.checkpointing.statistics import (
    CheckpointStatsStatus,
    StatsSummary,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
)
from flykka.messages.control.checkpoint_coordination import CheckpointTimedOut
from flykka.messages.control.job import JobRestored
from flykka.messages.wire.ids import JobVertexId
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    Coordination,
    complete_checkpoint,
    planned_task,
    two_tasks,
)

V = JobVertexId("v")


def two_subtasks() -> Coordination:
    return Coordination(*(planned_task(f"v{number}", vertex_id=V, subtask=number, parallelism=2) for number in (0, 1)))


def test_a_pending_checkpoint_lists_the_acknowledged_subtasks() -> None:
    harness = two_subtasks()
    harness.trigger()

    harness.advance(10)
    harness.acknowledge("v1", 1, metrics=CheckpointMetrics(size_bytes=10))

    [pending] = harness.stats.in_progress
    assert (pending.status, pending.trigger_ms) == (CheckpointStatsStatus.IN_PROGRESS, 0)
    assert (pending.num_acknowledged_subtasks, pending.num_subtasks, pending.size_bytes) == (1, 2, 10)
    [subtask] = harness.stats.details(JOB, 1).subtasks
    assert (subtask.vertex_id, subtask.subtask, subtask.ack_ms) == (V, 1, 10)


def test_statistics_of_all_subtasks_are_summarised_by_vertex() -> None:
    harness = two_subtasks()
    harness.trigger()

    harness.advance(10)
    harness.acknowledge("v1", 1, metrics=CheckpointMetrics(size_bytes=10, sync_ms=3, alignment_ms=7, start_delay_ms=1))
    harness.advance(30)
    harness.acknowledge("v0", 1, metrics=CheckpointMetrics(size_bytes=30, async_ms=5, incremental_bytes=4))

    stats = harness.stats.lookup(1)
    assert stats is not None
    assert (stats.size_bytes, stats.incremental_bytes, stats.duration_ms, stats.path) == (40, 4, 40, "chk-1")
    [vertex] = stats.vertices
    assert (vertex.parallelism, vertex.acknowledged, vertex.duration_ms, vertex.size_bytes) == (2, 2, 40, 40)
    assert vertex.sync_ms == StatsSummary(minimum=0, maximum=3, average=1)
    assert (vertex.async_ms.average, vertex.start_delay_ms.maximum) == (2, 1)
    assert harness.stats.details(JOB, 1).subtasks[0].metrics.alignment_ms == 7


def test_an_aborted_checkpoint_shows_its_progress_including_late_acknowledgements() -> None:
    harness = two_subtasks()
    harness.trigger()
    harness.acknowledge("v0", 1, metrics=CheckpointMetrics(size_bytes=5))
    harness.handle(CheckpointTimedOut(checkpoint_id=1))

    harness.acknowledge("v1", 1, metrics=CheckpointMetrics(size_bytes=9))

    stats = harness.stats.lookup(1)
    assert stats is not None
    assert (stats.status, stats.reason) == (CheckpointStatsStatus.FAILED, CheckpointDeclineReason.EXPIRED)
    assert stats.num_acknowledged_subtasks == 2
    assert stats.size_bytes == 5


def test_a_subtask_counts_once_and_unknown_checkpoints_are_ignored() -> None:
    harness = two_subtasks()
    harness.trigger()
    once = SubtaskCheckpointStatistics(vertex_id=V, subtask=0, ack_ms=5)

    for checkpoint_id in (1, 1, 2):
        harness.stats.on_message(SubtasksAcknowledged(job_id=JOB, checkpoint_id=checkpoint_id, subtasks=(once,)))

    assert harness.stats.details(JOB, 1).subtasks == (once,)
    assert harness.stats.details(JOB, 2).checkpoint is None


def test_recent_and_pending_checkpoints_retain_their_subtasks() -> None:
    harness = two_tasks()
    harness.trigger()

    for checkpoint_id in range(2, SUBTASK_HISTORY + 4):
        complete_checkpoint(harness, checkpoint_id)

    kept = [number for number in range(1, SUBTASK_HISTORY + 4) if harness.stats.details(JOB, number).subtasks]
    assert kept == list(range(4, SUBTASK_HISTORY + 4))
    assert len(harness.stats.ended(1_000)) == SUBTASK_HISTORY + 3


def test_the_latest_checkpoint_of_a_type_has_the_highest_id() -> None:
    harness = two_tasks(retained=2)
    harness.trigger()
    harness.trigger()
    for checkpoint_id in (1, 2):
        harness.acknowledge("source", checkpoint_id)
    harness.handle(CheckpointTimedOut(checkpoint_id=2))
    harness.handle(CheckpointTimedOut(checkpoint_id=1))

    latest = harness.stats.latest_failed

    assert latest is not None
    assert latest.checkpoint_id == 2


def test_a_restore_is_counted_with_its_checkpoint() -> None:
    tracker = CheckpointStatsTracker({})

    tracker.on_message(JobRestored(job_id=JOB, checkpoint_id=1, timestamp_ms=0))

    assert (tracker.counts.restored, tracker.latest_restored) == (1, 1)


def test_pending_checkpoints_fail_when_their_coordinator_is_lost() -> None:
    harness = two_subtasks()
    harness.trigger()

    harness.stats.on_coordinator_lost(70)

    failed = harness.stats.latest_failed
    assert failed is not None
    assert (failed.reason, failed.duration_ms) == (CheckpointDeclineReason.COORDINATOR_SHUTDOWN, 70)
    assert harness.stats.in_progress == ()
    assert (harness.stats.counts.in_progress, harness.stats.counts.failed) == (0, 1)
