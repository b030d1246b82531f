"""TaskManagers (Flink's TaskManagerInfo). They live in the driver's process, so that memory is as they declare it."""

from __future__ import annotations

import os

from flykka.actors.machines.slots.resource_profile import MIB
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.rest.responses.io_metrics import Json

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
            # Flink's size of the JVM's heap; rows and state lie in Spark.
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
    """Flink's ResourceProfileInfo, with memory in MiB; slots have no part of the network's."""
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
