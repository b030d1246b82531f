"""Answers, in a process that runs jobs, what `flykka why` asks from another terminal.

One thread for the process, from the first job of any cluster until the last cluster has ended: no actor, so that it
answers also when all of them are stuck. It keeps the jobs weakly: a job that nobody holds any more is nobody's to ask
about.
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
from typing import TYPE_CHECKING, Any

from flykka.explanation.inquiry import TIME_LIMIT
from flykka.explanation.sockets import listening_socket, receive, send

if TYPE_CHECKING:
    from flykka.client.job_client import JobClient
    from flykka.cluster.local_cluster import LocalCluster

_log = logging.getLogger("flykka")

_PATIENCE = 10.0
"""Seconds that whoever connects has to put the question."""


class Reception:
    """The jobs of this process, and the thread that answers for them."""

    def __init__(self) -> None:
        self._jobs: weakref.WeakKeyDictionary[LocalCluster, weakref.WeakSet[JobClient]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._open: tuple[socket.socket, Path] | None = None

    def announce(self, cluster: LocalCluster, job: JobClient) -> None:
        """Let it be asked about. That nobody can ask, where there can be no socket, is no reason not to run a job."""
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

    def dismiss(self, cluster: LocalCluster) -> None:
        """The cluster has ended: nobody asks about its jobs any more."""
        with self._lock:
            self._jobs.pop(cluster, None)
            is_wanted = bool(self._jobs)
        if not is_wanted:
            self.close()

    def close(self) -> None:
        """Receive nobody any more. Nothing happens where nobody is received."""
        with self._lock:
            opened, self._open = self._open, None
        if opened is None:
            return
        _, path = opened
        # Whoever waits for visitors hears of it by one.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock, suppress(OSError):
            knock.connect(str(path))
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
                way, _ = listening.accept()
            except OSError as closed:
                _log.info("`flykka why` will not find the jobs of this process any more: %s: %s", path, closed)
                return
            with way:
                if not self._is_open(listening):
                    return
                try:
                    way.settimeout(_PATIENCE)
                    send(way, self._answer(receive(way)))
                except (OSError, ValueError):
                    continue  # Whoever asked has gone, or is none of ours.
                except Exception:  # noqa: BLE001 - whatever is wrong with one answer, the next question may be asked
                    _log.exception("a question of `flykka why` could not be answered")

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            jobs = sorted((job for jobs in self._jobs.values() for job in jobs), key=lambda job: job.job_id)
        if question.get("running"):
            return {"program": sys.argv[0], "jobs": [_known(job) for job in jobs]}
        wanted, timeout = question.get("job"), float(question.get("timeout", TIME_LIMIT))
        fitting = [job for job in jobs if wanted is None or wanted == job.job_name or job.job_id.startswith(wanted)]
        if wanted is None and any(not job.done() for job in fitting):
            # Who names none means one that runs, where there is one.
            fitting = [job for job in fitting if not job.done()]
        return {"program": sys.argv[0], "jobs": list(_told(fitting, timeout, in_full=len(fitting) == 1))}


def _told(jobs: list[JobClient], timeout: float, *, in_full: bool) -> Iterator[dict[str, Any]]:
    for job in jobs:
        why = job.why(timeout)
        text = str(why) if in_full else why.answer
        yield {**_known(job), "why": text}


def _known(job: JobClient) -> dict[str, Any]:
    """What is known of a job without asking its actors."""
    return {"id": job.job_id, "name": job.job_name, "status": str(job.status), "done": job.done()}


RECEPTION = Reception()
"""That of this process."""
atexit.register(RECEPTION.close)
