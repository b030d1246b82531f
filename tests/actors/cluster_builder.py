"""Starts actors of a cluster, or probes in their place, on a seeded system in virtual time."""

from __future__ import annotations

from typing import Any

from flykka.actors.cluster.entrypoint import ClusterEntrypoint
from flykka.actors.data_plane import DataPlane
from flykka.actors.job_manager.actor import JobManager
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.actors.resource_manager.actor import ResourceManager, TaskManagerProps
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.wire.ids import LeaderSessionId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.peer import Probe

RESOURCE_MANAGER_SESSION = LeaderSessionId("resource-manager-session")
INTERVAL_MS = 10
TIMEOUT_MS = 50
"""The heartbeat timeout of a ResourceManager without other components, in milliseconds."""


class ClusterBuilder:
    """Each method adds one actor to a cluster, and then runs the system until it is idle."""

    def __init__(self, system: SeededSystem) -> None:
        self.system = system

    def probe(self, name: str, *sessions: LeaderSessionId) -> Probe:
        return Probe(self.system, name, *sessions)

    def start_entrypoint(self, resource_manager: Any, job_manager: Any) -> ActorRef:
        return self.start(Props(ClusterEntrypoint, resource_manager, job_manager), "cluster-entrypoint")

    def start_resource_manager(self, task_manager_props: TaskManagerProps, *, task_managers: int = 0) -> ActorRef:
        props = Props(
            ResourceManager,
            WorkerCounts(configured=task_managers),
            task_manager_props,
            heartbeat_interval_ms=INTERVAL_MS,
            heartbeat_timeout_ms=TIMEOUT_MS,
        )
        return self.start(props, "resource-manager")

    def start_job_manager(self, resource_manager: Ref, data_plane: DataPlane, *others: Any) -> ActorRef:
        return self.start(Props(JobManager, resource_manager, data_plane, *others), "job-manager")

    def start_task_manager(
        self,
        resource_manager: Ref,
        data_plane: DataPlane,
        *,
        name: str,
        slots: int,
        kind: type[TaskManager] = TaskManager,
        **settings: Any,
    ) -> ActorRef:
        return self.start(Props(kind, TaskManagerId(name), slots, resource_manager, data_plane, **settings), name)

    def start(self, props: Props, name: str) -> ActorRef:
        ref = self.system.spawn(props, name)
        self.system.run_until_idle()
        return ref

    def tell(self, receiver: Ref, message: Message) -> None:
        receiver.tell(message)
        self.system.run_until_idle()

    def find(self, name: str) -> ActorRef:
        """Return the living actor of this name, or at a path such as `job-master/checkpoint-coordinator`."""
        found = self.system.find(f"/user/{name}")
        assert found is not None, f"no {name} among {self.living()}"
        return found

    def kill(self, name: str) -> None:
        self.system.kill(self.find(name))
        self.system.run_until_idle()

    def is_alive(self, name: str) -> bool:
        return self.system.find(f"/user/{name}") is not None

    def living(self) -> list[str]:
        return [path.removeprefix("/user/") for path in self.system.cells.living_paths() if path.count("/") == 2]

    def task_managers(self) -> list[str]:
        return sorted(name for name in self.living() if name.startswith("task-manager-"))
