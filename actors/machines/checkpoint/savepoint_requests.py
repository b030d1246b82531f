"""Handles requests for savepoints and checkpoints of a job, and the stop of the job.

A savepoint, including the savepoint with which a job stops, needs a folder first; a checkpoint does not. Then the
CheckpointCoordinator takes it and reports the result. Each requester gets exactly one reply, however the job proceeds,
and no files of a failed savepoint remain (Flink's StopWithSavepointTerminationHandler). Once the coordinator has the
request, only the coordinator knows the result: the savepoint may complete while the job fails, and the job then
restarts from it. So a folder is deleted, and a stop refused, only after the coordinator has replied.

Not here: how a savepoint is taken (the coordinator), and when a stopped job has FINISHED (the JobManager).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.states import JobMoved
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.control.checkpoint_coordination import (
    CheckpointRequest,
    SavepointCompleted,
    SavepointFailed,
    SavepointRequest,
    StopCheckpointFailed,
    StopCheckpointRequest,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import SavepointLocationInitialized, SavepointLocationRefused
from flykka.messages.graph.job_graph import JobType
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRequested:
    """A client requests a savepoint below `directory`."""

    request_id: str
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequested:
    request_id: str
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """A client stops the job, with a savepoint below `directory` or, without a directory, with a checkpoint."""

    request_id: str
    directory: str | None = None
    drain: bool = False


SavepointEvent = (
    SavepointRequested
    | CheckpointRequested
    | StopRequested
    | JobMoved
    | SavepointLocationInitialized
    | SavepointLocationRefused
    | SavepointCompleted
    | SavepointFailed
    | StopCheckpointFailed
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeLocation:
    """Create a folder in the directory and reply with `SavepointLocationInitialized` or `SavepointLocationRefused`."""

    request_id: str
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSnapshot:
    request_id: str
    checkpoint_id: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseSnapshot:
    request_id: str
    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseStop:
    """Report to the requesters of the stop why the job was not stopped."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardLocation:
    location: str


SavepointEffect = (
    InitializeLocation
    | Tell[Literal[Role.CHECKPOINT_COORDINATOR]]
    | AnswerSnapshot
    | RefuseSnapshot
    | RefuseStop
    | DiscardLocation
    | Ignore
)


class SavepointRequests:
    """The requests of one job. There is one stop at a time, which equal requests share.

    A batch job refuses savepoints and stops, because it cannot be continued from a checkpoint.
    """

    def __init__(self, job_id: JobId, job_type: JobType = JobType.STREAMING) -> None:
        self._job_id = job_id
        self._is_batch = job_type is JobType.BATCH
        self._status = JobStatus.CREATED
        self._savepoints: set[str] = set()
        self._checkpoints: set[str] = set()
        self._locations: dict[str, str] = {}
        self._stop: StopRequested | None = None
        self._left: JobMoved | None = None
        self._stopped_with: str | None = None

    @property
    def stopped_with(self) -> str | None:
        return self._stopped_with

    @property
    def waiting(self) -> frozenset[str]:
        return frozenset(self._savepoints | self._checkpoints | ({self._stop.request_id} if self._stop else set()))

    def handle(self, event: SavepointEvent) -> list[SavepointEffect]:
        match event:
            case SavepointRequested() | CheckpointRequested():
                return self._on_snapshot_requested(event)
            case StopRequested():
                return self._on_stop_requested(event)
            case SavepointLocationInitialized(request_id=request_id, location=location):
                return self._on_location(request_id, location)
            case SavepointLocationRefused(request_id=request_id, cause=cause):
                return self._give_up(request_id, cause)
            case SavepointCompleted():
                return self._on_completed(event)
            case SavepointFailed(request_id=request_id) if request_id in self._checkpoints:
                self._checkpoints.remove(request_id)
                return [RefuseSnapshot(request_id=request_id, cause=_checkpoint_error(_why(event)))]
            case SavepointFailed(request_id=request_id):
                return self._give_up(request_id, _savepoint_error(_why(event)))
            case StopCheckpointFailed():
                return self._on_stop_failed(event)
            case JobMoved():
                return self._on_job_moved(event)
            case _:
                assert_never(event)

    def _on_snapshot_requested(self, request: SavepointRequested | CheckpointRequested) -> list[SavepointEffect]:
        request_id, why = request.request_id, None
        if self._is_batch:
            why = "it is a batch job, which restarts from finished results instead of a checkpoint after a failure"
        elif self._status is not JobStatus.RUNNING:
            why = f"it is {self._status}: only a RUNNING job can take one"
        match request:
            case SavepointRequested() if why is not None:
                return [RefuseSnapshot(request_id=request_id, cause=_savepoint_error(why))]
            case CheckpointRequested() if why is not None:
                return [RefuseSnapshot(request_id=request_id, cause=_checkpoint_error(why))]
            case SavepointRequested(directory=directory):
                self._savepoints.add(request_id)
                return [InitializeLocation(request_id=request_id, directory=directory)]
            case CheckpointRequested(is_full=is_full):
                # From now on only the coordinator knows whether the checkpoint exists.
                self._checkpoints.add(request_id)
                return [_ask(CheckpointRequest(job_id=self._job_id, request_id=request_id, is_full=is_full))]

    def _on_stop_requested(self, request: StopRequested) -> list[SavepointEffect]:
        if self._is_batch:
            return [RefuseStop(why="it is a batch job, which takes no checkpoint before its end: cancel it instead")]
        if self._status is not JobStatus.RUNNING:
            why = f"it is {self._status}: only a RUNNING job can be stopped with a checkpoint"
            return [RefuseStop(why=why)]
        if self._stop is not None:
            return [Ignore(reason="the job stops already")]
        self._stop = request
        if request.directory is not None:
            return [InitializeLocation(request_id=request.request_id, directory=request.directory)]
        return [self._ask_for_last_checkpoint(request)]

    def _on_location(self, request_id: str, location: str) -> list[SavepointEffect]:
        if request_id not in self.waiting:
            return [DiscardLocation(location=location)]
        self._locations[request_id] = location
        if self._stop is not None and request_id == self._stop.request_id:
            return [self._ask_for_last_checkpoint(self._stop, location)]
        return [_ask(SavepointRequest(job_id=self._job_id, request_id=request_id, target_location=location))]

    def _ask_for_last_checkpoint(self, stop: StopRequested, location: str | None = None) -> SavepointEffect:
        return _ask(
            StopCheckpointRequest(
                job_id=self._job_id, target_location=location, drain=stop.drain, request_id=stop.request_id
            )
        )

    def _on_completed(self, completed: SavepointCompleted) -> list[SavepointEffect]:
        request_id, path = completed.request_id, completed.path
        self._locations.pop(request_id, None)
        if request_id in self._savepoints or request_id in self._checkpoints:
            self._savepoints.discard(request_id)
            self._checkpoints.discard(request_id)
            return [AnswerSnapshot(request_id=request_id, checkpoint_id=completed.checkpoint_id, path=path)]
        if self._stop is not None and request_id == self._stop.request_id:
            # The requester gets its reply when the job has FINISHED.
            self._stopped_with = path
            return [] if self._left is None else self._refuse_stop(self._why_not_stopped(self._left))
        return []

    def _on_stop_failed(self, event: StopCheckpointFailed) -> list[SavepointEffect]:
        if self._stop is None or event.request_id not in (None, self._stop.request_id):
            return [Ignore(reason="the job's state has changed meanwhile, which was reported already")]
        if self._left is not None:
            return self._refuse_stop(self._why_not_stopped(self._left))
        what = "checkpoint" if self._stop.directory is None else "savepoint"
        number = "" if event.checkpoint_id is None else f" {event.checkpoint_id}"
        return self._refuse_stop(
            f"its last {what}{number} failed with {event.reason}{_because(event.cause)}; the job continues"
        )

    def _on_job_moved(self, change: JobMoved) -> list[SavepointEffect]:
        self._status = change.status
        if self._status in (JobStatus.RUNNING, JobStatus.FINISHED):
            return []
        not_begun = sorted(self._savepoints - self._locations.keys())
        self._savepoints.difference_update(not_begun)
        cause = _savepoint_error(f"the job became {change.status} meanwhile{_because(change.cause)}")
        return [
            *(RefuseSnapshot(request_id=request_id, cause=cause) for request_id in not_begun),
            *self._leave_stop(change),
        ]

    def _leave_stop(self, change: JobMoved) -> list[SavepointEffect]:
        if self._stop is None:
            return []
        if self._stop.request_id in self._locations:
            self._left = self._left or change
            return []
        return self._refuse_stop(self._why_not_stopped(change))

    def _why_not_stopped(self, change: JobMoved) -> str:
        why = f"it became {change.status} meanwhile{_because(change.cause)}"
        if self._stopped_with is None:
            return why
        return (
            f"{why}. A savepoint has been created at {self._stopped_with}: it is consistent, but its output in"
            " the sinks may not be published; starting a job from it publishes it"
        )

    def _give_up(self, request_id: str, cause: SerializedThrowable) -> list[SavepointEffect]:
        if request_id in self._savepoints:
            self._savepoints.remove(request_id)
            return [RefuseSnapshot(request_id=request_id, cause=cause), *self._discard(request_id)]
        if self._stop is not None and request_id == self._stop.request_id:
            reason = self._left and self._why_not_stopped(self._left)
            return self._refuse_stop(reason or f"{cause.message}; the job continues")
        return [Ignore(reason=f"no requester waits for {request_id} any more")]

    def _refuse_stop(self, why: str) -> list[SavepointEffect]:
        assert self._stop is not None, "no stop was requested"
        discards = self._discard(self._stop.request_id)
        self._stop, self._left, self._stopped_with = None, None, None
        return [RefuseStop(why=why), *discards]

    def _discard(self, request_id: str) -> list[SavepointEffect]:
        location = self._locations.pop(request_id, None)
        return [] if location is None else [DiscardLocation(location=location)]


def _ask(request: SavepointRequest | CheckpointRequest | StopCheckpointRequest) -> SavepointEffect:
    return Tell(to=Role.CHECKPOINT_COORDINATOR, message=request)


def _savepoint_error(why: str) -> SerializedThrowable:
    return SerializedThrowable(type_name="SavepointError", message=why)


def _checkpoint_error(why: str) -> SerializedThrowable:
    return SerializedThrowable(type_name="CheckpointError", message=why)


def _because(cause: SerializedThrowable | None) -> str:
    return f": {cause.type_name}: {cause.message}" if cause else ""


def _why(event: SavepointFailed) -> str:
    if event.reason is CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING:
        return f"not all required tasks are currently running ({event.reason}): try again when they are"
    return f"it failed with {event.reason}{_because(event.cause)}"
