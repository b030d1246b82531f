"""The machine of an attempt, fed with events: builders with defaults, and what its effects say."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.bridge.attempt import Attempt, AttemptEvent
from flykka.actors.machines.bridge.effects import (
    AttemptEffect,
    Begin,
    Open,
    Process,
    TellTask,
    Work,
)
from flykka.messages.checkpointing.checkpoint import CheckpointOptions, SnapshotType
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.bridge import (
    ChainOpened,
    RowsMoved,
    StagedOutput,
    WorkDone,
    WorkFailed,
)
from flykka.messages.tasks.stage import (
    OpenBridge,
    RunStage,
    SnapshotState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.messages.wire.message import Message, Value
from tests.actors.machines.task.task_machine import descriptor

SINK = OperatorId("sink")
BOOM = SerializedThrowable(type_name="OSError", message="boom")
STATELESS = ChainOpened(name="chain", stages_in_flight=2)
WINDOWS = ChainOpened(name="chain", stages_in_flight=2, has_state=True)
SINKS = ChainOpened(name="chain", stages_in_flight=2, has_sinks=True)
BOTH = ChainOpened(name="chain", stages_in_flight=2, has_state=True, has_sinks=True)


class Harness:
    """A machine that is fed events, and what the engine has in hand."""

    def __init__(self, chain: ChainOpened | None = STATELESS, *, outputs: int = 0, **vertex: Any) -> None:
        self.machine = Attempt(descriptor(OperatorKind.STATELESS, channels=1, outputs=outputs, **vertex))
        self.now = 1_000
        self.at_work: list[Begin] = []
        if chain is not None:
            self.feed(OpenBridge(restore=None, restored_checkpoint_id=None))
            self.answer(Open, chain)

    def stage_output(self, stage: int = 0) -> None:
        """A stage has staged something."""
        self.feed(run(stage))
        self.answer(Process, RowsMoved(staged=staged("a")))

    def feed(self, *events: AttemptEvent) -> list[AttemptEffect]:
        effects: list[AttemptEffect] = []
        for event in events:
            made = self.machine.handle(event, self.now)
            self.machine.check()
            self.at_work += [effect for effect in made if isinstance(effect, Begin)]
            effects += made
        return effects

    def answer(self, kind: type[Work], answer: Value | None = None) -> list[AttemptEffect]:
        """The oldest work of this kind is done."""
        begin = self._taken(kind)
        return self.feed(WorkDone(work=begin.key, answer=answer))

    def refuse(self, kind: type[Work], *, ends_attempt: bool = True) -> list[AttemptEffect]:
        """The oldest work of this kind has failed."""
        begin = self._taken(kind)
        return self.feed(WorkFailed(work=begin.key, cause=BOOM, ends_attempt=ends_attempt))

    @property
    def work(self) -> list[Work]:
        """What the engine has in hand."""
        return [begin.work for begin in self.at_work]

    def _taken(self, kind: type[Work]) -> Begin:
        begin = next(begin for begin in self.at_work if isinstance(begin.work, kind))
        self.at_work.remove(begin)
        return begin


def told(effects: list[AttemptEffect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, TellTask)]


def begun(effects: list[AttemptEffect]) -> list[Work]:
    return [effect.work for effect in effects if isinstance(effect, Begin)]


def run(stage: int) -> RunStage:
    return RunStage(stage=stage, gate=0, batch=batch(f"batch-{stage}"), watermark_ms=0)


def batch(name: str) -> BatchRef:
    return BatchRef(batch_id=BatchId(name), rows=1, size_bytes=1)


def snapshot(stage: int, checkpoint_id: int, target: str | None = None) -> SnapshotState:
    options = CheckpointOptions(
        snapshot_type=SnapshotType.CHECKPOINT if target is None else SnapshotType.SAVEPOINT, target_location=target
    )
    return SnapshotState(stage=stage, checkpoint_id=checkpoint_id, options=options, watermark_ms=500)


def staged(*names: str) -> tuple[StagedOutput, ...]:
    return (StagedOutput(operator_id=SINK, names=names, rows=len(names)),)
