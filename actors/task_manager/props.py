"""Props of TaskManagers: a value, which can be recorded, and made again at a replay."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.data_plane import DataPlane
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.graph.job_graph import ResourceSpec, TaskCancellationSettings
from flykka.messages.wire.ids import TaskManagerId
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.props import Props


@trace_tag("actor.configured_task_managers")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTaskManagers:
    """All TaskManagers of a cluster: of so many slots of one size each, beside one data plane.

    With `total` resources they cut slots of other sizes of what is not used.
    """

    slots: int
    data_plane: DataPlane
    slot_size: ResourceSpec = UNSPECIFIED
    total: ResourceSpec = UNSPECIFIED
    network: NetworkSettings | None = None
    task_cancellation: TaskCancellationSettings | None = None

    def __call__(self, task_manager_id: TaskManagerId, resource_manager: Ref) -> Props:
        """The props of the one with this id, which is to register at `resource_manager`."""
        props = Props(
            TaskManager,
            task_manager_id,
            self.slots,
            resource_manager,
            self.data_plane,
            slot_size=self.slot_size,
            total=self.total,
            network=self.network,
            task_cancellation=self.task_cancellation,
        )
        return props.with_dispatcher("pinned", may_block=False)
