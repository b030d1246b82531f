"""A data plane with state of every kind: splits that are read slowly, keyed rows, and what a sink has still to publish.

A row is a split. It has the event time and the key group of its number. Rows of even numbers are staged as they come;
the others wait, as in an open window, for the end of event time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from flykka.actors.state.key_groups import groups_in, key_groups_of, owner
from flykka.actors.state.operator_state import elements_of, list_state
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import WATERMARK_MAX
from flykka.messages.ids import BatchId, JobId, OperatorId, SplitId
from flykka.messages.job_graph import JobVertex, Operator, ShipStrategy
from flykka.messages.message import Message
from flykka.messages.operator_state import StagedBatch
from flykka.messages.source import FileSplit, SplitsDiscovered
from flykka.messages.stage import (
    AbortCheckpoint,
    BridgeClosed,
    BridgeOpened,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    OpenBridge,
    ReadSplits,
    ReleaseBatches,
    RunStage,
    SnapshotState,
    StageFinished,
    StageOutput,
    StateSnapshotted,
)
from flykka.messages.state import KeyGroupRange, OperatorSubtaskState, SharedStateHandle, TaskStateSnapshot
from flykka.messages.task import TaskDeploymentDescriptor
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from tests.actors.cast import Names, OneFileAtATime
from tests.actors.graph.graphs import vertex

ROWS = 40
ALL_ROWS = [f"row-{number}" for number in range(ROWS)]
READ_MS = 150
FOUND_AT_ONCE = 14
MAX_PARALLELISM = 128

_COMMITTABLES = "committables"


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
    """What outlives the attempts: the state that lies in storage, the rows published, and those that came late."""

    stored: dict[str, tuple[str, ...]] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    def rows(self) -> list[str]:
        """Every row that was published, as often as it was."""
        return sorted(self.published.values(), key=number_of)


class SlowReader(Actor):
    """The bridge of a source: one split at a time, sent to the owner of its key group."""

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self._output = descriptor.outputs[0]
        self._commands: deque[Message] = deque()
        self._is_reading = False

    def handle_message(self, message: Message) -> None:
        match message:
            case StageFinished():
                self._is_reading = False
                self.context.parent.tell(message)
            case CloseBridge():
                self._commands.clear()
                self.context.parent.tell(BridgeClosed())
            case _:
                self._commands.append(message)
        while self._commands and not self._is_reading:
            self._take(self._commands.popleft())

    def _take(self, command: Message) -> None:
        parent = self.context.parent
        match command:
            case OpenBridge():
                parent.tell(BridgeOpened())
            case ReadSplits(stage=stage, splits=(split,)):
                self._is_reading = True
                self.context.timers.start_once(f"stage {stage}", READ_MS, self._read(stage, split.split_id))
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id):
                parent.tell(StageFinished(stage=stage))
                parent.tell(_snapshotted(checkpoint_id))
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                parent.tell(CheckpointCommitted(checkpoint_id=checkpoint_id))
            case AbortCheckpoint() | ReleaseBatches():
                pass
            case _:
                raise AssertionError(f"{command} was not expected")

    def _read(self, stage: int, row: str) -> StageFinished:
        reader = owner(key_group(row), self._output.max_parallelism, self._output.subpartitions)
        batch = BatchRef(batch_id=BatchId(row), rows=1, size_bytes=1, subpartition=reader)
        outputs = (StageOutput(output=0, batch=batch),)
        return StageFinished(stage=stage, outputs=outputs, rows_in=1, rows_out=1, event_time_max=number_of(row))


class KeyedBridge(Actor):
    """The bridge behind the keyed edge: rows that wait are keyed state, what is to be published is operator state."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        self._descriptor = descriptor
        self._world = world
        self._waiting: tuple[str, ...] = ()
        self._staged: tuple[str, ...] = ()
        self._pending: tuple[StagedBatch, ...] = ()

    def handle_message(self, message: Message) -> None:
        parent = self.context.parent
        match message:
            case OpenBridge(restore=restore):
                self._restore(restore.operators if restore else ())
                parent.tell(BridgeOpened())
            case RunStage(stage=stage, batch=batch, watermark_ms=watermark_ms):
                self._take(batch.batch_id, watermark_ms)
                parent.tell(StageFinished(stage=stage, rows_in=1))
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id, watermark_ms=watermark_ms):
                parent.tell(StageFinished(stage=stage))
                parent.tell(self._snapshot(checkpoint_id, at_the_end=watermark_ms == WATERMARK_MAX))
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                self._publish(batch for batch in self._pending if batch.checkpoint_id <= checkpoint_id)
                self._pending = tuple(batch for batch in self._pending if batch.checkpoint_id > checkpoint_id)
                parent.tell(CheckpointCommitted(checkpoint_id=checkpoint_id))
            case CloseBridge():
                parent.tell(BridgeClosed())
            case AbortCheckpoint() | ReleaseBatches():
                pass
            case _:
                raise AssertionError(f"{message} was not expected")

    def _restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        self._publish(elements_of(states, _COMMITTABLES, StagedBatch))
        self._waiting = tuple(
            row
            for state in states
            if state.key_groups is not None
            for handle in state.shared
            for row in self._world.stored[handle.state_id]
            if key_group(row) in groups_in(state.key_groups)
        )
        assert all(key_group(row) in groups_in(self._owned) for row in self._waiting)

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
        committables = (list_state(_COMMITTABLES, self._pending),)
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
        return Props(KeyedBridge, descriptor, self.world) if descriptor.inputs else Props(SlowReader, descriptor)

    def split_discovery(self, job_id: JobId, operator: Operator) -> Folder:
        """The one folder there is."""
        return Folder(operator.operator_id)
