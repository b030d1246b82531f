"""The registry of jobs that run in the user's processes on this machine: one file per job, in a private folder.

The process locks the file of its job. The lock is released when the process ends for any reason, so a file that can be
locked belongs to an ended job, and is removed by the next process that finds it. Only the user may read the folder
(0700): a file contains the name of a job, the address of its REST interface, and the token for it.
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
"""The environment variable with the folder. The default is in `XDG_RUNTIME_DIR`, or else in the temporary folder."""

_SUFFIX = ".job"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that has not ended: its process, and the URL and token of its REST interface, if any."""

    job_id: JobId
    name: str
    process: int
    address: str | None = None
    token: str | None = field(default=None, repr=False)


class RunningJobFile:
    def __init__(self, job: RunningJob) -> None:
        """Create the file. A failure is only logged, because it only hides the job from other processes."""
        self._path: Path | None = None
        try:
            path = pid_folder() / f"{job.process}-{job.job_id}{_SUFFIX}"
            # The file is locked before it is renamed, so that other processes never find it unlocked.
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
    """Return the jobs of all processes, including this process, sorted by process and id. Read errors are logged."""
    try:
        return tuple(sorted(_find_jobs(), key=lambda job: (job.process, job.job_id)))
    except OSError as refused:
        _log.info("which jobs run in other processes is not known: %s", refused)
        return ()


def token_for(address: str) -> str | None:
    """Return the token for the REST interface at a URL, if a job of this user serves it."""
    place = _place(address)
    return next((job.token for job in running_jobs() if job.address is not None and _place(job.address) == place), None)


def _place(address: str) -> tuple[str, str | None, int | None]:
    url = urlsplit(address)
    return url.scheme, "127.0.0.1" if url.hostname == "localhost" else url.hostname, url.port


def pid_folder() -> Path:
    """Return the folder of the files, creating it if necessary.

    Raises:
        PermissionError: the folder belongs to another user, or others may read it.
        OSError: the folder cannot be created.
    """
    configured = os.environ.get(FOLDER_VARIABLE)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not configured and not runtime:
        return user_folder()
    return private_folder(Path(configured or Path(runtime or "", "flykka")), f"name another in {FOLDER_VARIABLE}")


def _find_jobs() -> Iterator[RunningJob]:
    for path in pid_folder().glob(f"*{_SUFFIX}"):
        try:
            with path.open("rb") as file:
                # The lock is shared, so that another process that checks the file is not mistaken for the process
                # that runs the job.
                if lock(file.fileno(), shared=True):
                    path.unlink(missing_ok=True)
                else:
                    yield RunningJob(**json.loads(file.read()))
        except FileNotFoundError:
            continue  # The job has ended meanwhile.


class EnvironmentJobs:
    """The jobs of one environment. Iterating yields the clients of jobs that have not ended."""

    def __init__(self, registry: CodeRegistry) -> None:
        self._registry = registry
        self._files: dict[JobClient, RunningJobFile] = {}

    def __iter__(self) -> Iterator[JobClient]:
        return (client for client in self._files if not client.done())

    def add(self, client: JobClient, rest_address: str | None, rest_token: str | None) -> None:
        """Retain the code of this job until it has ended, and make the job visible to other processes."""
        job = RunningJob(
            job_id=client.job_id,
            name=client.job_name,
            process=os.getpid(),
            address=rest_address,
            token=rest_token,
        )
        self._files[client] = RunningJobFile(job)

    def forget_ended(self) -> None:
        running = set(self)
        self._forget(client for client in list(self._files) if client not in running)
        self._registry.retain(client.job_graph for client in self._files)

    def close(self) -> None:
        self._forget(list(self._files))

    def _forget(self, clients: Iterable[JobClient]) -> None:
        for client in clients:
            self._files.pop(client).remove()
