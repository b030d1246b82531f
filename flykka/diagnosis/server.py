"""Answers, in a process that runs jobs, what `flykka why` asks from another terminal.

One thread for the process, from the first job of any cluster until the last cluster has ended: no actor, so that it
answers also when all of them are stuck. It keeps the jobs weakly: a job without a client cannot be asked about.
"""

from __future__ import annotations

import atexit
import logging
import socket
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from flykka.diagnosis.collection import TIME_LIMIT
from flykka.diagnosis.job_diagnosis import JobDiagnosis
from flykka.diagnosis.sockets import listening_socket, receive, send
from flykka.messages.control.job import JobStatus
from flykka.messages.wire.ids import JobId

_log = logging.getLogger("flykka")

_QUESTION_TIMEOUT = 10.0
"""Seconds from a connection to its question."""


class DiagnosableJob(Protocol):
    """The client of a job, as far as the server asks it."""

    @property
    def job_id(self) -> JobId:
        """Its id."""

    @property
    def job_name(self) -> str:
        """Its name."""

    @property
    def status(self) -> JobStatus:
        """The last status that was heard of."""

    def done(self) -> bool:
        """True if it has ended."""

    def why(self, timeout: float) -> JobDiagnosis:
        """Diagnose why it does not go on; each of its actors has `timeout` seconds for its answer."""


class DiagnosticsServer:
    """The jobs of this process by their clusters, and the thread that answers for them."""

    def __init__(self) -> None:
        self._jobs: weakref.WeakKeyDictionary[object, weakref.WeakSet[DiagnosableJob]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._open: tuple[socket.socket, Path] | None = None

    def register(self, cluster: object, job: DiagnosableJob) -> None:
        """Let the job be asked about. Where there can be no socket it cannot, which is no reason not to run it."""
        with self._lock:
            self._jobs.setdefault(cluster, weakref.WeakSet()).add(job)
            if self._open is not None or not hasattr(socket, "AF_UNIX"):
                return
            try:
                listening, path = self._open = listening_socket()
            except OSError as refused:
                _log.info("`flykka why` will not find the jobs of this process: %s", refused)
                return
        threading.Thread(target=self._receive, args=(listening, path), name="flykka-why", daemon=True).start()

    def unregister(self, cluster: object) -> None:
        """Let the jobs of the cluster be asked about no more: it has ended."""
        with self._lock:
            self._jobs.pop(cluster, None)
            is_wanted = bool(self._jobs)
        if not is_wanted:
            self.close()

    def close(self) -> None:
        """Accept no more questions. Does nothing where none is accepted."""
        with self._lock:
            opened, self._open = self._open, None
        if opened is None:
            return
        _, path = opened
        # Wakes the thread that waits for connections.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wake_up, suppress(OSError):
            wake_up.connect(str(path))
        path.unlink(missing_ok=True)

    def _is_open(self, listening: socket.socket) -> bool:
        with self._lock:
            return self._open is not None and self._open[0] is listening

    def _receive(self, listening: socket.socket, path: Path) -> None:
        with listening:
            self._serve(listening, path)

    def _serve(self, listening: socket.socket, path: Path) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError as closed:
                _log.info("`flykka why` will not find the jobs of this process any more: %s: %s", path, closed)
                return
            with connection:
                if not self._is_open(listening):
                    return
                try:
                    connection.settimeout(_QUESTION_TIMEOUT)
                    send(connection, self._answer(receive(connection)))
                except (OSError, ValueError):
                    continue  # The other side has gone, or speaks otherwise.
                except Exception:  # noqa: BLE001 - whatever is wrong with one answer, the next question may be asked
                    _log.exception("a question of `flykka why` could not be answered")

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            jobs = sorted((job for jobs in self._jobs.values() for job in jobs), key=lambda job: job.job_id)
        if question.get("running"):
            return {"program": sys.argv[0], "jobs": [_described(job) for job in jobs]}
        wanted, timeout = question.get("job"), float(question.get("timeout", TIME_LIMIT))
        fitting = [job for job in jobs if wanted is None or wanted == job.job_name or job.job_id.startswith(wanted)]
        if wanted is None and any(not job.done() for job in fitting):
            # Without a name a job that runs is meant, where there is one.
            fitting = [job for job in fitting if not job.done()]
        return {"program": sys.argv[0], "jobs": list(_told(fitting, timeout, in_full=len(fitting) == 1))}


def _told(jobs: list[DiagnosableJob], timeout: float, *, in_full: bool) -> Iterator[dict[str, Any]]:
    for job in jobs:
        why = job.why(timeout)
        text = str(why) if in_full else why.answer
        yield {**_described(job), "why": text}


def _described(job: DiagnosableJob) -> dict[str, Any]:
    """Describe a job without asking its actors."""
    return {"id": job.job_id, "name": job.job_name, "status": str(job.status), "done": job.done()}


DIAGNOSTICS = DiagnosticsServer()
"""The server of this process."""
atexit.register(DIAGNOSTICS.close)
