"""Jobs that run in the user's processes on this machine: a file for each, in a folder of the user's own.

The process holds a lock on the file of its job. A lock ends with its process in whatever way that ends, so a file that
can be locked tells of a job that runs no more, and is removed by the next process that looks. The folder belongs to
the user and to nobody else (0700): a file tells what a job is called, where it answers HTTP requests, and the token
that those need.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flykka.messages.wire.ids import JobId
from flykka.runtime.temporary_folders import lock, private_folder, user_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.operators.code_registry import CodeRegistry

_log = logging.getLogger("flykka")

FOLDER_VARIABLE = "FLYKKA_PID_DIR"
"""Names the folder where it is not to be the user's own below the one for run-time files, or for temporary ones."""

_SUFFIX = ".job"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that has not ended, the process that runs it, and the URL and token of its REST interface, if any."""

    job_id: JobId
    name: str
    process: int
    address: str | None = None
    token: str | None = field(default=None, repr=False)


class RunningJobFile:
    """The file of a job of this process, from its making until `remove`."""

    def __init__(self, job: RunningJob) -> None:
        """Make it. Where that fails the job is not found, which is no reason not to run it: that is logged."""
        self._path: Path | None = None
        try:
            path = pid_folder() / f"{job.process}-{job.job_id}{_SUFFIX}"
            # The lock is there before the name: nobody finds the file without it.
            unnamed = path.with_suffix(".new")
            self._descriptor = os.open(unnamed, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            lock(self._descriptor)
            os.write(self._descriptor, json.dumps(asdict(job)).encode())
            self._path = unnamed.rename(path)
        except OSError as refused:
            _log.info("other processes will not find job %r: %s", job.name, refused)

    def remove(self) -> None:
        path, self._path = self._path, None
        if path is not None:
            path.unlink(missing_ok=True)
            os.close(self._descriptor)


def running_jobs() -> tuple[RunningJob, ...]:
    """The jobs of all processes, this one included, by their processes and ids. What cannot be read is logged."""
    try:
        return tuple(sorted(_found(), key=lambda job: (job.process, job.job_id)))
    except OSError as refused:
        _log.info("which jobs run in other processes is not known: %s", refused)
        return ()


def token_at(address: str) -> str | None:
    """Return the token of the REST interface at a URL, if a job of this user answers there."""
    place = _place(address)
    return next((job.token for job in running_jobs() if job.address is not None and _place(job.address) == place), None)


def _place(address: str) -> tuple[str, str | None, int | None]:
    url = urlsplit(address)
    return url.scheme, "127.0.0.1" if url.hostname == "localhost" else url.hostname, url.port


def pid_folder() -> Path:
    """Return the folder of the files; made where it does not exist yet.

    Raises:
        PermissionError: it belongs to another user, or others may look into it.
        OSError: it cannot be made.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not named and not runtime:
        return user_folder()
    return private_folder(Path(named or Path(runtime or "", "flykka")), f"name another in {FOLDER_VARIABLE}")


def _found() -> Iterator[RunningJob]:
    for path in pid_folder().glob(f"*{_SUFFIX}"):
        try:
            with path.open("rb") as file:
                if lock(file.fileno()):
                    path.unlink(missing_ok=True)
                else:
                    yield RunningJob(**json.loads(file.read()))
        except FileNotFoundError:
            continue  # It has ended meanwhile.


class EnvironmentJobs:
    """The jobs of one environment. Iterating gives the clients of those that have not ended."""

    def __init__(self, registry: CodeRegistry) -> None:
        self._registry = registry
        self._files: dict[JobClient, RunningJobFile] = {}

    def __iter__(self) -> Iterator[JobClient]:
        return (client for client in self._files if not client.done())

    def add(self, client: JobClient, rest_address: str | None, rest_token: str | None) -> None:
        """Keep the code of this job until it has ended, and let it be found by other processes."""
        job = RunningJob(
            job_id=client.job_id,
            name=client.job_name,
            process=os.getpid(),
            address=rest_address,
            token=rest_token,
        )
        self._files[client] = RunningJobFile(job)

    def let_go(self) -> None:
        running = set(self)
        self._forget(client for client in list(self._files) if client not in running)
        self._registry.retain(client.job_graph for client in self._files)

    def close(self) -> None:
        """Let other processes find none of them any more."""
        self._forget(list(self._files))

    def _forget(self, clients: Iterable[JobClient]) -> None:
        for client in clients:
            self._files.pop(client).remove()
