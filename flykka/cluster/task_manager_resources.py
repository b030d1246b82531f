"""The resources that each TaskManager of a cluster declares: processor, and a budget of memory in three parts.

Flink's `taskmanager.cpu.cores`, `taskmanager.memory.flink.size`, `managed.size` and `network`. What no declaration says
never runs out.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.slots.resource_profile import shown
from flykka.messages.graph.job_graph import ResourceSpec

MANAGED_FRACTION = 0.4
NETWORK_FRACTION = 0.1
"""Parts of the memory that are declared for state and for batches on their way where nobody says more (Flink's)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerResources:
    """Thousandths of a core, and MiB: of memory in all, of which state has `managed_mib` and batches `network_mib`.

    0 is not declared.
    """

    cpu_millis: int = 0
    memory_mib: int = 0
    managed_mib: int = 0
    network_mib: int = 0

    @property
    def slots_total(self) -> ResourceSpec:
        """The resources that slots share: those of the network belong to none."""
        heap_mib = self.memory_mib - self.managed_mib - self.network_mib if self.memory_mib else 0
        return ResourceSpec(cpu_millis=self.cpu_millis, heap_mib=heap_mib, managed_mib=self.managed_mib)

    def __str__(self) -> str:
        """The budget in words; nothing where nothing is declared."""
        if not self.memory_mib:
            return shown(self.slots_total) if self != TaskManagerResources() else ""
        rest = self.memory_mib - self.managed_mib - self.network_mib
        cores = f"{shown(ResourceSpec(cpu_millis=self.cpu_millis))}, " if self.cpu_millis else ""
        parts = f"{self.managed_mib} managed, {self.network_mib} network, {rest} for the rest"
        return f"{cores}{self.memory_mib} MiB of memory ({parts})"
