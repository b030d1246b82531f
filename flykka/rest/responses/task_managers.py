"""TaskManagers (Flink's TaskManagerInfo). They live in the driver's process: memory is the driver's, and Spark's."""

from __future__ import annotations

import os

from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.rest.responses.io_metrics import Json

_RESOURCES = ("taskHeapMemory", "taskOffHeapMemory", "managedMemory", "networkMemory")
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
    """A TaskManager in the list, as it is known now, with the number of its tasks."""
    resource = {"cpuCores": 0.0, **dict.fromkeys(_RESOURCES, 0), "extendedResources": {}}
    return {
        "id": own.task_manager,
        "path": f"/user/{own.task_manager}",
        "dataPort": 0,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": now_ms,
        "slotsNumber": own.slots,
        "freeSlots": own.free,
        "assignedTasks": tasks,
        "totalResource": resource,
        "freeResource": resource,
        "hardware": {
            "cpuCores": os.cpu_count() or 1,
            "physicalMemory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            # Flink's size of the JVM's heap; rows and state lie in Spark.
            "freeMemory": 0,
            "managedMemory": 0,
        },
        "memoryConfiguration": dict.fromkeys(_MEMORY, 0),
    }


def task_manager_details(own: TaskManagerInfo, tasks: int, now_ms: int) -> Json:
    """A TaskManager with its memory."""
    return {
        **task_manager(own, tasks, now_ms),
        "metrics": {**dict.fromkeys(_METRICS, 0), "garbageCollectors": []},
        "allocatedSlots": [],
    }
