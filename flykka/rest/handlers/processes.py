"""The process of the JobManager, which also contains the TaskManagers: metrics, threads, logs.

A TaskManager has its own slots and buffers, and threads for its attempts. All of them share memory, garbage collector
and log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.messages.monitoring.job_details import SubtaskDetails
from flykka.messages.wire.ids import TaskManagerId
from flykka.rest.costly import Cost, Costly
from flykka.rest.endpoint import TEXT, Download, Endpoint, Query, Text
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.handlers.cluster import running_subtasks, task_manager_of
from flykka.rest.process.flame_graphs import FlameGraphs
from flykka.rest.process.log import LOG_NAME, ProcessLog, standard_output
from flykka.rest.process.metrics import ReadJvm, no_jvm, python_metrics
from flykka.rest.process.threads import Sample, sample_threads, thread_dump
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.metrics import aggregated, listed, task_manager_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedProcess:
    """The process: its log from `open` to `close`, its threads and flame graphs, and the JVM of the data plane."""

    log: ProcessLog = field(default_factory=ProcessLog)
    flame_graphs: FlameGraphs = field(default_factory=FlameGraphs)
    sample: Sample = sample_threads
    read_jvm: ReadJvm = no_jvm

    def open(self) -> None:
        self.log.attach()

    def close(self) -> None:
        self.log.detach()
        self.flame_graphs.close()


GET = {"get": "string"}

_NOT_THERE = "File not found."
"""Flink's dashboard shows no error for this message."""


class JobManagerHandlers:
    """Handles requests with data of the process itself, without a query to an actor."""

    def __init__(self, process: ServedProcess) -> None:
        self._process = process

    def endpoints(self) -> Iterator[Endpoint]:
        one = "/jobmanager"
        yield Endpoint(
            f"{one}/metrics", self._metrics, "Metrics of the process, and of the JVM beside it", arguments=GET
        )
        yield Endpoint(f"{one}/thread-dump", self._threads, "The stacks of the threads of the process")
        yield from _log_endpoints(one, self._process)

    def _metrics(self, query: Query) -> list[Json]:
        return listed({**self._process.read_jvm(), **python_metrics()}, query.arguments.get("get"))

    def _threads(self, query: Query) -> Costly:
        return Costly(cost=Cost.ACTORS, make=lambda: thread_dump(self._process.sample()), key="thread dump")


class TaskManagerHandlers:
    def __init__(self, gateway: RestfulGateway, process: ServedProcess) -> None:
        self._gateway = gateway
        self._process = process

    def endpoints(self) -> Iterator[Endpoint]:
        one = "/taskmanagers/{id}"
        over = {"get": "string", "agg": "string", "taskmanagers": "string"}
        yield Endpoint("/taskmanagers/metrics", self._over_all, "Metrics over TaskManagers", arguments=over)
        yield Endpoint(f"{one}/metrics", self._metrics, "Metrics of a TaskManager", arguments=GET)
        yield Endpoint(f"{one}/thread-dump", self._threads, "The stacks of the threads of its attempts")
        yield from _log_endpoints(one, self._process, lambda query: task_manager_of(query, self._gateway))

    def _over_all(self, query: Query) -> list[Json]:
        argument = query.arguments.get("taskmanagers")
        names = None if argument is None else argument.split(",")
        running = list(running_subtasks(self._gateway))
        there = {each.task_manager: each for each in self._gateway.slots().by_task_manager}
        if unknown := [name for name in names or () if name not in there]:
            raise RestError(404, f"there is no TaskManager {unknown[0]!r}")
        measured = [self._measured(own, running) for name, own in there.items() if names is None or name in names]
        return aggregated(measured, query.arguments.get("get"), query.arguments.get("agg"))

    def _metrics(self, query: Query) -> list[Json]:
        own, _ = task_manager_of(query, self._gateway)
        return listed(self._measured(own, list(running_subtasks(self._gateway))), query.arguments.get("get"))

    def _measured(self, own: TaskManagerInfo, running: list[SubtaskDetails]) -> dict[str, float]:
        network = self._gateway.network(own.task_manager)
        return task_manager_metrics(own, network, _on(own.task_manager, running))

    def _threads(self, query: Query) -> Costly:
        own, _ = task_manager_of(query, self._gateway)
        attempts = {each.current.attempt for each in _on(own.task_manager, running_subtasks(self._gateway))}

        def dump() -> Json:
            return thread_dump([each for each in self._process.sample() if each.attempt in attempts])

        return Costly(cost=Cost.ACTORS, make=dump, key=("thread dump", own.task_manager))


class _LogHandlers:
    def __init__(self, process: ServedProcess, check: Callable[[Query], object]) -> None:
        self._log = process.log
        self._check = check

    def list(self, query: Query) -> Json:
        self._check(query)
        return {"logs": [{"name": name, "size": size, "mtime": mtime} for name, size, mtime in self._log.sizes()]}

    def log(self, query: Query) -> Text:
        self._check(query)
        return Text(text=self._log.text())

    def file(self, query: Query) -> Text | Download:
        self._check(query)
        if query.path["filename"] == LOG_NAME:
            return self.log(query)
        # Only files of logging handlers can be read, because the name is a key and not a path.
        path = self._log.files().get(query.path["filename"])
        if path is None:
            raise RestError(404, _NOT_THERE)
        return _opened(path)

    def output(self, query: Query) -> Download:
        self._check(query)
        path = standard_output()
        if path is None:
            raise RestError(404, _NOT_THERE)
        return _opened(path)


def _log_endpoints(
    one: str, process: ServedProcess, check: Callable[[Query], object] = lambda query: None
) -> Iterator[Endpoint]:
    logs = _LogHandlers(process, check)
    yield Endpoint(f"{one}/log", logs.log, "The end of the log of the process, which is kept in memory", gives=TEXT)
    yield Endpoint(f"{one}/stdout", logs.output, "The output of the process, if it goes to a file", gives=TEXT)
    yield Endpoint(f"{one}/logs", logs.list, "The logs of the process: that in memory, and the files of its handlers")
    yield Endpoint(f"{one}/logs/{{filename}}", logs.file, "One of these logs", gives=TEXT)


def _opened(path: Path) -> Download:
    try:
        file = path.open("rb")
    except OSError:
        raise RestError(404, _NOT_THERE) from None
    return Download(file=file, size=os.fstat(file.fileno()).st_size, name=None)


def _on(task_manager: TaskManagerId, running: Iterable[SubtaskDetails]) -> list[SubtaskDetails]:
    return [each for each in running if each.current.task_manager == task_manager]
