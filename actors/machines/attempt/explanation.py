"""Explains why an attempt waits: read from its parts, without decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from flykka.actors.machines.attempt.checkpoints import CheckpointBook
from flykka.actors.machines.attempt.ending import AttemptState
from flykka.actors.machines.attempt.inputs import TaskInputs
from flykka.actors.machines.attempt.source import SourceReading
from flykka.actors.machines.attempt.stages import Stages
from flykka.actors.machines.exchange.input_channel import InputChannel
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.attempt.commands import (
    AdvanceProcessingTime,
    AdvanceWatermark,
    HandleOperatorEvents,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    StageCommand,
)
from flykka.messages.monitoring.explanation import ChannelExplained, OutputExplained, StageExplained, TaskExplained

SHOWN = 16
"""The most channels and outputs in an explanation: a task may have thousands, and a few show the cause."""


def explain_task(
    state: AttemptState,
    stages: Stages,
    inputs: TaskInputs,
    source: SourceReading | None,
    book: CheckpointBook,
    now: int,
) -> TaskExplained:
    channels = list(_channels(inputs))
    # Those that the task waits for come first: their barrier, then anything at all.
    channels.sort(key=lambda channel: (not channel.barrier_missing, channel.queued, channel.is_blocked))
    outputs = sorted(_outputs(stages), key=lambda output: (not output.is_full, output.credit or 0, -output.queued))
    explained = TaskExplained(
        attempt=state.attempt,
        now_ms=now,
        state=state.current,
        activity=stages.meter.activity.value,
        activity_since_ms=stages.meter.activity_since_ms,
        stages=tuple(
            StageExplained(purpose=_words(each.command), since_ms=each.since_ms) for each in stages.line.stages
        ),
        channels=tuple(channels[:SHOWN]),
        channels_open=len(channels),
        outputs=tuple(outputs[:SHOWN]),
        aligning=next(reversed(inputs.barriers.pending_checkpoints), None),
        snapshotting=book.under_way,
        waits_for_final_checkpoint=stages.has_reached_end_of_data,
        ending=state.ending,
        held_back_by=stages.event_time.held_back_by,
    )
    if source is None:
        return explained
    waits = not source.reader.has_unread and not source.end_of_data
    return replace(
        explained,
        is_source=True,
        waits_for_splits=waits,
        files_unread=source.reader.files_unread,
        batch_limit_bytes=source.reader.batch_limit_bytes,
        waits_for_group=source.held_back_by,
    )


def _channels(inputs: TaskInputs) -> Iterator[ChannelExplained]:
    missing, blocked = inputs.barriers.missing_channels, inputs.barriers.blocked_channels
    for channel in inputs.gate.channels:
        if channel.is_open:
            number = channel.channel
            yield _channel(channel, barrier_missing=number in missing, is_blocked=number in blocked)


def _channel(channel: InputChannel, *, barrier_missing: bool, is_blocked: bool) -> ChannelExplained:
    return ChannelExplained(
        partition_id=channel.descriptor.partition_id,
        subpartition=channel.descriptor.subpartition,
        state=channel.state.value,
        queued=len(channel.queue),
        credit=channel.credits.outstanding,
        is_blocked=is_blocked,
        barrier_missing=barrier_missing,
    )


def _outputs(stages: Stages) -> Iterator[OutputExplained]:
    for partition in stages.outputs.partitions:
        # In a blocking one nothing waits for a reader.
        if not partition.is_blocking:
            yield from _subpartitions(partition)


def _subpartitions(partition: ResultPartition) -> Iterable[OutputExplained]:
    for index in partition.unread_subpartitions:
        subpartition = partition.subpartitions[index]
        if subpartition.queued:
            yield OutputExplained(
                partition_id=partition.descriptor.partition_id,
                subpartition=index,
                queued=subpartition.queued,
                credit=None if subpartition.consumer is None else subpartition.credit,
                is_full=not partition.is_available,
            )


def _words(command: StageCommand) -> str:
    match command:
        case ReadSplits():
            return "reads its source"
        case ProcessBatch():
            return "processes a batch"
        case AdvanceWatermark():
            return "emits what event time has completed"
        case AdvanceProcessingTime():
            return "fires timers that processing time has come to"
        case HandleOperatorEvents():
            return "handles events of its coordinator"
        case SnapshotState(checkpoint_id=checkpoint_id):
            return f"takes its snapshot for checkpoint {checkpoint_id}"
        case _:
            raise AssertionError(f"no stage begins with {command}")
