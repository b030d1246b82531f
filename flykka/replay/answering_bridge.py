"""A bridge that answers by the protocol alone, for forks of recorded jobs: behind the record there are no rows.

What a stage makes is a batch for each reader it has to have one for, with the number of rows that went in. State is
empty, and durable at once. How long it takes is what such a stage took in the recording, in the median. So a fork says
what the actors would have decided, and nothing about the data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from random import Random
from statistics import median_low
from typing import TYPE_CHECKING

from flykka.actors.exchange.channel_selectors import channel_selector
from flykka.messages.batch import BatchRef
from flykka.messages.ids import BatchId
from flykka.messages.job_graph import OperatorKind, ShipStrategy
from flykka.messages.message import Message
from flykka.messages.simulation import StageOver
from flykka.messages.stage import (
    AbortCheckpoint,
    AdvanceWatermark,
    BridgeClosed,
    BridgeOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    OpenBridge,
    ReadSplits,
    RunStage,
    SinkRows,
    SnapshotFailed,
    SnapshotState,
    StageFailed,
    StageFinished,
    StageOutput,
    StateSnapshotted,
    WriteChannelState,
)
from flykka.messages.state import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.reader import Trace
from flykka.spark_bridge.sinks.sink_rows import SinkRowCounter

if TYPE_CHECKING:
    from flykka.runtime.trace.replay.role import Heard, PlayOn, Vacancy

_Stage = OpenBridge | ReadSplits | RunStage | AdvanceWatermark | SnapshotState
_KEPT_TIMES = 1_000

Pace = Mapping[str, int]
"""How many ms a command takes, by the name of its class."""


def pace_of(trace: Trace) -> Pace:
    """How long the stages of a recording took, in the median."""
    begun: dict[tuple[str, int], tuple[str, int]] = {}
    took: dict[str, list[int]] = {}
    for turn in trace:
        message = turn.message
        match message:
            case ReadSplits() | RunStage() | AdvanceWatermark() | SnapshotState():
                begun[turn.recipient.path, message.stage] = (type(message).__name__, turn.now_ms)
            case StageFinished(stage=stage) if turn.sender is not None:
                name, begun_ms = begun.pop((turn.sender.path, stage), (None, 0))
                if name is not None and len(times := took.setdefault(name, [])) < _KEPT_TIMES:
                    times.append(max(0, turn.now_ms - begun_ms))
            case _:
                continue
    return {name: median_low(times) for name, times in took.items()}


def find_bridge(vacancy: Vacancy, pace: Pace) -> PlayOn | None:
    """A bridge for a Task whose bridge was recorded no further; None for an actor that was no bridge."""
    descriptor = next((each for each in vacancy.parent_arguments if isinstance(each, TaskDeploymentDescriptor)), None)
    return None if descriptor is None else AnsweringBridge(vacancy, descriptor, pace)


class AnsweringBridge:
    """Stages one behind the other, everything else at once. What the recorded one owed is answered first."""

    def __init__(self, vacancy: Vacancy, descriptor: TaskDeploymentDescriptor, pace: Pace) -> None:
        self._context = vacancy.context
        self._descriptor = descriptor
        self._pace = pace
        self._stages: deque[_Stage] = deque()
        self._selectors = {
            output.output: channel_selector(
                output.ship_strategy,
                output.subpartitions,
                first=descriptor.subtask,
                draw=Random(output.partition_id).randrange,
            )
            for output in descriptor.outputs
            if not _is_split(output)
        }
        said = [effect.message for each in vacancy.past for effect in each.effects if isinstance(effect, Send)]
        self._is_deaf = any(isinstance(message, StageFailed) for message in said)
        heard = (each.message for each in vacancy.past)
        self._aborted = {message.checkpoint_id for message in heard if isinstance(message, AbortCheckpoint)}
        self._sinks = sum(operator.kind is OperatorKind.SINK for operator in descriptor.vertex.operators)
        self._sink_rows = _counted(vacancy.past)
        finished = {message.stage for message in said if isinstance(message, StageFinished)}
        for command in _owed(vacancy.past):
            if isinstance(command, SnapshotState) and command.stage in finished:
                self._tell_snapshotted(command.checkpoint_id)
            else:
                self(command)

    def __call__(self, message: Message) -> None:
        """A command of the Task, or the time is over that a stage takes."""
        if self._is_deaf and not isinstance(message, CloseBridge):
            return
        match message:
            case OpenBridge() | ReadSplits() | RunStage() | AdvanceWatermark() | SnapshotState():
                self._stages.append(message)
                if len(self._stages) == 1:
                    self._begin()
            case StageOver() if self._stages:
                self._finish(self._stages.popleft())
                if self._stages:
                    self._begin()
            case WriteChannelState(checkpoint_id=checkpoint_id) if checkpoint_id not in self._aborted:
                state = OperatorSubtaskState(operator_id=self._descriptor.vertex.operators[0].operator_id)
                self._tell(ChannelStateWritten(checkpoint_id=checkpoint_id, state=state, size_bytes=0))
            case AbortCheckpoint(checkpoint_id=checkpoint_id):
                self._aborted.add(checkpoint_id)
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                self._sink_rows.commit(checkpoint_id)
                self._tell(CheckpointCommitted(checkpoint_id=checkpoint_id, sink_rows=self._sink_rows.news()))
            case CloseBridge():
                self._is_deaf = True
                self._stages.clear()
                self._tell(BridgeClosed())
            case _:
                return  # What is held or let go has no rows here.

    def _begin(self) -> None:
        takes_ms = self._pace.get(type(self._stages[0]).__name__, 0)
        self._context.timers.start_once("stage", takes_ms, StageOver())

    def _finish(self, stage: _Stage) -> None:
        match stage:
            case OpenBridge():
                self._tell(BridgeOpened())
            case ReadSplits(stage=number, splits=splits):
                self._tell(self._finished(number, sum(split.rows for split in splits)))
            case RunStage(stage=number, batch=batch):
                self._tell(self._finished(number, batch.rows))
            case AdvanceWatermark(stage=number):
                self._tell(self._finished(number, 0))
            case SnapshotState(stage=number, checkpoint_id=checkpoint_id):
                self._sink_rows.at_barrier(checkpoint_id)
                self._tell(self._finished(number, 0))
                self._tell_snapshotted(checkpoint_id)

    def _tell_snapshotted(self, checkpoint_id: int) -> None:
        if checkpoint_id in self._aborted or self._is_deaf:
            return
        self._tell(
            StateSnapshotted(
                checkpoint_id=checkpoint_id,
                state=TaskStateSnapshot(),
                size_bytes=0,
                incremental_bytes=0,
                sync_ms=0,
                async_ms=0,
            )
        )

    def _finished(self, stage: int, rows: int) -> StageFinished:
        outputs = tuple(self._outputs(stage, rows)) if rows else ()
        # As if each of its sinks published per checkpoint.
        self._sink_rows.stage(rows * self._sinks)
        sink_rows = self._sink_rows.news()
        return StageFinished(
            stage=stage, outputs=outputs, rows_in=rows, rows_out=rows if outputs else 0, sink_rows=sink_rows
        )

    def _outputs(self, stage: int, rows: int) -> Iterator[StageOutput]:
        for output in self._descriptor.outputs:
            if _is_split(output):
                share, left = divmod(rows, output.subpartitions)
                parts = {each: share + (each < left) for each in range(output.subpartitions)}
            else:
                parts = dict.fromkeys(self._selectors[output.output].select_channels(), rows)
            for subpartition, part in parts.items():
                name = BatchId(f"{self._descriptor.attempt}/{stage}/{output.output}.{subpartition}")
                batch = BatchRef(batch_id=name, rows=part, size_bytes=part, subpartition=subpartition)
                yield StageOutput(output=output.output, batch=batch)

    def _tell(self, answer: Message) -> None:
        self._context.parent.tell(answer)


def _is_split(output: ResultPartitionDescriptor) -> bool:
    return output.ship_strategy is ShipStrategy.HASH and output.subpartitions > 1


def _counted(past: list[Heard]) -> SinkRowCounter:
    """Counts on from what the recorded bridge has told of its sinks' rows."""
    counter, barriers = SinkRowCounter(), dict[int, int]()
    for heard in past:
        match heard.message:
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id):
                barriers[stage] = checkpoint_id
        for effect in heard.effects:
            match effect.message if isinstance(effect, Send) else None:
                case StageFinished(stage=stage, sink_rows=sink_rows):
                    if sink_rows is not None:
                        counter.stage(sink_rows.written - sink_rows.published)
                    if stage in barriers:
                        counter.at_barrier(barriers[stage])
                case StateSnapshotted(checkpoint_id=checkpoint_id, sink_rows=SinkRows(written=written)):
                    counter.stage_for(checkpoint_id, written)
                case CheckpointCommitted(checkpoint_id=checkpoint_id):
                    counter.commit(checkpoint_id)
    counter.news()
    return counter


def _owed(past: list[Heard]) -> list[Message]:
    """The commands that the recorded bridge has heard and not answered."""
    owed: dict[object, Message] = {}
    for heard in past:
        if isinstance(heard.message, Message) and (key := _asked(heard.message)) is not None:
            owed[key] = heard.message
        for effect in heard.effects:
            if isinstance(effect, Send):
                for key in _answered(effect.message):
                    owed.pop(key, None)
    return list(owed.values())


def _asked(command: Message) -> object:
    match command:
        case OpenBridge():
            return "open"
        case SnapshotState(checkpoint_id=checkpoint_id):
            return "snapshot", checkpoint_id
        case ReadSplits(stage=stage) | RunStage(stage=stage) | AdvanceWatermark(stage=stage):
            return "stage", stage
        case WriteChannelState(checkpoint_id=checkpoint_id):
            return "channels", checkpoint_id
        case CommitCheckpoint(checkpoint_id=checkpoint_id):
            return "commit", checkpoint_id
        case CloseBridge():
            return "close"
        case _:
            return None


def _answered(answer: object) -> tuple[object, ...]:
    match answer:
        case BridgeOpened():
            return ("open",)
        case StageFinished(stage=stage, snapshot=None):
            return (("stage", stage),)
        case StageFinished(stage=stage, snapshot=snapshot):
            return ("stage", stage), *_answered(snapshot)
        case StateSnapshotted(checkpoint_id=checkpoint_id) | SnapshotFailed(checkpoint_id=checkpoint_id):
            return (("snapshot", checkpoint_id),)
        case ChannelStateWritten(checkpoint_id=checkpoint_id):
            return (("channels", checkpoint_id),)
        case CheckpointCommitted(checkpoint_id=checkpoint_id):
            return (("commit", checkpoint_id),)
        case BridgeClosed():
            return ("close",)
        case _:
            return ()
