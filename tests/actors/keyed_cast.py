"""A data plane with state of every kind: splits that are read slowly, keyed rows, and what a sink has still to publish.

A row is a split. It has the event time and the key group of its number. Rows of even numbers are staged as they come;
the others wait, as in an open window, for the end of event time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from flykka.actors.machines.state.key_groups import groups_in, key_groups_of, owner
from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.messages.graph.job_graph import JobVertex, Operator, ShipStrategy
from flykka.messages.state.handles import (
    InFlightRows,
    InputChannelStateHandle,
    KeyGroupRange,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    SharedStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.state.operator_state import COMMITTABLES, StagedBatch
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.exchange import WATERMARK_MAX
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
from flykka.messages.wire.ids import BatchId, JobId, OperatorId, SplitId
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from tests.actors.cast import Names, OneFileAtATime
from tests.actors.machines.graph.graphs import vertex
from tests.actors.slow_cast import StageOver

ROWS = 40
ALL_ROWS = [f"row-{number}" for number in range(ROWS)]
READ_MS, RUN_MS = 80, 200
"""How long stages take in subtask 0, and longer by a little in the others. Behind the keyed edge rows pile up."""
FOUND_AT_ONCE = 14
MAX_PARALLELISM = 128


def number_of(row: str) -> int:
    return int(row.removeprefix("row-"))


def key_group(row: str) -> int:
    return number_of(row) * 37 % MAX_PARALLELISM


def keyed_job(parallelism: int) -> tuple[JobVertex, ...]:
    """A source with ascending event times, and behind a keyed edge what keeps and publishes rows."""
    source = replace(vertex("source", parallelism, outputs=1), watermark_delay_ms=0)
    return (source, vertex("keyed", parallelism, reads=("source",), ship_strategy=ShipStrategy.HASH))


@dataclass
class World:
    """What outlives the attempts: stored state, published rows, rows that came late, and how many were in flight."""

    stored: dict[str, tuple[str, ...]] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    recovered: int = 0

    def rows(self) -> list[str]:
        """Every row that was published, as often as it was."""
        return sorted(self.published.values(), key=number_of)


class StagedBridge(Actor):
    """A bridge whose stages take their time, one behind the other. What is in flight is state by its name."""

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self._descriptor = descriptor
        self._stages: deque[Message] = deque()

    def handle_message(self, message: Message) -> None:
        match message:
            case ReadSplits() | RunStage() | SnapshotState():
                self._stages.append(message)
                if len(self._stages) == 1:
                    self._begin()
            case StageOver():
                self._tell(*self._over(self._stages.popleft()))
                if self._stages:
                    self._begin()
            case OpenBridge(restore=restore):
                self._tell(self._opened(restore.operators if restore else ()))
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                self._commit(checkpoint_id)
                self._tell(CheckpointCommitted(checkpoint_id=checkpoint_id))
            case WriteChannelState():
                self._tell(self._written(message))
            case CloseBridge():
                self._tell(BridgeClosed())
            case AbortCheckpoint() | ReleaseBatches() | HoldInFlight():
                pass
            case _:
                raise AssertionError(f"{message} was not expected")

    def _begin(self) -> None:
        takes_ms = {ReadSplits: READ_MS, RunStage: RUN_MS, SnapshotState: 1}[type(self._stages[0])]
        self.context.timers.start_once("stage", takes_ms + self._descriptor.subtask, StageOver())

    def _tell(self, *answers: Message) -> None:
        for answer in answers:
            self.context.parent.tell(answer)

    def _over(self, stage: Message) -> tuple[Message, ...]:
        raise NotImplementedError

    def _commit(self, checkpoint_id: int) -> None:
        """Nothing is published here."""

    def _opened(self, states: Sequence[OperatorSubtaskState]) -> BridgeOpened:
        inputs = [part for state in states for part in state.input_channels]
        outputs = [part for state in states for part in state.result_subpartitions]
        return BridgeOpened(
            recovered_inputs=tuple(
                InputInFlight(gate=part.gate, batch=batch_of(part.in_flight.path))
                for part in inputs
                if part.key_groups is None or key_group(part.in_flight.path) in groups_in(part.key_groups)
            ),
            recovered_outputs=tuple(
                StageOutput(output=part.output, batch=batch_of(part.in_flight.path, part.subpartition))
                for part in outputs
            ),
        )

    def _written(self, command: WriteChannelState) -> ChannelStateWritten:
        state = OperatorSubtaskState(
            operator_id=self._descriptor.vertex.operators[0].operator_id,
            input_channels=tuple(
                InputChannelStateHandle(gate=entry.gate, in_flight=in_flight(entry.batch)) for entry in command.inputs
            ),
            result_subpartitions=tuple(
                ResultSubpartitionStateHandle(
                    output=entry.output,
                    subpartition=entry.batch.subpartition,
                    subpartitions=self._descriptor.outputs[entry.output].subpartitions,
                    in_flight=in_flight(entry.batch),
                )
                for entry in command.outputs
            ),
        )
        return ChannelStateWritten(checkpoint_id=command.checkpoint_id, state=state, size_bytes=1)


def batch_of(row: str, subpartition: int = 0) -> BatchRef:
    return BatchRef(batch_id=BatchId(row), rows=1, size_bytes=1, subpartition=subpartition)


def in_flight(batch: BatchRef) -> InFlightRows:
    return InFlightRows(path=batch.batch_id, rows=1, size_bytes=1)


class Reader(StagedBridge):
    """The bridge of a source: one split at a time, sent to the owner of its key group."""

    def _over(self, stage: Message) -> tuple[Message, ...]:
        match stage:
            case ReadSplits(stage=number, splits=(split,)):
                row, output = split.split_id, self._descriptor.outputs[0]
                batch = batch_of(row, owner(key_group(row), output.max_parallelism, output.subpartitions))
                outputs, time = (StageOutput(output=0, batch=batch),), number_of(row)
                return (StageFinished(stage=number, outputs=outputs, rows_in=1, rows_out=1, event_time_max=time),)
            case SnapshotState(stage=number, checkpoint_id=checkpoint_id):
                return StageFinished(stage=number), _snapshotted(checkpoint_id)
            case _:
                raise AssertionError(f"{stage} is no stage of a source")


class KeyedBridge(StagedBridge):
    """The bridge behind the keyed edge: rows that wait are keyed state, what is to be published is operator state."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        super().__init__(descriptor)
        self._world = world
        self._waiting: tuple[str, ...] = ()
        self._staged: tuple[str, ...] = ()
        self._pending: tuple[StagedBatch, ...] = ()

    def _over(self, stage: Message) -> tuple[Message, ...]:
        match stage:
            case RunStage(stage=number, batch=batch, watermark_ms=watermark_ms):
                self._take(batch.batch_id, watermark_ms)
                return (StageFinished(stage=number, rows_in=1),)
            case SnapshotState(stage=number, checkpoint_id=checkpoint_id, watermark_ms=watermark_ms):
                taken = self._snapshot(checkpoint_id, at_the_end=watermark_ms == WATERMARK_MAX)
                return StageFinished(stage=number), taken
            case _:
                raise AssertionError(f"{stage} is no stage behind a keyed edge")

    def _commit(self, checkpoint_id: int) -> None:
        self._publish(batch for batch in self._pending if batch.checkpoint_id <= checkpoint_id)
        self._pending = tuple(batch for batch in self._pending if batch.checkpoint_id > checkpoint_id)

    def _opened(self, states: Sequence[OperatorSubtaskState]) -> BridgeOpened:
        self._publish(elements_of(states, COMMITTABLES, StagedBatch))
        self._waiting = tuple(
            row
            for state in states
            if state.key_groups is not None
            for handle in state.shared
            for row in self._world.stored[handle.state_id]
            if key_group(row) in groups_in(state.key_groups)
        )
        assert all(key_group(row) in groups_in(self._owned) for row in self._waiting)
        opened = super()._opened(states)
        self._world.recovered += len(opened.recovered_inputs)
        return opened

    def _take(self, row: str, watermark_ms: int) -> None:
        assert key_group(row) in groups_in(self._owned), f"{row} has come to the wrong subtask"
        if number_of(row) <= watermark_ms:
            self._world.late.append(row)
        if number_of(row) % 2:
            self._waiting += (row,)
        else:
            self._staged += (row,)

    def _snapshot(self, checkpoint_id: int, *, at_the_end: bool) -> StateSnapshotted:
        if at_the_end:
            self._staged, self._waiting = self._staged + self._waiting, ()
        attempt, operator_id = self._descriptor.attempt, OperatorId("keyed")
        # A published row is known by who has staged it: one that was staged twice is seen twice.
        self._pending += tuple(
            StagedBatch(checkpoint_id=checkpoint_id, path=f"{attempt}/{checkpoint_id}/{row}", schema=row)
            for row in self._staged
        )
        self._staged = ()
        state_id = f"{attempt}-{checkpoint_id}"
        self._world.stored[state_id] = self._waiting
        handle = SharedStateHandle(state_id=state_id, path=state_id, rows=1, size_bytes=1, key_groups=self._owned)
        keyed = OperatorSubtaskState(operator_id=operator_id, shared=(handle,), key_groups=self._owned)
        committables = (list_state(COMMITTABLES, self._pending),)
        listed = OperatorSubtaskState(operator_id=operator_id, operator_state=committables)
        return _snapshotted(checkpoint_id, keyed, listed)

    def _publish(self, batches: Iterable[StagedBatch]) -> None:
        self._world.published.update((batch.path, batch.schema) for batch in batches)

    @property
    def _owned(self) -> KeyGroupRange:
        of = self._descriptor.vertex
        return key_groups_of(self._descriptor.subtask, of.max_parallelism, of.parallelism)


def _snapshotted(checkpoint_id: int, *states: OperatorSubtaskState) -> StateSnapshotted:
    return StateSnapshotted(
        checkpoint_id=checkpoint_id,
        state=TaskStateSnapshot(operators=states),
        size_bytes=0,
        incremental_bytes=0,
        sync_ms=0,
        async_ms=0,
    )


class Folder(OneFileAtATime):
    """A folder in which every look finds some rows more."""

    def discover(self, position: bytes) -> SplitsDiscovered:
        first = int(position or b"0")
        last = min(first + FOUND_AT_ONCE, ROWS)
        splits = tuple(
            FileSplit(split_id=SplitId(row), path=f"/in/{row}", start_row=0, rows=1) for row in ALL_ROWS[first:last]
        )
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=splits,
            finished=last == ROWS,
            begun_at=position,
            position=b"%d" % last,
        )


class KeyedRows(Names):
    """The data plane of these bridges."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """A bridge for each half of the job."""
        return Props(KeyedBridge, descriptor, self.world) if descriptor.inputs else Props(Reader, descriptor)

    def split_discovery(self, job_id: JobId, operator: Operator) -> Folder:
        """The one folder there is."""
        return Folder(operator.operator_id)
