"""The ClusterEntrypoint: starts the ResourceManager and the JobManager, and replaces them when they end (as in Flink).

Both are top-level actors whose names never change, so that other actors find a replacement at the same path. A new
ResourceManager is rebuilt from the registrations of other actors; a new JobManager recovers from its store. If one of
the two ends repeatedly, the cluster shuts down and reports why. Their props are values, so that a trace can record them
and a replay can create them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from flykka.actors.data_plane import DataPlane
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.actors.job_manager.actor import JobManager
from flykka.actors.machines.read_model.execution_graph_info_store import JOB_STORE_CAPACITY
from flykka.actors.machines.restart.component_restarts import MAX_ENDS, ComponentRestarts
from flykka.actors.machines.slots.slot_manager import REQUEST_TIMEOUT_MS
from flykka.actors.machines.slots.task_manager_tracker import NAME, WorkerCounts
from flykka.actors.resource_manager.actor import ResourceManager, TaskManagerProps
from flykka.messages.control import cluster
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.errors import SpawnRefusedError
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated

_log = logging.getLogger(__name__)

RESOURCE_MANAGER = "resource-manager"
JOB_MANAGER = "job-manager"

_SPOKEN = {RESOURCE_MANAGER: "ResourceManager", JOB_MANAGER: "JobManager"}


@trace_tag("actor.cluster_entrypoint")
class ClusterEntrypoint(Actor):
    def __init__(self, resource_manager: Callable[[], Props], job_manager: Callable[[Ref], Props]) -> None:
        self._resource_manager_props = resource_manager
        self._job_manager_props = job_manager
        self._restarts = ComponentRestarts()
        self._components: dict[str, Ref] = {}

    def pre_start(self) -> None:
        self._start(RESOURCE_MANAGER)
        self._start(JOB_MANAGER)

    def handle_message(self, message: Message) -> None:
        match message:
            case cluster.RequestClusterComponents(reply_to=reply_to):
                components = self._components
                reply_to.tell(
                    cluster.ClusterComponents(
                        resource_manager=components[RESOURCE_MANAGER], job_manager=components[JOB_MANAGER]
                    )
                )
            case Terminated(ref=ref):
                name = next(name for name, components in self._components.items() if components == ref)
                _log.warning("the %s ended unexpectedly", _SPOKEN[name])
                self._restart(name)
            case cluster.StartComponentDue(component=name):
                self._start(name)
            case _:
                self.context.unhandled(message)

    def _start(self, name: str) -> None:
        if name == RESOURCE_MANAGER:
            props = self._resource_manager_props()
        else:
            props = self._job_manager_props(self._components[RESOURCE_MANAGER])
        try:
            ref = self.context.spawn_top_level(props, name)
        except SpawnRefusedError:
            return  # The cluster is being shut down.
        self._components[name] = ref
        self.context.watch(ref)
        self._restarts.started(name, self.context.now())

    def _restart(self, name: str) -> None:
        delay_ms = self._restarts.ended(name, self.context.now())
        if delay_ms is None:
            self._give_up(name)
        elif delay_ms == 0:
            self._start(name)
        else:
            self.context.timers.start_once(f"start-{name}", delay_ms, cluster.StartComponentDue(component=name))

    def _give_up(self, name: str) -> None:
        text = f"the {_SPOKEN[name]} has ended {MAX_ENDS} times in a row, each time soon after its start: see the log"
        cause = SerializedThrowable(type_name="ClusterFailedError", message=text)
        _log.error("the cluster ends: %s", text)
        self.context.publish(cluster.ClusterFailed(cause=cause))
        for ref in self._components.values():
            self.context.unwatch(ref)
            self.context.stop(ref)
        for task_manager in self.context.actor_selection(f"../{NAME}*").resolve():
            self.context.stop(task_manager)
        self.context.stop()


@trace_tag("actor.configured_resource_manager")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredResourceManager:
    """Creates the props of a ResourceManager. `task_manager_props` creates those of its TaskManagers.

    A TaskManager counts as dead after `heartbeat_timeout_ms` without a heartbeat.
    """

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
    """Creates the props of each JobManager. The data plane and the high-availability services outlive a JobManager."""

    data_plane: DataPlane
    high_availability: HighAvailabilityServices = field(default_factory=EmbeddedHaServices)
    job_store_capacity: int = JOB_STORE_CAPACITY

    def __call__(self, resource_manager: Ref) -> Props:
        props = Props(JobManager, resource_manager, self.data_plane, self.high_availability, self.job_store_capacity)
        return props.with_dispatcher("pinned", may_block=False)
