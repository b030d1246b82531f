"""Words of area 05 for a task on its TaskManager, translated to events of `StreamTask`.

User code runs in the bridge, so the body of the case is translated to replies of a bridge: the body is entered when the
task requests splits, returns when there are no more splits, raises when a stage fails, and is interrupted when the
bridge is asked to close. The task is a source. The JobMaster takes the final checkpoint as soon as the data has ended,
and replies are delivered when the case continues. Flink's Task is FAILED when the failure is decided, flykka's when its
bridge has closed, so a failed task is run until then.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any

from flykka.actors.machines.attempt.attempt import StreamTask
from flykka.actors.machines.attempt.events import BridgeLost, EndAttempt, StartTask, TaskEffect, TaskEvent
from flykka.actors.machines.effects import Role, StartTimer, Tell
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    CheckpointCommitted,
    CommitPrepared,
    EngineFailed,
    SnapshotWritten,
    StageResult,
)
from flykka.messages.attempt.commands import (
    CancelWork,
    CloseChain,
    CommitCheckpoint,
    InterruptWork,
    OpenChain,
    PrepareCommit,
    SnapshotState,
    WriteSnapshot,
)
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointOptions,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.source import RequestSplits
from flykka.messages.tasks.task import (
    CancellationDue,
    CancelTask,
    ExecutionState,
    FatalErrorOccurred,
    NotifyEndOfData,
    TaskDeploymentDescriptor,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from tests.actors.machines.graph.graphs import failure
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.conformance.states.body import Body
from tests.conformance.states.consumer_case import ConsumerCase
from tests.conformance.states.descriptors import source_descriptor

_GIVEN = {"component", "body", "setup", "state", "cancel_interval_ms", "cancel_timeout_ms", "cluster", "job"} | {
    "cancelling raises"
}
_SETUP = {
    "class ?loader": "No user code classloader available.",
    "blob|jar": "Failed to fetch BLOB: it is missing.",
    "network|buffer|result partition|input gate": "Network buffer pool has already been destroyed.",
    "instantiat|construct": "Could not instantiate the task's invokable class.",
}
"""The error texts of Flink's preparations. In flykka all of them come from the bridge, and the task forwards them."""

_STEP = {"do", "want", "cause", "state", "reset_task_to", "answer"}
_GOING_WRONG = {ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED}


class TaskCase:
    def __init__(self, given: Mapping[str, Any]) -> None:
        only_known_words("given", given, _GIVEN)
        if given.get("cancelling raises") not in (None, "out of memory"):
            raise UnknownWordError(f"cancelling raises {given['cancelling raises']!r}")
        # An error while a cancelled task closes is logged, and the bridge has closed nevertheless.
        self._body = Body(given.get("body", "returns"))
        self._unprepared = _unprepared(given.get("setup"))
        self._descriptor: TaskDeploymentDescriptor = source_descriptor(_cancellation({**given, **given.get("job", {})}))
        self._task = StreamTask(self._descriptor, Ref("/task", 1), _cancellation(given.get("cluster", {})))
        self._consumers = ConsumerCase()
        self._answers: deque[TaskEvent] = deque()
        self._reported: list[TaskExecutionState] = []
        self._now = 0
        self._due_ms: int | None = None
        self._body_started = False
        self._terminated = False
        self._fatal_error = False
        if given.get("state", "CREATED") != "CREATED":
            self._begin(ExecutionState(given["state"]))

    def _begin(self, state: ExecutionState) -> None:
        if state is not ExecutionState.RUNNING:
            raise UnknownWordError(f"a task that begins {state}")
        self._body = Body("blocks")
        self._start()
        self._settle()

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, _STEP)
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
                self._start()
                self._feed(BridgeLost(cause=failure(step.get("cause", "test"))))
            case "release_body":
                self._answers.append(self._released())
            case "join":
                self._join()
            case "producer_is":
                self._consumers.producer_is(ExecutionState(step["state"]), step.get("reset_task_to", "RUNNING"))
            case "producer_check_answers":
                self._consumers.producer_check_answers(step["answer"])
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        state = self._task.state.current
        match word:
            case "state":
                return bool((self._consumers.state or state) == wanted)
            case "canceled_or_failed":
                return (state in _GOING_WRONG) is wanted
            case "reported":
                return [reached.state for reached in self._reported] == wanted
            case "body_started":
                return self._body_started is wanted
            case "terminated_with":
                return (state if self._terminated else None) == wanted
            case "terminated":
                return self._terminated is wanted
            case "fatal_error":
                self._join()
                return self._fatal_error is wanted
            case "cancel_interval_ms":
                return bool(self._task.state.cancellation.interval_ms == wanted)
            case "cancel_timeout_ms":
                return bool(self._task.state.cancellation.timeout_ms == wanted)
            case "task_after":
                return {was: str(self._consumers.after[was]) for was in wanted} == wanted
            case "retries_consumption":
                return self._consumers.retries == wanted
            case _ if word.startswith("cause"):
                return self._cause_holds(word, wanted)
            case unknown:
                raise UnknownWordError(unknown)

    def _cause_holds(self, word: str, wanted: Any) -> bool:
        cause = self._reported[-1].failure if self._reported else None
        match word:
            case "cause":
                return cause is None if wanted is None else cause is not None and wanted in cause.message
            case "cause_contains":
                return cause is not None and wanted in cause.message
            case "cause_is":
                kind, _, text = wanted.rstrip(")").partition("(")
                return cause is not None and cause.type_name == kind and text in cause.message
            case unknown:
                raise UnknownWordError(unknown)

    def _released(self) -> TaskEvent:
        return ChainClosed() if self._body.is_interrupted else self._body.released(self._descriptor)

    def _start(self) -> None:
        # The actor starts its machine before it handles any message.
        if self._task.state.current is ExecutionState.CREATED:
            self._feed(StartTask())

    def _settle(self) -> None:
        while self._answers:
            self._feed(self._answers.popleft())

    def _join(self) -> None:
        """Let time pass until the attempt has ended or the TaskManager has given up."""
        self._settle()
        while not self._terminated and not self._fatal_error and self._due_ms is not None:
            self._now, self._due_ms = self._due_ms, None
            self._feed(CancellationDue())
            self._settle()

    def _feed(self, event: TaskEvent) -> None:
        if self._terminated:
            return
        for effect in self._task.handle(event, now=self._now):
            self._perform(effect)
        self._task.check()

    def _perform(self, effect: TaskEffect) -> None:
        match effect:
            case Tell(to=Role.BRIDGE, message=message):
                self._answers += self._bridge(message)
            case Tell(to=Role.JOB_MASTER, message=message):
                self._answers += self._job_master(message)
            case StartTimer(delay_ms=delay_ms, message=CancellationDue()):
                self._due_ms = self._now + delay_ms
            case Tell(message=FatalErrorOccurred()):
                self._fatal_error = True
            case EndAttempt():
                self._terminated = True

    def _bridge(self, message: Message) -> list[TaskEvent]:
        match message:
            case OpenChain() if self._unprepared is not None:
                return [EngineFailed(cause=failure(self._unprepared))]
            case OpenChain():
                return [ChainOpened(has_state=True)]
            case SnapshotState(stage=stage):
                return [StageResult(stage=stage)]
            case PrepareCommit(checkpoint_id=checkpoint_id):
                return [CommitPrepared(checkpoint_id=checkpoint_id)]
            case WriteSnapshot(checkpoint_id=checkpoint_id):
                return [SnapshotWritten(checkpoint_id=checkpoint_id)]
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                return [CheckpointCommitted(checkpoint_id=checkpoint_id)]
            case CloseChain(cancel=True) | InterruptWork():
                return []
            case CloseChain() | CancelWork():
                return [ChainClosed()] if not self._body_started or self._body.ends_when_interrupted() else []
            case unexpected:
                raise AssertionError(f"nobody wants {unexpected} of the bridge")

    def _job_master(self, message: Message) -> list[TaskEvent]:
        job_id, attempt = self._descriptor.job_id, self._descriptor.attempt
        match message:
            case UpdateTaskExecutionState(state=reached):
                self._reported.append(reached)
            case RequestSplits():
                self._body_started = True
                return self._body.entered(self._descriptor)
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


def _cancellation(said: Mapping[str, Any]) -> TaskCancellationSettings:
    return TaskCancellationSettings(
        interval_ms=said.get("cancel_interval_ms"), timeout_ms=said.get("cancel_timeout_ms")
    )


def _unprepared(setup: str | None) -> str | None:
    """Return the report of a failed preparation for the word of the case, with Flink's text."""
    if setup is None:
        return None
    message = next((text for words, text in _SETUP.items() if re.search(words, setup, re.IGNORECASE)), None)
    if message is None:
        raise UnknownWordError(f"setup {setup!r}")
    return f"{setup}: {message}"
