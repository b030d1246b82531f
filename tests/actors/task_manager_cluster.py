"""A TaskManager between a ResourceManager and a JobMaster, both controlled by the test."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    HeartbeatRequest,
    RegisterTaskManager,
)
from flykka.messages.control.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    OfferSlots,
)
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.task import (
    ExecutionState,
    SubmitTask,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import (
    AllocationId,
    JobId,
    LeaderSessionId,
    TaskManagerId,
    slot_id,
)
from flykka.messages.wire.message import Message
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import INTERVAL_MS, RESOURCE_MANAGER_SESSION, TIMEOUT_MS, ClusterBuilder
from tests.actors.data_plane import NoData
from tests.actors.machines.scheduling.descriptors import descriptor

HERE = TaskManagerId("task-manager-1")
JOB = JobId("job-1")
JM_SESSION = LeaderSessionId("job-master-session")


class TaskManagerCluster(ClusterBuilder):
    def __init__(
        self,
        system: SeededSystem,
        kind: type[TaskManager] = TaskManager,
        network: NetworkSettings | None = None,
        *,
        data_plane: NoData | None = None,
        task_cancellation: TaskCancellationSettings | None = None,
        slots: int = 2,
    ) -> None:
        super().__init__(system)
        self.resource_manager = self.probe("resource-manager", RESOURCE_MANAGER_SESSION)
        self.job_master = self.probe("job-master", JM_SESSION)
        self.task_manager = self.start_task_manager(
            self.resource_manager.ref,
            data_plane or NoData(),
            name=HERE,
            slots=slots,
            kind=kind,
            network=network,
            task_cancellation=task_cancellation,
        )

    def acknowledge(self) -> RegisterTaskManager:
        registration = self.resource_manager.received(RegisterTaskManager)[-1]
        answer = AcknowledgeRegistration(
            leader_session_id=RESOURCE_MANAGER_SESSION,
            heartbeat_interval_ms=INTERVAL_MS,
            heartbeat_timeout_ms=TIMEOUT_MS,
        )
        self.resource_manager.send(self.task_manager, answer)
        return registration

    def let_the_resource_manager_ask_for(self, ms: int) -> None:
        for _ in range(ms // INTERVAL_MS):
            self.system.advance(INTERVAL_MS)
            request = HeartbeatRequest(origin=self.resource_manager.ref)
            self.resource_manager.send(self.task_manager, request, RESOURCE_MANAGER_SESSION)

    def allocate(self, allocation: str = "a", index: int = 0) -> None:
        request = AllocateSlot(
            slot_id=slot_id(HERE, index),
            job_id=JOB,
            allocation_id=AllocationId(allocation),
            job_master=self.job_master.ref,
            job_leader_session_id=JM_SESSION,
        )
        self.resource_manager.send(self.task_manager, request, RESOURCE_MANAGER_SESSION)

    def send(self, message: Message, session: LeaderSessionId = JM_SESSION) -> None:
        self.job_master.send(self.task_manager, message, session)

    def welcome(self) -> None:
        self.job_master.expect(RegisterTaskManager)
        answer = AcknowledgeRegistration(
            leader_session_id=JM_SESSION,
            job_id=JOB,
            heartbeat_interval_ms=INTERVAL_MS,
            heartbeat_timeout_ms=TIMEOUT_MS,
        )
        self.send(answer)

    def submit(
        self, attempt: str = "x", allocation: str = "a", cancellation: TaskCancellationSettings | None = None
    ) -> None:
        deployed = replace(
            descriptor(attempt, allocation=allocation), task_cancellation=cancellation or TaskCancellationSettings()
        )
        self.send(SubmitTask(descriptor=deployed, job_master=self.job_master.ref))

    def tasks(self) -> list[str]:
        prefix = f"/user/{HERE}/"
        below = [path.removeprefix(prefix) for path in self.system.cells.living_paths() if path.startswith(prefix)]
        return [path for path in below if "/" not in path]

    def states(self) -> list[tuple[str, ExecutionState]]:
        heard = self.job_master.received(UpdateTaskExecutionState)
        return [(update.state.attempt, update.state.state) for update in heard]


def connect(cluster: TaskManagerCluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a")
    cluster.welcome()
    cluster.job_master.expect(OfferSlots)
    cluster.send(AcceptSlots(job_id=JOB, accepted=(AllocationId("a"),), offer=1))
    cluster.resource_manager.expect(AllocateSlotConfirmed)
