"""Options for the resources of TaskManagers and operators: cores and memory sizes."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.cluster.cluster_settings import MANAGED_FRACTION, NETWORK_FRACTION, TaskManagerResources
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.runtime.memory_size import MemorySize, positive_size_bytes

_MIB = 1 << 20
_BYTES_PER_BUFFER = 1 << 20
"""Network bytes per buffer, if only the memory is declared. Flink's buffers have 32 KiB, but need not hold a batch."""


def resource_spec(
    cpu: float | None, memory: MemorySize | None, managed_memory: MemorySize | None, what: str
) -> ResourceSpec:
    return ResourceSpec(
        cpu_millis=_millis(cpu, f"cpu of {what}"),
        heap_mib=_mib(memory, f"memory of {what}"),
        managed_mib=_mib(managed_memory, f"managed memory of {what}"),
    )


def declared_resources(
    cpu: float | None,
    memory: MemorySize | None,
    managed_memory: MemorySize | None,
    network: NetworkSettings,
    slots: int | None,
) -> tuple[TaskManagerResources, NetworkSettings]:
    """Return the resources of each TaskManager, and the network settings derived from them.

    Raises:
        ProgramError: a value is not a size, the parts of the memory exceed the total, or no memory remains for the
            slots.
    """
    memory_mib = _mib(memory, "memory of a TaskManager")
    managed_mib = _mib(managed_memory, "managed memory of a TaskManager") or int(memory_mib * MANAGED_FRACTION)
    network_mib = -(-(network.network_memory_bytes or 0) // _MIB)
    if memory_mib and not network_mib:
        network_mib = max(int(memory_mib * NETWORK_FRACTION), 1)
        network = replace(
            network,
            network_memory_bytes=network_mib * _MIB,
            network_buffers=network.network_buffers or network_mib * _MIB // _BYTES_PER_BUFFER,
        )
    resources = TaskManagerResources(
        cpu_millis=_millis(cpu, "cpu of a TaskManager"),
        memory_mib=memory_mib,
        managed_mib=managed_mib,
        network_mib=network_mib if memory_mib else 0,
    )
    if memory_mib and resources.slots_total.heap_mib < (slots or 1):
        raise ProgramError(
            f"the memory of a TaskManager is {memory_mib} MiB, of which {managed_mib} are managed and {network_mib}"
            f" are for the network: no memory is left for {slots or 1} slots"
        )
    return resources, network


def _millis(cpu: float | None, what: str) -> int:
    if cpu is None:
        return 0
    if isinstance(cpu, bool) or not isinstance(cpu, int | float) or not 0.001 <= cpu < 1_000_000:
        raise ProgramError(f"the {what} must be a number of cores from 0.001, not {cpu!r}")
    return round(cpu * 1000)


def _mib(size: MemorySize | None, what: str) -> int:
    if size is None:
        return 0
    try:
        return -(-positive_size_bytes(size, what) // _MIB)
    except ValueError as unreadable:
        raise ProgramError(str(unreadable)) from None
