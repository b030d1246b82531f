"""A data plane of names whose sink is slow, so that batches pile up before it: what unaligned checkpoints are for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count

from flykka.messages.graph.job_graph import Operator
from flykka.messages.monitoring.explanation import ExplainStages, StagesExplained
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    InFlightRows,
    InputChannelStateHandle,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.source import FileSplit, SplitsDiscovered
from flykka.messages.tasks.stage import (
    AbortCheckpoint,
    BridgeClosed,
    BridgeOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    HoldInFlight,
    InputInFlight,
    OpenBridge,
    ReadSplits,
    ReleaseBatches,
    RunStage,
    SnapshotState,
    StageFinished,
    StageOutput,
    StateSnapshotted,
    WriteChannelState,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId, OperatorId, SplitId
from flykka.messages.wire.message import Message, message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from tests.actors.cast import Names, OneFileAtATime, Sink

FILES = 16
ALL_FILES = sorted(f"file-{number}" for number in range(FILES))
SLOW_MS = 700
"""How long the sink takes for a batch: with sixteen files and two subtasks, a job takes some six seconds."""


@message("slow_cast.stage_over")
class StageOver(Message):
    """A bridge's timer -> itself: the stage at hand is over."""


class AllAtOnce(OneFileAtATime):
    """A folder in which everything is found at the first look."""

    interval_ms = None

    def discover(self, position: bytes) -> SplitsDiscovered:
        splits = tuple(FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1) for name in ALL_FILES)
        return SplitsDiscovered(
            operator_id=self._operator_id, splits=splits, finished=True, begun_at=position, position=b"all"
        )


@dataclass
class Batches:
    """What the batches hold and who holds them; and the files of channel state."""

    rows: dict[BatchId, list[SplitId]] = field(default_factory=dict)
    held: dict[BatchId, set[int]] = field(default_factory=dict)
    files: dict[str, list[SplitId]] = field(default_factory=dict)
    restored: int = 0
    numbers: count[int] = field(default_factory=count)

    def put(self, rows: list[SplitId], subpartition: int = 0) -> BatchRef:
        batch_id = BatchId(f"batch-{next(self.numbers)}")
        self.rows[batch_id] = rows
        return BatchRef(batch_id=batch_id, rows=len(rows), size_bytes=8, subpartition=subpartition)

    def write(self, batch: BatchRef) -> InFlightRows:
        path = f"/in-flight/{next(self.numbers)}"
        self.files[path] = self.rows[batch.batch_id]
        return InFlightRows(path=path, rows=batch.rows, size_bytes=8)

    def read(self, rows: InFlightRows, subpartition: int = 0) -> BatchRef:
        self.restored += 1
        return self.put(self.files[rows.path], subpartition)


class SlowBridge(Actor):
    """Sources make a batch of each split, sinks take their time; stages are over one after the other."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink, batches: Batches) -> None:
        self._descriptor = descriptor
        self._is_source = not descriptor.inputs
        self._sink = sink
        self._batches = batches
        self._stages: deque[Message] = deque()
        self._processed: list[SplitId] = []

    def handle_message(self, message: Message) -> None:
        match message:
            case ReadSplits() | RunStage() | SnapshotState():
                self._stages.append(message)
                if len(self._stages) == 1:
                    self._begin()
            case ExplainStages(reply_to=reply_to):
                reply_to.tell(StagesExplained(attempt=self._descriptor.attempt, stages=()))
            case StageOver():
                self._tell(*self._over(self._stages.popleft()))
                if self._stages:
                    self._begin()
            case _:
                self._tell(*self._answers(message))

    def _begin(self) -> None:
        takes_ms = SLOW_MS if isinstance(self._stages[0], RunStage) else 1
        self.context.timers.start_once("stage", takes_ms, StageOver())

    def _tell(self, *answers: Message) -> None:
        for answer in answers:
            self.context.parent.tell(answer)

    def _over(self, stage: Message) -> list[Message]:
        match stage:
            case ReadSplits(stage=number, splits=splits):
                names = [split.split_id for split in splits]
                [output] = self._descriptor.outputs
                batch = self._batches.put(names, int(names[0].removeprefix("file-")) % output.subpartitions)
                return [StageFinished(stage=number, outputs=(StageOutput(output=0, batch=batch),))]
            case RunStage(stage=number, batch=batch):
                self._processed += self._batches.rows[batch.batch_id]
                return [StageFinished(stage=number)]
            case SnapshotState(stage=number, checkpoint_id=checkpoint_id):
                return [StageFinished(stage=number), self._snapshot(checkpoint_id)]
            case _:
                raise AssertionError(f"{stage} is no stage")

    def _snapshot(self, checkpoint_id: int) -> StateSnapshotted:
        if not self._is_source:
            self._sink.stage(self._descriptor.subtask, checkpoint_id, self._processed)
            self._processed = []
        return StateSnapshotted(
            checkpoint_id=checkpoint_id,
            state=TaskStateSnapshot(),
            size_bytes=0,
            incremental_bytes=0,
            sync_ms=0,
            async_ms=0,
        )

    def _answers(self, message: Message) -> list[Message]:
        match message:
            case OpenBridge():
                return [self._open(message)]
            case HoldInFlight(checkpoint_id=checkpoint_id, batch_ids=batch_ids):
                for batch_id in batch_ids:
                    assert batch_id in self._batches.rows, f"{batch_id} was never made"
                    self._batches.held.setdefault(batch_id, set()).add(checkpoint_id)
                return []
            case WriteChannelState():
                return [self._write(message)]
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                if not self._is_source:
                    self._sink.publish(self._descriptor.subtask, checkpoint_id)
                return [CheckpointCommitted(checkpoint_id=checkpoint_id)]
            case AbortCheckpoint(checkpoint_id=checkpoint_id):
                if not self._is_source:
                    taken_back = self._sink.take_back(self._descriptor.subtask, checkpoint_id)
                    self._processed = taken_back + self._processed
                return []
            case ReleaseBatches():
                return []
            case CloseBridge():
                return [BridgeClosed()]
            case _:
                raise AssertionError(f"{message} was not expected")

    def _open(self, command: OpenBridge) -> BridgeOpened:
        if not self._is_source:
            self._sink.restore(self._descriptor.subtask, command.restored_checkpoint_id or 0)
        states = command.restore.operators if command.restore is not None else ()
        return BridgeOpened(
            recovered_inputs=tuple(
                InputInFlight(gate=part.gate, batch=self._batches.read(part.in_flight))
                for state in states
                for part in state.input_channels
            ),
            recovered_outputs=tuple(
                StageOutput(output=part.output, batch=self._batches.read(part.in_flight, part.subpartition))
                for state in states
                for part in state.result_subpartitions
            ),
        )

    def _write(self, command: WriteChannelState) -> ChannelStateWritten:
        checkpoint_id = command.checkpoint_id
        for batch in [entry.batch for entry in command.inputs] + [entry.batch for entry in command.outputs]:
            assert checkpoint_id in self._batches.held[batch.batch_id], f"{batch} is not held"
        inputs = tuple(
            InputChannelStateHandle(gate=entry.gate, in_flight=self._batches.write(entry.batch))
            for entry in command.inputs
        )
        outputs = tuple(
            ResultSubpartitionStateHandle(
                output=entry.output,
                subpartition=entry.batch.subpartition,
                subpartitions=self._descriptor.outputs[entry.output].subpartitions,
                in_flight=self._batches.write(entry.batch),
            )
            for entry in command.outputs
        )
        paths = [part.in_flight.path for part in inputs] + [part.in_flight.path for part in outputs]
        state = OperatorSubtaskState(
            operator_id=self._descriptor.vertex.operators[0].operator_id,
            exclusive=tuple(ExclusiveStateHandle(path=path, size_bytes=8) for path in paths),
            input_channels=inputs,
            result_subpartitions=outputs,
        )
        size_bytes = 8 * len(state.exclusive)
        return ChannelStateWritten(checkpoint_id=checkpoint_id, state=state, size_bytes=size_bytes)


class SlowNames(Names):
    """A data plane in which batches wait."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = Batches()

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(SlowBridge, descriptor, self.sink, self.batches)

    def split_discovery(self, job_id: object, operator: Operator) -> AllAtOnce:
        return AllAtOnce(OperatorId(operator.operator_id))
