"""Attempts on Spark in tests: an actor commands their engines through a bridge, in place of the attempt's machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from queue import Queue
from typing import TypeVar

from flykka.actors.machines.attempt.channel_state import to_recover, without_channel_state
from flykka.actors.task.bridge import Bridge
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    CheckpointCommitted,
    CommitPrepared,
    EngineFailed,
    SnapshotWritten,
    StageResult,
    WorkDone,
    WorkFailed,
)
from flykka.messages.attempt.commands import (
    AdvanceWatermark,
    CancelWork,
    ChannelStateRead,
    CloseChain,
    Command,
    CommitCheckpoint,
    Control,
    OpenChain,
    PrepareCommit,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    StagedOutput,
    UpdateState,
    WriteSnapshot,
)
from flykka.messages.checkpointing.checkpoint import CheckpointOptions
from flykka.messages.graph.job_graph import (
    FiringMode,
)
from flykka.messages.state.handles import SharedStateHandle, TaskStateSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.tasks.source import SourceSplit
from flykka.messages.tasks.task import (
    TaskDeploymentDescriptor,
)
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.spark_bridge.attempt.engine import SparkEngine

Answer = TypeVar("Answer", bound=Message)

PATIENCE_SECONDS = 60
_NUMBERS = count()


class EngineProvider:
    """Provides a bridge with an existing engine, which reports to that bridge from then on."""

    def __init__(self, make: Callable[[Callable[[EngineFailed], object]], SparkEngine]) -> None:
        self._report: Callable[[EngineFailed], object] = lambda _: None
        self.made = make(lambda failed: self._report(failed))

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> SparkEngine:
        self._report = report
        return self.made


class ListeningTask(Actor):
    """Takes the place of the Task: it has a bridge, and stores the bridge's reports."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, engines: EngineProvider, answers: Queue[Message]) -> None:
        self._props = Props(Bridge, descriptor, engines)
        self._answers = answers

    def pre_start(self) -> None:
        self._bridge = self.context.spawn(self._props, "bridge")

    def handle_message(self, message: Message) -> None:
        if isinstance(message, Command | Control):
            self._bridge.tell(message)
        else:
            self._answers.put(message)


def drive_attempt(
    system: ActorSystem,
    descriptor: TaskDeploymentDescriptor,
    make: Callable[[Callable[[EngineFailed], object]], SparkEngine],
) -> DrivenAttempt:
    engines, answers = EngineProvider(make), Queue[Message]()
    name = f"{descriptor.attempt}-{next(_NUMBERS)}".replace(" ", "-")
    task = system.spawn(Props(ListeningTask, descriptor, engines, answers), name)
    return DrivenAttempt(engines.made, task, answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The durable state of an attempt. Before its barrier the chain emitted `rows_out` rows, and sinks staged
    `rows_staged` rows.
    """

    state: TaskStateSnapshot
    incremental_bytes: int
    rows_out: int
    rows_staged: int

    @property
    def shared(self) -> list[SharedStateHandle]:
        return [handle for operator in self.state.operators for handle in operator.shared]


@dataclass(slots=True)
class DrivenAttempt:
    """An attempt with the replies of its engine. After a reply it does the work of an attempt's state machine."""

    engine: SparkEngine
    task: ActorRef
    answers: Queue[Message] = field(default_factory=Queue)
    stage: int = 0
    staged: tuple[StagedOutput, ...] = ()
    prepared: CommitPrepared | None = None

    def tell(self, *commands: Command | Control) -> None:
        for command in commands:
            self.task.tell(command)

    def next(self) -> Message:
        return self.answers.get(timeout=PATIENCE_SECONDS)

    def expect(self, kind: type[Answer]) -> Answer:
        answer = self.next()
        assert isinstance(answer, kind), answer
        return answer

    def expect_failure(self) -> WorkFailed | EngineFailed:
        answer = self.next()
        assert isinstance(answer, WorkFailed | EngineFailed), answer
        return answer

    def expect_result(self) -> StageResult:
        """Return the result of the next stage, after its state is updated."""
        result = self.expect(StageResult)
        self.staged += result.staged
        if result.updates_state:
            self.tell(UpdateState(stage=result.stage))
            self.expect(WorkDone)
        return result

    def open(self, restore: TaskStateSnapshot | None = None) -> DrivenAttempt:
        self.start_open(restore)
        self.expect(ChainOpened)
        return self

    def start_open(self, restore: TaskStateSnapshot | None = None) -> tuple[ChannelStateRead, ...]:
        """Start to open the chain, and return the channel state that is read."""
        recover = to_recover(replace(self.engine.descriptor, restore=restore))
        self.tell(OpenChain(restore=without_channel_state(restore), recover=recover))
        return recover

    def read(self, splits: Iterable[SourceSplit]) -> StageResult:
        self.start_read(splits)
        return self.expect_result()

    def start_read(self, splits: Iterable[SourceSplit]) -> None:
        self.stage += 1
        self.tell(ReadSplits(stage=self.stage, splits=tuple(splits)))

    def run(
        self, batches: StageResult, watermark_ms: int = WATERMARK_MIN, subpartition: int = 0, gate: int = 0
    ) -> list[StageResult]:
        """Process the batches that another attempt sent to a subpartition, one by one, as input of a gate."""
        results = []
        for output in batches.outputs:
            if output.batch.subpartition == subpartition:
                self.stage += 1
                self.tell(ProcessBatch(stage=self.stage, gate=gate, batch=output.batch, watermark_ms=watermark_ms))
                results.append(self.expect_result())
        return results

    def snapshot(
        self, checkpoint_id: int, watermark_ms: int = WATERMARK_MIN, options: CheckpointOptions | None = None
    ) -> Snapshot:
        """Take a snapshot and wait until it is durable."""
        self.start_snapshot(checkpoint_id, watermark_ms, options)
        written = self.expect(SnapshotWritten)
        assert self.prepared is not None
        return Snapshot(
            state=TaskStateSnapshot(operators=written.operators),
            incremental_bytes=written.incremental_bytes,
            rows_out=self.prepared.rows_out,
            rows_staged=self.prepared.rows_staged,
        )

    def start_snapshot(
        self, checkpoint_id: int, watermark_ms: int = WATERMARK_MIN, options: CheckpointOptions | None = None
    ) -> CommitPrepared:
        prepared = self.prepare(checkpoint_id, watermark_ms, options)
        savepoint = None if options is None else options.target_location
        self.tell(WriteSnapshot(checkpoint_id=checkpoint_id, savepoint=savepoint, sinks=prepared.sinks))
        return prepared

    def prepare(
        self, checkpoint_id: int, watermark_ms: int = WATERMARK_MIN, options: CheckpointOptions | None = None
    ) -> CommitPrepared:
        self.start_prepare(checkpoint_id, watermark_ms, options)
        self.prepared = self.expect(CommitPrepared)
        return self.prepared

    def start_prepare(
        self, checkpoint_id: int, watermark_ms: int = WATERMARK_MIN, options: CheckpointOptions | None = None
    ) -> None:
        self.stage += 1
        fires = self.engine.descriptor.vertex.firing_mode is FiringMode.ON_CHECKPOINT
        self.tell(
            SnapshotState(
                stage=self.stage,
                checkpoint_id=checkpoint_id,
                options=options or CheckpointOptions(),
                watermark_ms=watermark_ms if fires else None,
            )
        )
        self.expect_result()
        staged, self.staged = self.staged, ()
        self.tell(PrepareCommit(checkpoint_id=checkpoint_id, staged=staged))

    def advance_watermark(self, watermark_ms: int) -> StageResult:
        self.stage += 1
        self.tell(AdvanceWatermark(stage=self.stage, watermark_ms=watermark_ms))
        return self.expect_result()

    def snapshot_and_commit(self, checkpoint_id: int, watermark_ms: int = WATERMARK_MIN) -> Snapshot:
        snapshot = self.snapshot(checkpoint_id, watermark_ms)
        self.commit(checkpoint_id)
        return snapshot

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        self.tell(CommitCheckpoint(checkpoint_id=checkpoint_id))
        return self.expect(CheckpointCommitted).files

    def close(self, *, cancel: bool = False) -> None:
        self.start_close(cancel=cancel)
        while not isinstance(self.next(), ChainClosed):
            pass

    def start_close(self, *, cancel: bool) -> None:
        self.tell(*((CancelWork(),) if cancel else ()), CloseChain(cancel=cancel))
