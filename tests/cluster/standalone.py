"""Runs a real standalone Spark cluster on this machine: a master and some workers, from PySpark's own package.

Master and workers are separate processes on the loopback interface and on free ports, and are ended by their process
ids.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic

import psutil
from pyspark.find_spark_home import _find_spark_home

PATIENCE_SECONDS = 60
_CLASS = "org.apache.spark.deploy"
_MASTER_IS_UP = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
_WORKER_IS_REGISTERED = re.compile(r"Successfully registered with master (spark://\S+)")


class Daemon:
    def __init__(self, kind: str, *arguments: str, folder: Path, java_options: str) -> None:
        folder.mkdir(parents=True)
        self._lines: Queue[str] = Queue()
        self._said: list[str] = []
        self._process = subprocess.Popen(
            [str(Path(_find_spark_home(), "bin", "spark-class")), f"{_CLASS}.{kind}", "--webui-port", "0", *arguments],
            cwd=folder,
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": java_options,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        Thread(target=self._listen, name=f"{kind} log", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_says(self, pattern: re.Pattern[str]) -> str:
        deadline = monotonic() + PATIENCE_SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - monotonic()))
            except Empty:
                raise AssertionError(f"never said {pattern.pattern!r}:\n{''.join(self._said[-30:])}") from None
            if match := pattern.search(line):
                return match[1]

    def end(self) -> None:
        switch_off(self.pid)
        self._process.wait(PATIENCE_SECONDS)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as log:
            for line in log:
                self._said.append(line)
                self._lines.put(line)


def switch_off(pid: int) -> None:
    """Kill a process and its children, as if their machine were switched off."""
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    # The parent is killed first, because it would restart its executor.
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneCluster:
    url: str
    workers: tuple[Daemon, ...]


@contextmanager
def standalone_cluster(folder: Path, java_options: str = "", workers: int = 2) -> Iterator[StandaloneCluster]:
    """Run a cluster whose workers, of one core each, have registered. The cluster ends with the `with` statement."""
    with ExitStack() as last_first:

        def start(kind: str, name: str, *arguments: str) -> Daemon:
            daemon = Daemon(kind, "--host", "127.0.0.1", *arguments, folder=folder / name, java_options=java_options)
            last_first.callback(daemon.end)
            return daemon

        url = start("master.Master", "master", "--port", "0").wait_says(_MASTER_IS_UP)
        started = tuple(
            start("worker.Worker", f"worker-{number}", "--cores", "1", "--memory", "1g", "--work-dir", "work", url)
            for number in range(workers)
        )
        for worker in started:
            worker.wait_says(_WORKER_IS_REGISTERED)
        yield StandaloneCluster(url=url, workers=started)
