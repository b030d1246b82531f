"""What is known of each checkpoint and each subtask of it."""

from __future__ import annotations

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.statistics import CheckpointStatsStatus
from flykka.actors.machines.checkpoint.subtask_statistics import MinMaxAvg, SubtaskStateStats, TaskStateStats
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointMetrics
from flykka.messages.control.checkpoint_coordination import CheckpointTimedOut
from flykka.messages.wire.ids import JobVertexId
from tests.actors.machines.checkpoint.coordinating import Coordination, complete, task, two_tasks

V = JobVertexId("v")


def two_subtasks() -> Coordination:
    return Coordination(*(task(f"v{number}", vertex_id=V, subtask=number, parallelism=2) for number in (0, 1)))


def test_every_subtask_is_measured_and_summed_up_by_vertex() -> None:
    world = two_subtasks()
    world.trigger()

    world.advance(10)
    world.acknowledge("v1", 1, metrics=CheckpointMetrics(size_bytes=10, sync_ms=3, alignment_ms=7, start_delay_ms=1))
    world.advance(30)
    world.acknowledge("v0", 1, metrics=CheckpointMetrics(size_bytes=30, async_ms=5, incremental_bytes=4))

    stats = world.machine.stats.lookup(1)
    assert stats is not None
    assert (stats.size_bytes, stats.incremental_bytes, stats.duration_ms, stats.path) == (40, 4, 40, "chk-1")
    summary = stats.tasks[V].summary()
    assert summary.size_bytes == MinMaxAvg(count=2, least=10, greatest=30, total=40)
    assert summary.ack_ms == MinMaxAvg(count=2, least=10, greatest=40, total=50)
    assert (summary.sync_ms.greatest, summary.async_ms.average, summary.start_delay_ms.total) == (3, 2, 1)
    assert stats.tasks[V].subtasks[1].metrics.alignment_ms == 7


def test_a_checkpoint_that_is_given_up_shows_how_far_it_came_late_answers_included() -> None:
    world = two_subtasks()
    world.trigger()
    world.acknowledge("v0", 1, metrics=CheckpointMetrics(size_bytes=5))
    world.handle(CheckpointTimedOut(checkpoint_id=1))

    world.acknowledge("v1", 1, metrics=CheckpointMetrics(size_bytes=9))

    stats = world.machine.stats.lookup(1)
    assert stats is not None
    assert (stats.status, stats.reason) == (CheckpointStatsStatus.FAILED, CheckpointDeclineReason.EXPIRED)
    assert stats.acknowledged == 2
    assert stats.size_bytes == 5


def test_a_subtask_is_counted_once_and_a_stranger_not_at_all() -> None:
    stats = TaskStateStats(V, 2)

    reported = [stats.report(SubtaskStateStats(subtask=number, ack_ms=5)) for number in (0, 0, 2, -1)]

    assert reported == [True, False, False, False]
    assert (stats.acknowledged, stats.duration_ms(3)) == (1, 2)
    assert TaskStateStats(V, 1).duration_ms(0) is None


def test_the_latest_of_a_kind_is_the_one_with_the_highest_id() -> None:
    world = two_tasks(retained=2)
    world.trigger()
    world.trigger()
    for checkpoint_id in (1, 2):
        world.acknowledge("source", checkpoint_id)
    world.handle(CheckpointTimedOut(checkpoint_id=2))
    world.handle(CheckpointTimedOut(checkpoint_id=1))

    latest = world.machine.stats.latest_failed

    assert latest is not None
    assert latest.checkpoint_id == 2


def test_a_restore_is_counted_with_what_it_went_back_to() -> None:
    world = two_tasks()
    complete(world, 1)

    world.handle(events.RestoreRequested(version=1))

    assert (world.machine.stats.counts.restored, world.machine.stats.latest_restored_id) == (1, 1)
