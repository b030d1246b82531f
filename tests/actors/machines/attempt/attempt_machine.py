"""Drives the state machine of a Task. The builders have defaults for event fields, and effects can be filtered by
receiver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from flykka.actors.machines.attempt.attempt import StreamTask
from flykka.actors.machines.attempt.events import StartTask, TaskEffect, TaskEvent
from flykka.actors.machines.effects import Role, Tell
from flykka.messages.attempt.answers import (
    ChainOpened,
    CommitPrepared,
    SnapshotWritten,
    StageResult,
    WorkDone,
    WorkFailed,
)
from flykka.messages.attempt.commands import Command, StageCommand, StagedOutput, StageOutput
from flykka.messages.checkpointing.checkpoint import (
    CheckpointOptions,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.graph.job_graph import FiringMode, JobVertex, Operator, OperatorKind, OperatorRef, ShipStrategy
from flykka.messages.state.handles import (
    InFlightRows,
    InputChannelStateHandle,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.tasks.exchange import BatchRef, Buffer, BufferResponse, CheckpointBarrier, PartitionRequest
from flykka.messages.tasks.source import AddSplits, FileSplit
from flykka.messages.tasks.task import (
    InputChannelDescriptor,
    InputGateDescriptor,
    ReportTaskMetrics,
    ResultPartitionDescriptor,
    TaskDeploymentDescriptor,
    TaskIOMetrics,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import (
    AllocationId,
    BatchId,
    ExecutionAttemptId,
    JobId,
    JobVertexId,
    OperatorId,
    ResultPartitionId,
    SplitId,
)
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref

C = TypeVar("C", bound=Command)

JOB = JobId("job")
ATTEMPT = ExecutionAttemptId("job_vertex_0_0")
OUT = ResultPartitionId(f"{ATTEMPT}:0")
UPSTREAM = (ResultPartitionId("up-0:0"), ResultPartitionId("up-1:0"))
SOURCE = OperatorId("source")
TASK, CONSUMER, MANAGER = Ref("/task", 1), Ref("/consumer", 2), Ref("/manager", 3)


def descriptor(kind: OperatorKind, channels: int = 0, outputs: int = 0, **vertex: Any) -> TaskDeploymentDescriptor:
    operator = Operator(operator_id=SOURCE, ref=OperatorRef(uid="op", fingerprint="f"), name="op", kind=kind)
    gate = InputGateDescriptor(
        gate=0,
        channels=tuple(
            InputChannelDescriptor(partition_id=UPSTREAM[channel], subpartition=0, task_manager=MANAGER)
            for channel in range(channels)
        ),
    )
    partition = ResultPartitionDescriptor(
        partition_id=OUT, output=0, subpartitions=1, ship_strategy=ShipStrategy.HASH, max_parallelism=128
    )
    made = JobVertex(
        vertex_id=JobVertexId("vertex"), name="op", operators=(operator,), parallelism=1, max_parallelism=128
    )
    return TaskDeploymentDescriptor(
        job_id=JOB,
        attempt=ATTEMPT,
        attempt_number=0,
        vertex=replace(made, **vertex),
        subtask=0,
        allocation_id=AllocationId("slot"),
        outputs=(partition,) * outputs,
        inputs=(gate,) if channels else (),
        checkpoint_directory="/checkpoints",
    )


STATELESS = ChainOpened()
WINDOWS = ChainOpened(has_state=True)
SINKS = ChainOpened(has_sinks=True)
BOTH = ChainOpened(has_state=True, has_sinks=True)
SINK = OperatorId("sink")
BOOM = SerializedThrowable(type_name="OSError", message="boom")


def recovering(deployed: TaskDeploymentDescriptor, inputs: int = 0, outputs: int = 0) -> TaskDeploymentDescriptor:
    """Return a descriptor restored from a checkpoint with this many in-flight batches at its inputs and outputs."""
    rows = InFlightRows(path="in-flight", rows=1, size_bytes=1)
    left = ResultSubpartitionStateHandle(output=0, subpartition=0, subpartitions=1, in_flight=rows)
    state = OperatorSubtaskState(
        operator_id=SOURCE,
        input_channels=(InputChannelStateHandle(gate=0, in_flight=rows),) * inputs,
        result_subpartitions=(left,) * outputs,
    )
    before = () if deployed.restore is None else deployed.restore.operators
    return replace(deployed, restore=TaskStateSnapshot(operators=(*before, state)))


class Harness:
    """Feeds events to a machine, checks the machine's invariants after each event, and records unanswered engine
    commands.
    """

    def __init__(self, deployed: TaskDeploymentDescriptor) -> None:
        self.machine = StreamTask(deployed, TASK)
        self.now = 1000
        self.at_work: list[Command] = []
        self._sequence_numbers = [0, 0]

    def feed(self, *events: TaskEvent | tuple[TaskEvent, ...]) -> list[TaskEffect]:
        effects: list[TaskEffect] = []
        for event in (each for group in events for each in (group if isinstance(group, tuple) else (group,))):
            made = self.machine.handle(event, self.now)
            self.machine.check()
            self.at_work += [command for command in to_bridge(made) if isinstance(command, Command)]
            effects += made
        return effects

    def take(self, kind: type[C], stage: int | None = None) -> C:
        command = next(
            each for each in self.at_work if isinstance(each, kind) and stage in (None, getattr(each, "stage", None))
        )
        self.at_work.remove(command)
        return command

    def answer(self, kind: type[StageCommand], stage: int | None = None, **result: Any) -> list[TaskEffect]:
        return self.feed(StageResult(stage=self.take(kind, stage).stage, **result))

    def done(self, kind: type[Command]) -> list[TaskEffect]:
        return self.feed(WorkDone(command=self.take(kind)))

    def refuse(self, kind: type[Command], *, ends_attempt: bool = True) -> list[TaskEffect]:
        return self.feed(WorkFailed(command=self.take(kind), cause=BOOM, ends_attempt=ends_attempt))

    def arrive(self, channel: int, *buffers: Buffer) -> list[TaskEffect]:
        effects: list[TaskEffect] = []
        for buffer in buffers:
            number = self._sequence_numbers[channel]
            self._sequence_numbers[channel] += 1
            effects += self.feed(
                BufferResponse(
                    partition_id=UPSTREAM[channel], subpartition=0, sequence_number=number, buffer=buffer, backlog=0
                )
            )
        return effects


def source(chain: ChainOpened = BOTH, **vertex: Any) -> Harness:
    task = Harness(descriptor(OperatorKind.SOURCE, outputs=1, **{"watermark_delay_ms": 100, **vertex}))
    request = PartitionRequest(partition_id=OUT, subpartition=0, credit=8, consumer=CONSUMER)
    task.feed(StartTask(), chain, request)
    task.at_work.clear()
    return task


def window(firing: FiringMode, channels: int = 1, outputs: int = 0) -> Harness:
    task = Harness(descriptor(OperatorKind.WINDOW_AGGREGATE, channels=channels, outputs=outputs, firing_mode=firing))
    task.feed(StartTask(), WINDOWS)
    task.at_work.clear()
    return task


def batch(name: str) -> BatchRef:
    return BatchRef(batch_id=BatchId(name), rows=1, size_bytes=1)


def split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=name, start_row=0, rows=1)


def splits(*names: str) -> AddSplits:
    return AddSplits(attempt=ATTEMPT, operator_id=SOURCE, splits=tuple(split(name) for name in names))


def finished(stage: int, *outputs: str, event_time_max: int | None = None) -> StageResult:
    made = tuple(StageOutput(output=0, batch=batch(name)) for name in outputs)
    return StageResult(stage=stage, outputs=made, event_time_max=event_time_max)


def trigger(checkpoint_id: int, *, is_final: bool = False, drain: bool = False) -> TriggerCheckpoint:
    options = CheckpointOptions(is_final=is_final, drain=drain)
    return TriggerCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=checkpoint_id, timestamp_ms=7, options=options)


def barrier(checkpoint_id: int, *, is_final: bool = False, drain: bool = False) -> CheckpointBarrier:
    options = CheckpointOptions(is_final=is_final, drain=drain)
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=7, options=options)


def durable(checkpoint_id: int) -> tuple[TaskEvent, ...]:
    return CommitPrepared(checkpoint_id=checkpoint_id), SnapshotWritten(checkpoint_id=checkpoint_id)


def complete(checkpoint_id: int) -> NotifyCheckpointComplete:
    return NotifyCheckpointComplete(job_id=JOB, attempt=ATTEMPT, checkpoint_id=checkpoint_id, timestamp_ms=8)


def aborted(checkpoint_id: int) -> NotifyCheckpointAborted:
    return NotifyCheckpointAborted(
        job_id=JOB, attempt=ATTEMPT, checkpoint_id=checkpoint_id, latest_completed_id=None, timestamp_ms=8
    )


def staged(*names: str) -> tuple[StagedOutput, ...]:
    return (StagedOutput(operator_id=SINK, names=names, rows=len(names)),)


def to_bridge(effects: list[TaskEffect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Tell) and effect.to is Role.BRIDGE]


def to_job_master(effects: list[TaskEffect]) -> list[Message]:
    messages = [effect.message for effect in effects if isinstance(effect, Tell) and effect.to is Role.JOB_MASTER]
    return [message for message in messages if not isinstance(message, ReportTaskMetrics)]


def metrics(effects: list[TaskEffect]) -> TaskIOMetrics:
    messages = [effect.message for effect in effects if isinstance(effect, Tell) and effect.to is Role.JOB_MASTER]
    return [message.metrics for message in messages if isinstance(message, ReportTaskMetrics)][-1]


def down(effects: list[TaskEffect]) -> list[Buffer]:
    sent = [effect.message for effect in effects if isinstance(effect, Tell) and effect.to == CONSUMER]
    return [message.buffer for message in sent if isinstance(message, BufferResponse)]
