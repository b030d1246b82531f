"""Data that a task blocks during alignment, by the job's checkpointing mode and by the size limit."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.attempt.events import StartTask
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.attempt.commands import ProcessBatch, SnapshotState
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.graph.job_graph import CheckpointingMode, OperatorKind
from tests.actors.machines.attempt.attempt_machine import (
    Harness,
    barrier,
    batch,
    descriptor,
    durable,
    finished,
    source,
    to_bridge,
    to_job_master,
    trigger,
)

DEPLOYED = descriptor(OperatorKind.STATELESS, channels=2)


def running(**changed: object) -> Harness:
    task = Harness(replace(DEPLOYED, **changed))  # type: ignore[arg-type]
    task.feed(StartTask(), ChainOpened())
    return task


def test_exactly_once_blocks_a_channel_from_its_barrier_to_the_snapshot() -> None:
    task = running()
    task.arrive(0, barrier(1))

    held_back = task.arrive(0, batch("behind"))
    aligned = task.arrive(1, barrier(1))

    assert to_bridge(held_back) == []
    assert [type(message) for message in to_bridge(aligned)] == [SnapshotState, ProcessBatch]


def test_at_least_once_alignment_blocks_no_channel() -> None:
    task = running(checkpointing_mode=CheckpointingMode.AT_LEAST_ONCE)
    task.arrive(0, barrier(1))

    read = task.arrive(0, batch("behind"))
    counted = task.arrive(1, barrier(1))

    assert [type(message) for message in to_bridge(read)] == [ProcessBatch]
    assert [type(message) for message in to_bridge(counted + task.feed(finished(0)))] == [SnapshotState]


def test_a_snapshot_reports_alignment_time_and_data_processed_during_alignment() -> None:
    task = running()
    task.arrive(1, batch("before"))
    task.arrive(0, barrier(1))
    task.now += 40
    task.arrive(1, batch("meanwhile"))
    task.feed(finished(0), finished(1))
    task.arrive(1, barrier(1))

    effects = task.feed(finished(2), durable(1))

    [acknowledged] = to_job_master(effects)
    assert isinstance(acknowledged, AcknowledgeCheckpoint)
    assert acknowledged.metrics.alignment_ms == 40
    assert acknowledged.metrics.bytes_processed_during_alignment == batch("meanwhile").size_bytes
    assert not acknowledged.metrics.is_unaligned


def test_a_snapshot_reports_its_start_delay() -> None:
    task = running()
    first = barrier(1)
    task.now = first.timestamp_ms + 25
    task.arrive(0, first)
    task.now += 40
    task.arrive(1, barrier(1))

    [acknowledged] = to_job_master(task.feed(finished(0), durable(1)))

    assert isinstance(acknowledged, AcknowledgeCheckpoint)
    assert acknowledged.metrics.start_delay_ms == 25


def test_a_source_reports_the_delay_of_its_trigger() -> None:
    task = source()
    triggered = trigger(1)
    task.now = triggered.timestamp_ms + 3

    messages = to_job_master(task.feed(triggered, finished(0), durable(1)))

    [acknowledged] = [message for message in messages if isinstance(message, AcknowledgeCheckpoint)]
    assert acknowledged.metrics.start_delay_ms == 3
