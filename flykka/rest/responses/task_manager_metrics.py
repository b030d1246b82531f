"""Metrics of a TaskManager: what is its own. Memory, threads and collectors are those of the process, which it shares.

Flink's names of network memory mean the same here: a segment is a network buffer, which is room for one batch, and
in use while a batch waits in it. The bytes of batches are bounded, but not counted by TaskManager.
"""

from __future__ import annotations

from collections.abc import Sequence

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.messages.monitoring.job_details import SubtaskDetails

_NETWORK = "Status.Shuffle.Netty"


def task_manager_metrics(
    own: TaskManagerInfo, network: NetworkSettings, running: Sequence[SubtaskDetails]
) -> dict[str, float]:
    """Its slots, its tasks and its network buffers: of those the number where there is a limit."""
    used = sum(each.current.metrics.input_queue_length + each.current.metrics.output_queue_length for each in running)
    found: dict[str, float] = {
        "taskSlotsTotal": own.slots,
        "taskSlotsAvailable": own.free,
        "numRunningTasks": len(running),
        f"{_NETWORK}.UsedMemorySegments": used,
    }
    if network.network_buffers is not None:
        found[f"{_NETWORK}.TotalMemorySegments"] = network.network_buffers
        found[f"{_NETWORK}.AvailableMemorySegments"] = max(0, network.network_buffers - used)
    if network.network_memory_bytes is not None:
        found[f"{_NETWORK}.TotalMemory"] = network.network_memory_bytes
    return found
