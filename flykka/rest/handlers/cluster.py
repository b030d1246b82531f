"""The cluster: numbers of jobs by status, TaskManagers, the JobManager, and the configuration of the page."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version

from flykka.actors.execution_graph_info_store.actor import process_environment
from flykka.actors.machines.slots.resource_profile import MIB
from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.diagnosis.job_queries import ClusterQueries, JobQueries
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.messages.monitoring.job_details import SubtaskDetails
from flykka.messages.wire.ids import TaskManagerId
from flykka.metrics.measured import running
from flykka.rest.endpoint import Endpoint, Query
from flykka.rest.errors import RestError
from flykka.rest.responses.configuration import cluster_configuration, environment
from flykka.rest.responses.io_metrics import Json

FLINK_VERSION = "2.3.0"

REFRESH_MS = 3_000


class ClusterHandlers:
    def __init__(self, gateway: ClusterQueries) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        yield Endpoint("/config", self._config, "The configuration of the web page")
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
        slots, jobs = self._gateway.slots(), self._gateway.jobs()
        states = [job.status for job in jobs]
        return {
            "taskmanagers": len(slots.task_managers),
            "slots-total": slots.slots,
            "slots-available": slots.free,
            "jobs-running": len(running(jobs)),
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
        """Count the tasks on each TaskManager. A slot may contain several tasks, or none while its job restarts."""
        return Counter(subtask.current.task_manager for subtask in running_subtasks(self._gateway))

    def _configuration(self, query: Query) -> list[Json]:
        return cluster_configuration(FLINK_VERSION, self._gateway.slots())

    def _environment(self, query: Query) -> Json:
        return environment(process_environment())


def task_manager_of(query: Query, gateway: ClusterQueries) -> tuple[TaskManagerInfo, int]:
    """Return the TaskManager in the path, and the current time."""
    slots, name = gateway.slots(), query.path["id"]
    task_manager = next((each for each in slots.by_task_manager if each.task_manager == name), None)
    if task_manager is None:
        raise RestError(404, f"there is no TaskManager {name!r}")
    return task_manager, slots.now_ms


def running_subtasks(gateway: JobQueries) -> Iterator[SubtaskDetails]:
    for job in running(gateway.jobs()):
        for vertex in gateway.details(job.job_id).vertices:
            for subtask in gateway.vertex(job.job_id, vertex.vertex_id)[1]:
                if subtask.current.state not in EXECUTION_TERMINAL:
                    yield subtask


_MEMORY = (
    "frameworkHeap",
    "taskHeap",
    "frameworkOffHeap",
    "taskOffHeap",
    "networkMemory",
    "managedMemory",
    "jvmMetaspace",
    "jvmOverhead",
    "totalFlinkMemory",
    "totalProcessMemory",
)
_METRICS = tuple(
    [f"{kind}{what}" for kind in ("heap", "nonHeap") for what in ("Used", "Committed", "Max")]
    + [f"{kind}{what}" for kind in ("direct", "mapped") for what in ("Count", "Used", "Max")]
    + [f"nettyShuffleMemory{what}{state}" for what in ("Segments", "") for state in ("Available", "Used", "Total")]
)


def task_manager(own: TaskManagerInfo, tasks: int, now_ms: int) -> Json:
    return {
        "id": own.task_manager,
        "path": f"/user/{own.task_manager}",
        "dataPort": 0,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": now_ms,
        "slotsNumber": own.slots,
        "freeSlots": own.free,
        "assignedTasks": tasks,
        "totalResource": _resource(own.total, own),
        "freeResource": _resource(own.remaining, own),
        "hardware": {
            "cpuCores": os.cpu_count() or 1,
            "physicalMemory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            # Flink reports the size of the JVM heap. Here rows and state are in Spark.
            "freeMemory": 0,
            "managedMemory": own.total.managed_mib * MIB,
        },
        "memoryConfiguration": {
            **dict.fromkeys(_MEMORY, 0),
            "taskHeap": own.total.heap_mib * MIB,
            "managedMemory": own.total.managed_mib * MIB,
            "networkMemory": own.network_memory_bytes,
            "totalFlinkMemory": (own.total.heap_mib + own.total.managed_mib) * MIB + own.network_memory_bytes,
        },
    }


def _resource(spec: ResourceSpec, own: TaskManagerInfo) -> Json:
    """Format Flink's ResourceProfileInfo, with memory in MiB. Network memory is not divided by slot."""
    return {
        "cpuCores": spec.cpu_millis / 1_000,
        "taskHeapMemory": spec.heap_mib,
        "taskOffHeapMemory": 0,
        "managedMemory": spec.managed_mib,
        "networkMemory": own.network_memory_bytes // MIB,
        "extendedResources": {},
    }


def task_manager_details(own: TaskManagerInfo, tasks: int, now_ms: int) -> Json:
    return {
        **task_manager(own, tasks, now_ms),
        "metrics": {**dict.fromkeys(_METRICS, 0), "garbageCollectors": []},
        "allocatedSlots": [],
    }
