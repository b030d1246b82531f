"""The vocabulary of area 05 for a task on its TaskManager, in events of `StreamTask`.

User code runs in the bridge, so the body of the case is what a bridge answers: it is entered when the task asks for
splits, it returns when there are none left, it raises when a stage fails. The task here is a source; the JobMaster
takes the final checkpoint as soon as the data has ended, and answers stay under way until the case runs on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from flykka.actors.execution.effects import EndAttempt, TaskEffect, TellBridge, TellJobMaster
from flykka.actors.execution.events import BridgeLost, StartTask, TaskEvent
from flykka.actors.execution.stream_task import StreamTask
from flykka.messages.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointOptions,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.failure import SerializedThrowable
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.messages.source import NoMoreSplits, RequestSplits
from flykka.messages.stage import (
    BridgeClosed,
    BridgeOpened,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    OpenBridge,
    SnapshotState,
    StageFailed,
    StageFinished,
    StateSnapshotted,
)
from flykka.messages.state import TaskStateSnapshot
from flykka.messages.task import (
    CancelTask,
    ExecutionState,
    NotifyEndOfData,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from tests.actors.graph.graphs import failure
from tests.actors.scheduling.descriptors import descriptor
from tests.conformance.case_files import UnknownWordError, only_known_words

_SETUP_FAILURES = {"no user code class loader": "no user code classloader"}
_GOING_WRONG = {ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED}


class TaskCase:
    """One task, its bridge and its JobMaster."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        only_known_words("given", given, {"component", "body", "setup"})
        self._given = given
        self._descriptor = descriptor("job_v_0_0")
        self._task = StreamTask(self._descriptor, Ref("/task", 1))
        self._answers: deque[TaskEvent] = deque()
        self._reported: list[TaskExecutionState] = []
        self._body_started = False
        self._terminated = False

    def do(self, step: Mapping[str, Any]) -> None:
        """One step of the case."""
        match step["do"]:
            case "new":
                pass
            case "run" | "start":
                self._start()
                self._settle()
            case "wait_in_body":
                assert self._body_started
            case "cancel":
                self._start()
                self._feed(CancelTask(attempt=self._descriptor.attempt))
            case "fail_externally":
                self._feed(BridgeLost(cause=failure(step["cause"])))
            case "release_body":
                self._answers.append(self._outcome())
            case "join":
                self._settle()
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        """Whether what the case wants is so."""
        cause = self._reported[-1].failure if self._reported else None
        match word:
            case "state":
                return bool(self._task.life.state == wanted)
            case "canceled_or_failed":
                return (self._task.life.state in _GOING_WRONG) is wanted
            case "reported":
                return [reached.state for reached in self._reported] == wanted
            case "body_started":
                return self._body_started is wanted
            case "terminated_with":
                return (self._task.life.state if self._terminated else None) == wanted
            case "cause":
                return cause is wanted
            case "cause_contains":
                return cause is not None and wanted in cause.message
            case unknown:
                raise UnknownWordError(unknown)

    def _start(self) -> None:
        # The shell starts its machine before it takes any message.
        if self._task.life.state is ExecutionState.CREATED:
            self._feed(StartTask())

    def _settle(self) -> None:
        while self._answers:
            self._feed(self._answers.popleft())

    def _feed(self, event: TaskEvent) -> None:
        for effect in self._task.handle(event, now=0):
            self._perform(effect)
        self._task.check()

    def _perform(self, effect: TaskEffect) -> None:
        match effect:
            case TellBridge(message=message):
                self._answers += self._bridge(message)
            case TellJobMaster(message=message):
                self._answers += self._job_master(message)
            case EndAttempt():
                self._terminated = True

    def _bridge(self, message: Message) -> list[TaskEvent]:
        match message:
            case OpenBridge() if "setup" in self._given:
                return [StageFailed(cause=failure(_SETUP_FAILURES[self._given["setup"]]))]
            case OpenBridge():
                return [BridgeOpened()]
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id):
                return [StageFinished(stage=stage), _snapshotted(checkpoint_id)]
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                return [CheckpointCommitted(checkpoint_id=checkpoint_id)]
            case CloseBridge():
                return [BridgeClosed()]
            case unexpected:
                raise AssertionError(f"nobody wants {unexpected} of the bridge")

    def _job_master(self, message: Message) -> list[TaskEvent]:
        job_id, attempt = self._descriptor.job_id, self._descriptor.attempt
        match message:
            case UpdateTaskExecutionState(state=reached):
                self._reported.append(reached)
            case RequestSplits():
                self._body_started = True
                return [] if self._given["body"].startswith("blocks") else [self._outcome()]
            case NotifyEndOfData():
                options = CheckpointOptions(is_final=True)
                return [
                    TriggerCheckpoint(job_id=job_id, attempt=attempt, checkpoint_id=1, timestamp_ms=0, options=options)
                ]
            case AcknowledgeCheckpoint(checkpoint_id=checkpoint_id):
                return [
                    NotifyCheckpointComplete(
                        job_id=job_id, attempt=attempt, checkpoint_id=checkpoint_id, timestamp_ms=0
                    )
                ]
        return []

    def _outcome(self) -> TaskEvent:
        """What comes of the body when it is not held up any more."""
        match self._given["body"]:
            case "returns" | "blocks, then returns":
                source = self._descriptor.vertex.operators[0].operator_id
                return NoMoreSplits(attempt=self._descriptor.attempt, operator_id=source)
            case "blocks, then raises":
                return StageFailed(cause=SerializedThrowable(type_name="ValueError", message="raised by the body"))
            case unknown:
                raise UnknownWordError(unknown)


def _snapshotted(checkpoint_id: int) -> StateSnapshotted:
    return StateSnapshotted(
        checkpoint_id=checkpoint_id,
        state=TaskStateSnapshot(),
        size_bytes=0,
        incremental_bytes=0,
        sync_ms=0,
        async_ms=0,
    )
