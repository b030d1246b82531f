"""Savepoints, stops, checkpoints and disposals: operations that are triggered and asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from flykka.actors.checkpoint_storage.file_names import is_savepoint
from flykka.actors.checkpoint_storage.storage import CheckpointStorage, discard_savepoint
from flykka.actors.errors import CheckpointStorageError
from flykka.client.directories import absolute_directory
from flykka.messages.control.job import CheckpointType
from flykka.messages.wire.ids import JobId
from flykka.rest.endpoint import Endpoint, Query, fields
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.handlers.jobs import job_of
from flykka.rest.operations import AsyncOperations
from flykka.rest.responses.io_metrics import Json

_DISPOSAL = "savepoint-disposal"
_FORMATS = ("CANONICAL", "NATIVE")
_TRIGGER = {"triggerId": "string"}
_SAVEPOINT = fields(target_directory="string", cancel_job="boolean", formatType="string", **_TRIGGER)
_STOP = fields(targetDirectory="string", drain="boolean", formatType="string", **_TRIGGER)
_CHECKPOINT = fields(checkpointType="string", **_TRIGGER)
_DISPOSED = fields(["savepoint-path"], savepoint_path="string", **_TRIGGER)


class SnapshotHandlers:
    """Begin operations, and tell what came of them."""

    def __init__(self, gateway: RestfulGateway, operations: AsyncOperations) -> None:
        self._gateway = gateway
        self._operations = operations

    def endpoints(self) -> Iterator[Endpoint]:
        job = "/jobs/{jobid}"
        yield Endpoint(f"{job}/savepoints", self._savepoint, "Take a savepoint", "POST", 202, body=_SAVEPOINT)
        yield Endpoint(f"{job}/savepoints/{{triggerid}}", self._result, "What came of a savepoint or a stop")
        yield Endpoint(f"{job}/stop", self._stop, "Stop a job with a savepoint", "POST", 202, body=_STOP)
        yield Endpoint(f"{job}/checkpoints", self._checkpoint, "Take a checkpoint now", "POST", 202, body=_CHECKPOINT)
        yield Endpoint(f"{job}/checkpoints/{{triggerid}}", self._checkpointed, "What came of a checkpoint")
        yield Endpoint(f"/{_DISPOSAL}", self._dispose, "Delete a savepoint", "POST", body=_DISPOSED)
        yield Endpoint(f"/{_DISPOSAL}/{{triggerid}}", self._disposed, "What came of it")

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
        job_id, said = job_of(query), query.text("checkpointType") or CheckpointType.CONFIGURED
        if said not in list(CheckpointType):
            raise RestError(400, f"there is no type of checkpoints {said!r}: there are {', '.join(CheckpointType)}")
        self._gateway.details(job_id)

        def take() -> Json:
            return {"checkpointId": self._gateway.trigger_checkpoint(job_id, CheckpointType(said))}

        return self._triggered(job_id, query, take)

    def _checkpointed(self, query: Query) -> Json:
        return self._operations.result(job_of(query), query.path["triggerid"], "failureCause")

    def _target(self, query: Query, said: str | None) -> tuple[JobId, str]:
        """The job and the directory for its savepoint. Raises `RestError` where neither request nor job names one."""
        job_id = job_of(query)
        directory = said or self._gateway.graph(job_id).checkpointing.savepoint_directory
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
        return self._operations.result(job_of(query), query.path["triggerid"])

    def _dispose(self, query: Query) -> Json:
        path = query.text("savepoint-path")
        if path is None:
            raise RestError(400, "the body must name the savepoint-path")
        return self._triggered(_DISPOSAL, query, lambda: _disposed(path))

    def _disposed(self, query: Query) -> Json:
        return self._operations.result(_DISPOSAL, query.path["triggerid"])


def _check_format(query: Query) -> None:
    """Refuse an unknown format. Either of Flink's is the one that there is. Raises `RestError`."""
    said = query.text("formatType")
    if said is not None and said not in _FORMATS:
        raise RestError(400, f"there is no format of savepoints {said!r}: there are {', '.join(_FORMATS)}")


def _disposed(path: str) -> Json:
    """Delete a savepoint: nothing else than what is one. Raises `RestError`."""
    folder = path.rstrip("/").removesuffix("/_metadata")
    if ".." in PurePosixPath(folder).parts or not is_savepoint(folder):
        raise RestError(400, f"{path} is no savepoint")
    try:
        CheckpointStorage(folder.rsplit("/", 1)[0]).read_metadata(folder)
    except CheckpointStorageError as refused:
        raise RestError(404, str(refused)) from None
    discard_savepoint(folder)
    return {}
