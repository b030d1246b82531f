"""The cluster: its jobs in numbers, its TaskManagers, its JobManager, and what the page must know before all else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version

from flykka.actors.execution_graph_info_store.actor import process_environment
from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.messages.wire.ids import TaskManagerId
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.handlers.running_subtasks import running_subtasks
from flykka.rest.job_info import JobInfo
from flykka.rest.responses.configuration import cluster_configuration, environment
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.task_managers import task_manager, task_manager_details

FLINK_VERSION = "2.3.0"
"""The version of Flink whose interface this is."""

REFRESH_MS = 3_000


class ClusterHandlers:
    """Answer by asking the cluster."""

    def __init__(self, gateway: JobInfo) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/config", self._config, "What a page must know first")
        yield Endpoint("/overview", self._overview, "Slots, and jobs by their states")
        yield Endpoint("/taskmanagers", self._task_managers, "The TaskManagers", pages="taskmanagers")
        yield Endpoint("/taskmanagers/{id}", self._task_manager, "A TaskManager")
        yield Endpoint("/jobmanager/config", self._configuration, "The settings of the JobManager")
        yield Endpoint("/jobmanager/environment", self._environment, "The interpreter that it runs in")

    def _config(self, query: Query) -> Json:
        is_history = self._gateway.history_of is not None
        offset = datetime.now().astimezone().utcoffset()
        return {
            "refresh-interval": REFRESH_MS,
            "timezone-name": time.tzname[0],
            "timezone-offset": 0 if offset is None else round(offset.total_seconds() * 1_000),
            "flink-version": f"{FLINK_VERSION} (flykka {version('flykka')})",
            "flink-revision": f"flykka-{version('flykka')}",
            "features": {
                "web-submit": False,
                "web-cancel": not is_history,
                "web-rescale": not is_history,
                "web-history": is_history,
            },
        }

    def _overview(self, query: Query) -> Json:
        slots = self._gateway.slots()
        states = [job.status for job in self._gateway.jobs()]
        return {
            "taskmanagers": len(slots.task_managers),
            "slots-total": slots.slots,
            "slots-available": slots.free,
            "jobs-running": sum(state not in JOB_GLOBALLY_TERMINAL for state in states),
            "jobs-finished": states.count(JobStatus.FINISHED),
            "jobs-cancelled": states.count(JobStatus.CANCELED),
            "jobs-failed": states.count(JobStatus.FAILED),
            "flink-version": FLINK_VERSION,
            "flink-commit": f"flykka-{version('flykka')}",
        }

    def _task_managers(self, query: Query) -> Json:
        slots, tasks = self._gateway.slots(), self._tasks()
        return {
            "taskmanagers": [
                task_manager(each, tasks[each.task_manager], slots.now_ms) for each in slots.by_task_manager
            ]
        }

    def _task_manager(self, query: Query) -> Json:
        own, now_ms = task_manager_of(query, self._gateway)
        return task_manager_details(own, self._tasks()[own.task_manager], now_ms)

    def _tasks(self) -> Counter[TaskManagerId | None]:
        """The number of tasks on each TaskManager: a slot holds several, of a job that waits for a restart none."""
        return Counter(subtask.current.task_manager for subtask in running_subtasks(self._gateway))

    def _configuration(self, query: Query) -> list[Json]:
        return cluster_configuration(FLINK_VERSION, self._gateway.slots())

    def _environment(self, query: Query) -> Json:
        return environment(process_environment())


class ShutdownHandlers:
    """End the cluster."""

    def __init__(self, gateway: RestfulGateway) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/cluster", self._shut_down, "End the cluster, and with it what runs on it", "DELETE")

    def _shut_down(self, query: Query) -> Json:
        self._gateway.shut_down()
        return {}


def task_manager_of(query: Query, gateway: JobInfo) -> tuple[TaskManagerInfo, int]:
    """The TaskManager that a path names, and the time of that. Raises `RestError` where there is none."""
    slots, name = gateway.slots(), query.path["id"]
    found = next((each for each in slots.by_task_manager if each.task_manager == name), None)
    if found is None:
        raise RestError(404, f"there is no TaskManager {name!r}")
    return found, slots.now_ms
