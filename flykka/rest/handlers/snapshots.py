"""The checkpoints of a job. Also savepoints, stops and disposals, which are triggered and then polled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from flykka.actors.checkpoint_storage.file_names import is_savepoint
from flykka.actors.checkpoint_storage.storage import CheckpointStorage, discard_savepoint
from flykka.actors.errors import CheckpointStorageError
from flykka.client.directories import absolute_directory
from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.control.job import CheckpointType
from flykka.messages.wire.ids import JobId
from flykka.rest.endpoint import Endpoint, Query, fields
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.operations import AsyncOperations
from flykka.rest.responses.checkpoints import (
    checkpoint_config,
    checkpoint_details,
    checkpointing_statistics,
    subtask_details,
)
from flykka.rest.responses.io_metrics import Json

HISTORY_SHOWN = 10
"""The default number of listed checkpoints, as in Flink. It is small because a dashboard polls every second."""

_DISPOSAL = "savepoint-disposal"
_FORMATS = ("CANONICAL", "NATIVE")
_TRIGGER = {"triggerId": "string"}
_SAVEPOINT = fields(target_directory="string", cancel_job="boolean", formatType="string", **_TRIGGER)
_STOP = fields(targetDirectory="string", drain="boolean", formatType="string", **_TRIGGER)
_CHECKPOINT = fields(checkpointType="string", **_TRIGGER)
_DISPOSED = fields(["savepoint-path"], savepoint_path="string", **_TRIGGER)


class CheckpointHandlers:
    def __init__(self, gateway: JobQueries) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        checkpoints = "/jobs/{jobid}/checkpoints"
        what = "The checkpoints of a job: counts, summary, history"
        yield Endpoint(checkpoints, self._statistics, what, arguments={"limit": "integer"})
        yield Endpoint(f"{checkpoints}/config", self._config, "The settings of its checkpoints")
        details = f"{checkpoints}/details/{{checkpointid:int}}"
        yield Endpoint(details, self._details, "A checkpoint and its vertices")
        yield Endpoint(
            f"{details}/subtasks/{{vertexid}}",
            self._subtasks,
            "The subtasks of a vertex in a checkpoint",
            pages="subtasks",
        )

    def _statistics(self, query: Query) -> Json:
        job_id = query.job_id
        stats, restored_ms = self._gateway.checkpoints(job_id), self._gateway.details(job_id).restored_ms
        return checkpointing_statistics(stats, restored_ms, listed=query.number("limit", HISTORY_SHOWN))

    def _config(self, query: Query) -> Json:
        return checkpoint_config(self._gateway.graph(query.job_id))

    def _details(self, query: Query) -> Json:
        job_id = query.job_id
        checkpoint, subtasks = self._gateway.checkpoint(job_id, int(query.path["checkpointid"]))
        return checkpoint_details(checkpoint, subtasks, self._gateway.graph(job_id).vertices)

    def _subtasks(self, query: Query) -> Json:
        job_id, vertex_id = query.job_id, query.vertex_id
        graph = self._gateway.graph(job_id)
        vertex = next((each for each in graph.vertices if each.vertex_id == vertex_id), None)
        if vertex is None:
            raise RestError(404, f"job {job_id} has no vertex {vertex_id}")
        checkpoint, subtasks = self._gateway.checkpoint(job_id, int(query.path["checkpointid"]))
        return subtask_details(checkpoint, subtasks, vertex)


class SnapshotHandlers:
    def __init__(self, gateway: RestfulGateway, operations: AsyncOperations) -> None:
        self._gateway = gateway
        self._operations = operations

    def endpoints(self) -> Iterator[Endpoint]:
        job = "/jobs/{jobid}"
        yield Endpoint(f"{job}/savepoints", self._savepoint, "Take a savepoint", "POST", 202, body=_SAVEPOINT)
        yield Endpoint(f"{job}/savepoints/{{triggerid}}", self._result, "The result of a savepoint or a stop")
        yield Endpoint(f"{job}/stop", self._stop, "Stop a job with a savepoint", "POST", 202, body=_STOP)
        yield Endpoint(f"{job}/checkpoints", self._checkpoint, "Take a checkpoint now", "POST", 202, body=_CHECKPOINT)
        yield Endpoint(f"{job}/checkpoints/{{triggerid}}", self._checkpointed, "The result of a checkpoint")
        yield Endpoint(f"/{_DISPOSAL}", self._dispose, "Delete a savepoint", "POST", body=_DISPOSED)
        yield Endpoint(f"/{_DISPOSAL}/{{triggerid}}", self._disposed, "The result of the deletion")

    def _savepoint(self, query: Query) -> Json:
        _check_format(query)
        job_id, directory = self._target(query, query.text("target-directory"))
        stops = query.flag("cancel-job")

        def take() -> Json:
            if stops:
                return {"location": self._gateway.stop(job_id, directory, drain=False)}
            return {"location": self._gateway.trigger_savepoint(job_id, directory)}

        return self._triggered(job_id, query, take)

    def _stop(self, query: Query) -> Json:
        _check_format(query)
        job_id, directory = self._target(query, query.text("targetDirectory"))
        drain = query.flag("drain")
        return self._triggered(job_id, query, lambda: {"location": self._gateway.stop(job_id, directory, drain=drain)})

    def _checkpoint(self, query: Query) -> Json:
        job_id, kind = query.job_id, query.text("checkpointType") or CheckpointType.CONFIGURED
        if kind not in list(CheckpointType):
            raise RestError(400, f"unknown checkpoint type {kind!r}: use one of {', '.join(CheckpointType)}")
        self._gateway.details(job_id)

        def take() -> Json:
            return {"checkpointId": self._gateway.trigger_checkpoint(job_id, CheckpointType(kind)).checkpoint_id}

        return self._triggered(job_id, query, take)

    def _checkpointed(self, query: Query) -> Json:
        return self._operations.result(query.job_id, query.path["triggerid"], "failureCause")

    def _target(self, query: Query, requested: str | None) -> tuple[JobId, str]:
        """Return the job and the savepoint directory. Raises `RestError` if neither the request nor the job sets a
        directory.
        """
        job_id = query.job_id
        directory = requested or self._gateway.graph(job_id).checkpointing.savepoint_directory
        if directory is None:
            raise RestError(
                400,
                "No savepoint directory configured. You can either specify a directory while triggering this savepoint"
                " or configure a default with set_default_savepoint_directory(...), in `flykka run` --savepoint-dir",
            )
        return job_id, absolute_directory(directory)

    def _triggered(self, about: str, query: Query, operation: Callable[[], Json]) -> Json:
        return {"request-id": self._operations.trigger(about, query.text("triggerId"), operation)}

    def _result(self, query: Query) -> Json:
        return self._operations.result(query.job_id, query.path["triggerid"])

    def _dispose(self, query: Query) -> Json:
        path = query.text("savepoint-path")
        if path is None:
            raise RestError(400, "the body must name the savepoint-path")
        return self._triggered(_DISPOSAL, query, lambda: _disposed(path))

    def _disposed(self, query: Query) -> Json:
        return self._operations.result(_DISPOSAL, query.path["triggerid"])


def _check_format(query: Query) -> None:
    """Raise `RestError` for an unknown format. Flink's two formats are accepted, and mean the same here."""
    format_type = query.text("formatType")
    if format_type is not None and format_type not in _FORMATS:
        raise RestError(400, f"there is no format of savepoints {format_type!r}: there are {', '.join(_FORMATS)}")


def _disposed(path: str) -> Json:
    """Delete a savepoint. Raises `RestError` if the path is not a savepoint."""
    folder = path.rstrip("/").removesuffix("/_metadata")
    if ".." in PurePosixPath(folder).parts or not is_savepoint(folder):
        raise RestError(400, f"{path} is not a savepoint")
    try:
        CheckpointStorage(folder.rsplit("/", 1)[0]).read_metadata(folder)
    except CheckpointStorageError as refused:
        raise RestError(404, str(refused)) from None
    discard_savepoint(folder)
    return {}
