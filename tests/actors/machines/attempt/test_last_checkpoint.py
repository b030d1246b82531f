"""After the barrier of a job's final checkpoint a task reads no data, unless that checkpoint fails."""

from __future__ import annotations

from flykka.actors.machines.state.operator_state import elements_of
from flykka.messages.attempt.answers import CheckpointCommitted
from flykka.messages.attempt.commands import (
    CloseChain,
    PrepareCommit,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    WriteSnapshot,
)
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, NotifyCheckpointAborted
from flykka.messages.graph.job_graph import FiringMode
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, EndOfPartition, Watermark
from flykka.messages.tasks.source import NoMoreSplits, UnreadSplit
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    JOB,
    SOURCE,
    barrier,
    batch,
    down,
    durable,
    finished,
    source,
    split,
    splits,
    to_bridge,
    to_job_master,
    trigger,
    window,
)


def aborted(checkpoint_id: int) -> NotifyCheckpointAborted:
    return NotifyCheckpointAborted(
        job_id=JOB, attempt=ATTEMPT, checkpoint_id=checkpoint_id, latest_completed_id=None, timestamp_ms=7
    )


def test_a_stopped_source_stops_reading_and_checkpoints_its_unread_splits() -> None:
    task = source()

    stopped = task.feed(trigger(1, is_final=True), splits("a", "b"))
    effects = task.feed(finished(0), durable(1))

    assert [type(message) for message in to_bridge(stopped + effects)] == [SnapshotState, PrepareCommit, WriteSnapshot]
    assert not [message for message in to_job_master(effects) if not isinstance(message, AcknowledgeCheckpoint)]


def test_the_splits_held_by_a_stopped_source_are_in_its_final_checkpoint() -> None:
    task = source()
    task.feed(splits("a", "b", "c"))

    task.feed(trigger(1, is_final=True))
    effects = task.feed(finished(0), finished(1), finished(2), durable(1))

    [acknowledged] = [message for message in to_job_master(effects) if isinstance(message, AcknowledgeCheckpoint)]
    assert acknowledged.state is not None
    assert elements_of(acknowledged.state.operators, "SourceReaderState", UnreadSplit) == [
        UnreadSplit(split=split("c"), number=0)
    ]


def test_a_stopped_source_does_not_end_its_data_or_event_time() -> None:
    task = source()
    task.feed(splits("a"), finished(0, "rows", event_time_max=1_000))

    effects = task.feed(
        trigger(1, is_final=True),
        NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE),
        finished(1),
        durable(1),
        CheckpointCommitted(checkpoint_id=1),
    )

    assert down(effects) == [barrier(1, is_final=True), EndOfPartition()]
    assert to_bridge(effects)[-1] == CloseChain(cancel=False)


def test_data_blocked_by_a_savepoint_is_sent_before_the_task_finishes() -> None:
    task = source()
    task.feed(trigger(1, is_final=True), finished(0), durable(1), trigger(2))

    finishing = task.feed(CheckpointCommitted(checkpoint_id=1))
    effects = task.feed(finished(1))
    closing = task.feed(durable(2))

    assert to_bridge(finishing) == []
    assert down(effects) == [barrier(2), EndOfPartition()]
    assert to_bridge(effects + closing)[-1] == CloseChain(cancel=False)


def test_a_source_resumes_reading_if_its_final_checkpoint_is_aborted() -> None:
    task = source()
    task.feed(trigger(1, is_final=True), splits("a"), finished(0))

    effects = task.feed(aborted(1))

    assert ReadSplits(stage=1, splits=(split("a"),)) in to_bridge(effects)


def test_an_exhausted_source_reports_its_end_when_the_stop_is_aborted() -> None:
    task = source()
    task.feed(trigger(1, is_final=True), NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE), finished(0))

    effects = task.feed(aborted(1))

    assert down(effects) == [Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]


def test_a_drained_source_ends_data_and_event_time_before_its_last_barrier() -> None:
    task = source()
    task.feed(splits("a"), finished(0, "rows", event_time_max=1_000))

    effects = task.feed(trigger(1, is_final=True, drain=True), finished(1))

    assert down(effects) == [
        Watermark(timestamp_ms=WATERMARK_MAX),
        EndOfData(),
        barrier(1, is_final=True, drain=True),
    ]


def test_a_drained_source_does_not_resume_even_if_the_stop_is_aborted() -> None:
    task = source()
    task.feed(trigger(1, is_final=True, drain=True), splits("a"), finished(0))

    effects = task.feed(aborted(1))

    assert not [message for message in to_bridge(effects) if isinstance(message, ReadSplits)]


def test_a_drained_exhausted_source_reports_its_end_once() -> None:
    task = source()
    task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))

    effects = task.feed(trigger(1, is_final=True, drain=True), finished(0))

    assert down(effects) == [barrier(1, is_final=True, drain=True)]


def test_open_windows_do_not_fire_when_a_job_is_stopped() -> None:
    task = window(FiringMode.ON_WATERMARK)
    task.arrive(0, batch("rows"), barrier(1, is_final=True))

    effects = task.feed(finished(0), finished(1), durable(1), CheckpointCommitted(checkpoint_id=1))

    assert to_bridge(effects)[-1] == CloseChain(cancel=False)


def test_an_intermediate_task_pauses_at_the_final_barrier_until_it_is_aborted() -> None:
    task = window(FiringMode.ON_WATERMARK)

    behind = task.arrive(0, barrier(1, is_final=True), batch("rows"))
    effects = task.feed(aborted(1))

    assert [type(message) for message in to_bridge(behind)] == [SnapshotState]
    assert ProcessBatch in [type(message) for message in to_bridge(effects)]
