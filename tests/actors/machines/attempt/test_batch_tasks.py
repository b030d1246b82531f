"""Tasks of a batch job end after their input and retain their results for the readers; sinks commit at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.attempt.events import BridgeLost, EndAttempt, StartTask, TaskEffect
from flykka.actors.machines.effects import Tell
from flykka.messages.attempt.answers import ChainClosed, ChainOpened, CheckpointCommitted
from flykka.messages.attempt.commands import (
    AdvanceWatermark,
    CloseChain,
    CommitCheckpoint,
    OpenChain,
    ReadSplits,
    SnapshotState,
)
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete
from flykka.messages.graph.job_graph import JobType, OperatorKind, ResultPartitionType
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, EndOfPartition, Watermark
from flykka.messages.tasks.source import NoMoreSplits
from flykka.messages.tasks.task import (
    CancelTask,
    ExecutionState,
    KeepPartitions,
    NotifyEndOfData,
    TaskDeploymentDescriptor,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref
from tests.actors.machines.attempt import attempt_machine
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    JOB,
    OUT,
    SOURCE,
    WINDOWS,
    Harness,
    batch,
    durable,
    finished,
    splits,
    to_bridge,
    to_job_master,
    trigger,
)

END = (Watermark(timestamp_ms=WATERMARK_MAX), EndOfData(), EndOfPartition())
LOST = SerializedThrowable(type_name="BridgeLostError", message="gone")


def descriptor(
    kind: OperatorKind, channels: int = 0, outputs: int = 0, *, restored: int | None = None
) -> TaskDeploymentDescriptor:
    made = attempt_machine.descriptor(kind, channels, outputs, watermark_delay_ms=100)
    kept = tuple(replace(each, partition_type=ResultPartitionType.BLOCKING) for each in made.outputs)
    return replace(
        made,
        job_type=JobType.BATCH,
        outputs=kept,
        restored_checkpoint_id=restored,
        restore=None if restored is None else TaskStateSnapshot(),
    )


def running(deployed: TaskDeploymentDescriptor) -> Harness:
    task = Harness(deployed)
    task.feed(StartTask(), WINDOWS)
    return task


def reported_states(effects: list[TaskEffect]) -> list[ExecutionState]:
    return [each.state.state for each in to_job_master(effects) if isinstance(each, UpdateTaskExecutionState)]


def keeps(effects: list[TaskEffect]) -> list[KeepPartitions]:
    messages = [effect.message for effect in effects if isinstance(effect, Tell)]
    return [message for message in messages if isinstance(message, KeepPartitions)]


def test_a_source_finishes_after_its_data_and_reports_its_results() -> None:
    task = running(descriptor(OperatorKind.SOURCE, outputs=1))
    task.feed(splits("a"), finished(0, "a", event_time_max=5_000))

    ended = task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))
    closed = task.feed(ChainClosed())

    (kept,) = keeps(closed)
    assert to_bridge(ended) == [CloseChain(cancel=False)]
    assert kept.partitions[0].descriptor.partition_id == OUT
    assert kept.partitions[0].subpartitions == ((batch("a"), *END),)
    assert reported_states(closed) == [ExecutionState.FINISHED]
    assert closed[-1] == EndAttempt()


def test_a_result_is_readable_before_its_end_is_reported() -> None:
    task = running(descriptor(OperatorKind.SOURCE, outputs=1))
    task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))

    closed = task.feed(ChainClosed())

    reported = next(place for place, effect in enumerate(closed) if reported_states([effect]))
    assert keeps(closed[:reported])


@pytest.mark.parametrize("event", [CancelTask(attempt=ATTEMPT), BridgeLost(cause=LOST)], ids=["cancelled", "lost"])
def test_a_task_that_fails_to_finish_leaves_no_partition(event: CancelTask | BridgeLost) -> None:
    task = running(descriptor(OperatorKind.SOURCE, outputs=1))
    task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))

    effects = task.feed(event)
    if isinstance(event, CancelTask):
        effects += task.feed(ChainClosed())

    assert keeps(effects) == []
    assert ExecutionState.FINISHED not in reported_states(effects)
    assert effects[-1] == EndAttempt()


def test_windows_fire_at_the_end_of_event_time_before_the_task_finishes() -> None:
    windows = running(descriptor(OperatorKind.WINDOW_AGGREGATE, channels=1, outputs=1))

    fired = windows.arrive(0, *END)
    ended = windows.feed(finished(0))

    assert to_bridge(fired) == [AdvanceWatermark(stage=0, watermark_ms=WATERMARK_MAX)]
    assert to_bridge(ended) == [CloseChain(cancel=False)]


def test_a_sink_waits_for_the_final_checkpoint_and_is_triggered_directly() -> None:
    task = running(descriptor(OperatorKind.SINK, channels=1))

    read = task.arrive(0, *END)
    triggered = task.feed(trigger(1, is_final=True))
    task.feed(finished(0))
    task.feed(durable(1))
    committing = task.feed(NotifyCheckpointComplete(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, timestamp_ms=0))
    committed = task.feed(CheckpointCommitted(checkpoint_id=1))

    assert NotifyEndOfData(attempt=ATTEMPT) in to_job_master(read)
    assert CloseChain(cancel=False) not in to_bridge(read)
    assert [type(message) for message in to_bridge(triggered)] == [SnapshotState]
    assert to_bridge(committing) == [CommitCheckpoint(checkpoint_id=1)]
    assert to_bridge(committed) == [CloseChain(cancel=False)]


def test_a_sink_with_unread_input_is_not_triggered() -> None:
    task = running(descriptor(OperatorKind.SINK, channels=2))
    task.arrive(0, *END)

    assert to_bridge(task.feed(trigger(1, is_final=True))) == []


def test_a_job_restored_from_its_final_checkpoint_reads_no_data() -> None:
    task = Harness(descriptor(OperatorKind.SINK, channels=1, restored=1))

    opening = task.feed(StartTask())
    opened = task.feed(ChainOpened())
    triggered = task.feed(trigger(2, is_final=True))

    assert to_bridge(opening) == [OpenChain(restore=TaskStateSnapshot(), restored_checkpoint_id=1)]
    assert not [effect for effect in opened if isinstance(effect, Tell) and isinstance(effect.to, Ref)]
    assert NotifyEndOfData(attempt=ATTEMPT) in to_job_master(opened)
    assert [type(message) for message in to_bridge(triggered)] == [SnapshotState]


def test_a_source_restored_from_its_final_checkpoint_requests_no_splits() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE, outputs=1, restored=1))
    task.feed(StartTask())

    opened = task.feed(ChainOpened())
    closed = task.feed(ChainClosed())

    assert NotifyEndOfData(attempt=ATTEMPT) in to_job_master(opened)
    assert not [message for message in to_bridge(opened) if isinstance(message, ReadSplits)]
    (kept,) = keeps(closed)
    assert kept.partitions[0].subpartitions == (END,)
