"""Spark's daemon of Python workers, whose workers end with the attempt they work for.

When a job is cancelled, Spark checks after two seconds whether a Python worker is still busy, and kills it some time
later: until then a function that sleeps or computes runs on, with all its side effects, and occupies a core. Here a
thread of each worker checks five times a second whether the attempt is cancelled, which the driver marks by an empty
file named after it, and ends the process. Driver and workers must share a file system, as they do at a local master.

Started by Spark as `python -m flykka.spark_bridge.session.python_daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import os
from pathlib import Path
from socket import socket
from threading import Event, Thread

from pyspark import TaskContext, daemon

FOLDER_VARIABLE = "FLYKKA_CANCELLED_ATTEMPTS"
"""The environment variable of workers that names the folder of those files."""

ATTEMPT_PROPERTY = "flykka.attempt"
"""The local property of Spark jobs that names the attempt, as the file is called."""

_LOOK_SECONDS = 0.2


def end_with_attempt(folder: Path) -> None:
    """Poll, and end this process at once when the attempt of its task is cancelled."""
    pause = Event()
    while not pause.wait(_LOOK_SECONDS):
        # A worker is used again for other tasks: the current one is looked up every time.
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
        # This is called in a process of its own, and there again for each task of this worker.
        if folder is not None and watch.ident is None:
            watch.start()
        return run_worker(sock, authenticated)

    daemon.worker = watched_worker
    daemon.manager()


if __name__ == "__main__":
    main()
