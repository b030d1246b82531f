"""Spark's daemon of Python workers, in which a worker ends with the attempt for which it works.

When a job is cancelled, Spark checks after two seconds whether a Python worker is still busy, and kills it some time
later. Until then a function that sleeps or computes continues, with all its side effects, and occupies a core. So a
thread of each worker checks five times a second whether the attempt is cancelled, which the driver marks by an empty
file named after the attempt, and ends the process. Driver and workers must share a file system, as at a local master.

Started by Spark as `python -m flykka.spark_bridge.session.python_daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import os
from pathlib import Path
from socket import socket
from threading import Event, Thread

from pyspark import TaskContext, daemon

FOLDER_VARIABLE = "FLYKKA_CANCELLED_ATTEMPTS"
"""The environment variable that contains the folder of these files in workers."""

ATTEMPT_PROPERTY = "flykka.attempt"
"""The local property of Spark jobs that names the attempt, and so its file."""

_LOOK_SECONDS = 0.2


def end_with_attempt(folder: Path) -> None:
    """End this process as soon as the attempt of the current task is cancelled."""
    pause = Event()
    while not pause.wait(_LOOK_SECONDS):
        # Looked up every time, because a worker is reused for other tasks.
        attempt = _attempt(TaskContext.get())
        if attempt is not None and (folder / attempt).exists():
            os._exit(1)


def _attempt(task: TaskContext | None) -> str | None:
    # A new context has no properties yet.
    if task is None or task._localProperties is None:
        return None
    return task.getLocalProperty(ATTEMPT_PROPERTY)


def main() -> None:
    run_worker = daemon.worker
    folder = os.environ.get(FOLDER_VARIABLE)
    watch = Thread(target=end_with_attempt, args=(Path(folder or ""),), name="attempt watch", daemon=True)

    def watched_worker(sock: socket, authenticated: bool) -> int:
        # Called in the forked worker, for each of its tasks. A thread of the daemon would not survive the fork.
        if folder is not None and watch.ident is None:
            watch.start()
        try:
            return run_worker(sock, authenticated)
        except BrokenPipeError:
            # Spark has cancelled the task and closed the socket: the daemon would print this as an error.
            return 1

    daemon.worker = watched_worker
    daemon.manager()


if __name__ == "__main__":
    main()
