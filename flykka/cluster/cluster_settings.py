"""The sizes and timeouts of a cluster in this process."""

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
"""Default fractions of the declared memory for state and for batches in flight, as in Flink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerResources:
    """The resources that each TaskManager declares. 0 means undeclared and therefore unlimited.

    The units are thousandths of a core and MiB: `memory_mib` in total, `managed_mib` of it for state and `network_mib`
    for batches (Flink's `taskmanager.cpu.cores`, `taskmanager.memory.flink.size`, `managed.size` and `network`).
    """

    cpu_millis: int = 0
    memory_mib: int = 0
    managed_mib: int = 0
    network_mib: int = 0

    @property
    def slots_total(self) -> ResourceSpec:
        """The resources that slots share, without the network memory."""
        heap_mib = self.memory_mib - self.managed_mib - self.network_mib if self.memory_mib else 0
        return ResourceSpec(cpu_millis=self.cpu_millis, heap_mib=heap_mib, managed_mib=self.managed_mib)

    def __str__(self) -> str:
        if not self.memory_mib:
            return resources_text(self.slots_total) if self != TaskManagerResources() else ""
        rest = self.memory_mib - self.managed_mib - self.network_mib
        cores = f"{resources_text(ResourceSpec(cpu_millis=self.cpu_millis))}, " if self.cpu_millis else ""
        parts = f"{self.managed_mib} managed, {self.network_mib} network, {rest} other"
        return f"{cores}{self.memory_mib} MiB of memory ({parts})"


HEARTBEAT_INTERVAL_MS = 1_000
HEARTBEAT_TIMEOUT_MS = 10_000
"""Shorter than Flink's 10 s and 50 s, because no network delays heartbeats within one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The sizes and timeouts of a cluster.

    If `slots_per_task_manager` is None, there are as many slots as needed. Tasks wait for slots at most
    `slot_request_timeout_ms`; meanwhile up to `max_task_managers` may be started. Details of the last
    `job_store_capacity` ended jobs are kept.

    `record` is the file, or the recorder, to which every turn is written. Without `record`, the last
    `flight_recorder_turns` are kept in memory, and written when a job fails (0: none). `network` limits the batches in
    flight of each TaskManager. `resources` are shared equally by a TaskManager's slots; slots of other sizes are
    allocated from them. `task_cancellation`, `restart_strategy` and `failover_strategy` apply to jobs that do not set
    them; if `restart_strategy` is None, Flink's default applies. `high_availability` is the store that outlives the
    process; by default everything is kept in memory. `owner_lease_ms` is how long the ownership of a folder lasts after
    its last renewal, if locks work on one machine only. `rest_address` is the URL of the cluster's REST interface, if
    any.
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
        """Return settings with enough slots for a job, unless the number of slots is set."""
        if self.slots_per_task_manager is not None:
            return self
        return replace(self, slots_per_task_manager=-(-needed // self.task_managers))

    @property
    def all_slots(self) -> int | None:
        """The number of slots of all TaskManagers, if known."""
        return None if self.slots_per_task_manager is None else self.task_managers * self.slots_per_task_manager
