"""Props of the components of a cluster: values, which can be recorded, and made again at a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.actors.data_plane import DataPlane
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.actors.job_manager.actor import JobManager
from flykka.actors.machines.read_model.execution_graph_info_store import JOB_STORE_CAPACITY
from flykka.actors.machines.slots.slot_manager import REQUEST_TIMEOUT_MS
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.actors.resource_manager.actor import ResourceManager, TaskManagerProps
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.props import Props


@trace_tag("actor.configured_resource_manager")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredResourceManager:
    """The TaskManagers, each made by `task_manager_props`, and the timeout after which silence is taken for death."""

    workers: WorkerCounts
    task_manager_props: TaskManagerProps
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    slot_request_timeout_ms: int = REQUEST_TIMEOUT_MS

    def __call__(self) -> Props:
        return Props(
            ResourceManager,
            self.workers,
            self.task_manager_props,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            heartbeat_timeout_ms=self.heartbeat_timeout_ms,
            slot_request_timeout_ms=self.slot_request_timeout_ms,
        )


@trace_tag("actor.configured_job_manager")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredJobManager:
    """Beside one data plane, and with what outlives each of them."""

    data_plane: DataPlane
    high_availability: HighAvailabilityServices = field(default_factory=EmbeddedHaServices)
    job_store_capacity: int = JOB_STORE_CAPACITY

    def __call__(self, resource_manager: Ref) -> Props:
        """The props of this one, and of each that comes after it; its JobMasters register at `resource_manager`."""
        props = Props(JobManager, resource_manager, self.data_plane, self.high_availability, self.job_store_capacity)
        return props.with_dispatcher("pinned", may_block=False)
