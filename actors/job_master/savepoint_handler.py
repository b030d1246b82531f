"""The part of a JobMaster that handles savepoints, checkpoints on demand, and stopping the job.

It creates folders on the I/O pool, delegates decisions to `SavepointRequests`, and sends requests to the
CheckpointCoordinator. It replies through the JobManager, which knows the waiting clients even after the JobMaster has
ended.
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

from flykka.actors.checkpoint_storage.file_names import savepoint_prefix
from flykka.actors.checkpoint_storage.storage import discard_savepoint, initialize_savepoint
from flykka.actors.machines.checkpoint import savepoint_requests
from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.graph.events import StoppingChanged
from flykka.actors.machines.states import JobMoved
from flykka.messages.control import checkpoint_coordination, job
from flykka.messages.control.job_control import (
    SavepointDiscarded,
    SavepointLocationInitialized,
    SavepointLocationRefused,
)
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized

SavepointMessage = (
    job.TriggerSavepoint
    | job.RequestCheckpoint
    | job.StopJob
    | SavepointLocationInitialized
    | SavepointLocationRefused
    | SavepointDiscarded
    | checkpoint_coordination.SavepointCompleted
    | checkpoint_coordination.SavepointFailed
    | checkpoint_coordination.StopCheckpointFailed
)


class SavepointHandler:
    """Used in the turns of one JobMaster only."""

    def __init__(self, context: ActorContext, job_graph: JobGraph, checkpoint_coordinator: Ref) -> None:
        self._context = context
        self._job_id = job_graph.job_id
        self._permissions = job_graph.checkpointing.permissions
        self._checkpoint_coordinator = checkpoint_coordinator
        self._requests = savepoint_requests.SavepointRequests(job_graph.job_id, job_graph.job_type)
        self._asked: dict[str, job.TriggerSavepoint | job.RequestCheckpoint] = {}

    @property
    def stopped_with(self) -> str | None:
        return self._requests.stopped_with

    def job_moved(self, status: job.JobStatus, cause: SerializedThrowable | None) -> None:
        self._decide(JobMoved(status=status, cause=cause))

    def on_message(self, message: SavepointMessage) -> list[StoppingChanged]:
        """Return the resulting events for the ExecutionGraph."""
        match message:
            case job.TriggerSavepoint(savepoint_directory=directory):
                request_id = self._new_id()
                self._asked[request_id] = message
                return self._decide(savepoint_requests.SavepointRequested(request_id=request_id, directory=directory))
            case job.RequestCheckpoint(checkpoint_type=checkpoint_type):
                request_id, is_full = self._new_id(), checkpoint_type is job.CheckpointType.FULL
                self._asked[request_id] = message
                return self._decide(savepoint_requests.CheckpointRequested(request_id=request_id, is_full=is_full))
            case job.StopJob(savepoint_directory=directory, drain=drain):
                return self._decide(
                    savepoint_requests.StopRequested(request_id=self._new_id(), directory=directory, drain=drain)
                )
            case SavepointDiscarded(cause=cause):
                if cause is not None:
                    # The client already has its reply. The event informs operators of the cluster about possible
                    # leftovers.
                    self._context.publish(message)
                return []
            case _:
                return self._decide(message)

    def _new_id(self) -> str:
        """Return a new request id, which is also the name of the savepoint's folder."""
        return self._context.new_id(savepoint_prefix(self._job_id))

    def _decide(self, event: savepoint_requests.SavepointEvent) -> list[StoppingChanged]:
        return [change for effect in self._requests.handle(event) for change in self._perform(effect)]

    def _perform(self, effect: savepoint_requests.SavepointEffect) -> list[StoppingChanged]:
        match effect:
            case savepoint_requests.InitializeLocation(request_id=request_id, directory=directory):
                self._context.pipe_to_self(
                    partial(initialize_savepoint, directory, request_id, permissions=self._permissions),
                    lambda location: SavepointLocationInitialized(request_id=request_id, location=location),
                    lambda error: SavepointLocationRefused(request_id=request_id, cause=serialized(error)),
                )
            case savepoint_requests.DiscardLocation(location=location):
                self._context.pipe_to_self(
                    partial(discard_savepoint, location),
                    lambda _: SavepointDiscarded(location=location),
                    lambda error: SavepointDiscarded(location=location, cause=serialized(error)),
                )
            case Tell(message=message):
                self._checkpoint_coordinator.tell(message)
                if isinstance(message, checkpoint_coordination.StopCheckpointRequest):
                    return [StoppingChanged(is_stopping=True)]
            case savepoint_requests.RefuseStop(why=why):
                refusal = SerializedThrowable(type_name="StopJobError", message=why)
                self._context.parent.tell(job.StoppingFailure(job_id=self._job_id, cause=refusal))
                return [StoppingChanged(is_stopping=False)]
            case savepoint_requests.AnswerSnapshot():
                self._answer(effect)
            case savepoint_requests.RefuseSnapshot(request_id=request_id, cause=cause):
                request = self._asked.pop(request_id)
                is_savepoint = isinstance(request, job.TriggerSavepoint)
                failure = job.TriggerSavepointFailure if is_savepoint else job.RequestCheckpointFailure
                self._context.parent.tell(failure(job_id=self._job_id, client=request.client, cause=cause))
            case Ignore():
                pass
            case _:
                assert_never(effect)
        return []

    def _answer(self, answer: savepoint_requests.AnswerSnapshot) -> None:
        request, path = self._asked.pop(answer.request_id), answer.path
        self._context.parent.tell(
            job.TriggerSavepointSuccess(job_id=self._job_id, client=request.client, savepoint_path=path)
            if isinstance(request, job.TriggerSavepoint)
            else job.RequestCheckpointSuccess(
                job_id=self._job_id, client=request.client, checkpoint_id=answer.checkpoint_id, checkpoint_path=path
            )
        )
