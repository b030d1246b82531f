"""The sizes and times of a cluster in this process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.actors.machines.read_model.execution_graph_info_store import JOB_STORE_CAPACITY
from flykka.actors.machines.slots.resource_profile import resources_text
from flykka.actors.machines.slots.slot_manager import REQUEST_TIMEOUT_MS
from flykka.actors.ownership.ownership import LEASE_MS
from flykka.cluster.high_availability.stores import StoreSettings
from flykka.messages.graph.job_graph import (
    FailoverStrategyKind,
    ResourceSpec,
    RestartStrategyConfiguration,
    TaskCancellationSettings,
)
from flykka.runtime.trace.record.flight_recorder import DEFAULT_TURNS
from flykka.runtime.trace.record.recorder import TraceRecorder

MANAGED_FRACTION = 0.4
NETWORK_FRACTION = 0.1
"""Parts of the memory that are declared for state and for batches on their way where nobody says more (Flink's)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerResources:
    """The resources that each TaskManager declares; what is not declared, with 0, never runs out.

    Thousandths of a core, and MiB: of memory in all, of which state has `managed_mib` and batches `network_mib`
    (Flink's `taskmanager.cpu.cores`, `taskmanager.memory.flink.size`, `managed.size` and `network`).
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
            return resources_text(self.slots_total) if self != TaskManagerResources() else ""
        rest = self.memory_mib - self.managed_mib - self.network_mib
        cores = f"{resources_text(ResourceSpec(cpu_millis=self.cpu_millis))}, " if self.cpu_millis else ""
        parts = f"{self.managed_mib} managed, {self.network_mib} network, {rest} for the rest"
        return f"{cores}{self.memory_mib} MiB of memory ({parts})"


HEARTBEAT_INTERVAL_MS = 1_000
HEARTBEAT_TIMEOUT_MS = 10_000
"""Short beside Flink's 10 s and 50 s: within one process silence means death sooner than it does on a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Sizes of a cluster, and how soon silence is taken for death.

    `slots_per_task_manager` of None: what is needed. While tasks wait for slots there may be up to
    `max_task_managers`; they wait for `slot_request_timeout_ms` at most. Of jobs that have ended the last
    `job_store_capacity` can be asked about.

    `record` is the file in which every turn is written down, or a recorder that was told more than that; without one
    the last `flight_recorder_turns` are kept in memory, to be written when a job fails (0: none). `network` is what
    each TaskManager may hold of batches on their way, `resources` what it has for its slots, of which each has an equal
    share; slots of other sizes are cut of them. `task_cancellation` is how long cancelled tasks may take to end
    where their job does not say. `restart_strategy` and `failover_strategy` are those of jobs that set none; without
    the former it is as Flink has it. `high_availability` is the store that outlives the process; without one what is
    kept is kept in memory. `owner_lease_ms` is how long the owner of a folder is believed after its last renewal, where
    locks hold for one machine only. `rest_address` is the URL at which the cluster will be asked, if it is.
    """

    task_managers: int = 1
    slots_per_task_manager: int | None = None
    max_task_managers: int | None = None
    slot_request_timeout_ms: int = REQUEST_TIMEOUT_MS
    job_store_capacity: int = JOB_STORE_CAPACITY
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    heartbeat_timeout_ms: int = HEARTBEAT_TIMEOUT_MS
    record: str | TraceRecorder | None = None
    flight_recorder_turns: int = DEFAULT_TURNS
    network: NetworkSettings = field(default_factory=NetworkSettings)
    resources: TaskManagerResources = field(default_factory=TaskManagerResources)
    task_cancellation: TaskCancellationSettings = field(default_factory=TaskCancellationSettings)
    restart_strategy: RestartStrategyConfiguration | None = None
    failover_strategy: FailoverStrategyKind = FailoverStrategyKind.REGION
    high_availability: StoreSettings | None = None
    owner_lease_ms: int = LEASE_MS
    rest_address: str | None = None

    def with_slots_for(self, needed: int) -> Self:
        """The same settings with enough slots, unless their number was given."""
        if self.slots_per_task_manager is not None:
            return self
        return replace(self, slots_per_task_manager=-(-needed // self.task_managers))

    @property
    def all_slots(self) -> int | None:
        """The slots of all TaskManagers, where their number is known."""
        return None if self.slots_per_task_manager is None else self.task_managers * self.slots_per_task_manager
