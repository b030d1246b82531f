"""A JobManager whose ResourceManager, TaskManagers and client are probes. The JobManager, its JobMaster and the
checkpoint coordinator are real, on a seeded system in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.actors.machines.read_model.execution_graph_info_store import JOB_STORE_CAPACITY
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.control.job import (
    CancelJob,
    JobStatus,
    JobStatusChanged,
    ListeningBehaviour,
    StoppingFailure,
    SubmitJob,
)
from flykka.messages.control.registration import JobMasterRegistrationSuccess, RegisterJobMaster, RegisterTaskManager
from flykka.messages.control.slots import OfferSlots, RequestSlot, SlotOffer
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobGraph,
    JobVertex,
    Operator,
    RestartStrategyConfiguration,
)
from flykka.messages.tasks.source import FileSplit, RequestSplits, SplitsDiscovered
from flykka.messages.tasks.task import (
    ExecutionState,
    SubmitTask,
    TaskDeploymentDescriptor,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import (
    ExecutionAttemptId,
    JobId,
    JobVertexId,
    LeaderSessionId,
    OperatorId,
    SlotId,
    SplitId,
    TaskManagerId,
)
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.leader_session import Gateway
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import RESOURCE_MANAGER_SESSION, ClusterBuilder
from tests.actors.data_plane import NoData
from tests.actors.machines.graph.graphs import JOB, graph_of, vertex
from tests.actors.peer import Probe, Utter

M = TypeVar("M", bound=Message)


class ScriptedDiscovery:
    """Discovers one split at a time, or fails as often as configured."""

    interval_ms: int | None = 100
    changed: Callable[[], bool] | None = None

    def __init__(self, operator_id: OperatorId, files: int, files_left: int = 0) -> None:
        self.operator_id = operator_id
        self.files = files
        self.files_left = files_left
        self.failures_left = 0

    def discover(self, position: bytes) -> SplitsDiscovered:
        if self.failures_left > 0:
            self.failures_left -= 1
            raise OSError("the folder is gone")
        found = int(position or b"0")
        fresh = [SplitId(f"file-{number}") for number in range(found, self.files)]
        return SplitsDiscovered(
            operator_id=self.operator_id,
            splits=tuple(map(file_split, fresh[:1])),
            finished=len(fresh) <= 1,
            begun_at=position,
            position=b"%d" % (found + 1),
            files_left=self.files_left,
        )


class ScriptedDataPlane(NoData):
    def __init__(self, *, files: int = 0) -> None:
        super().__init__()
        self.files = files
        self.files_left = 0
        self.hooks: list[MasterTriggerRestoreHook] = []
        self.refusal: Exception | None = None
        self.cannot_release: Exception | None = None
        self.ended: list[JobId] = []
        self.finalized: list[JobVertexId] = []
        self.finalization_failures: list[Exception] = []
        self.keeps_staged: list[bool] = []
        self.discoveries: dict[OperatorId, ScriptedDiscovery] = {}

    def check(self, job_graph: JobGraph) -> None:
        if self.refusal is not None:
            raise self.refusal

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        return self.hooks

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        raise AssertionError("the tasks of these tests are never made")

    def split_discovery(self, job_id: JobId, operator: Operator) -> ScriptedDiscovery:
        discovery = ScriptedDiscovery(operator.operator_id, self.files, self.files_left)
        return self.discoveries.setdefault(operator.operator_id, discovery)

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        self.finalized += [vertex.vertex_id for vertex in vertices]
        if self.finalization_failures:
            raise self.finalization_failures.pop(0)

    def end_attempts(self, job_id: JobId) -> None:
        self.ended.append(job_id)

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None:
        super().release_job(job_id)
        self.keeps_staged.append(keep_staged)
        if self.cannot_release is not None:
            raise self.cannot_release


TASKS = (ExecutionAttemptId("job_source_0_0"), ExecutionAttemptId("job_sink_0_0"))


class JobCluster(ClusterBuilder):
    """Tests send messages from outside all actors, and then the system runs until it is idle."""

    def __init__(
        self, system: SeededSystem, folder: Path, *, files: int = 0, services: HighAvailabilityServices | None = None
    ) -> None:
        super().__init__(system)
        self.folder = folder
        self.data_plane = ScriptedDataPlane(files=files)
        self.services = services or EmbeddedHaServices()
        self._probes: dict[Ref, Probe] = {}
        self.resource_manager = self.stand("resource-manager", RESOURCE_MANAGER_SESSION)
        self.client = self.stand("client")
        self.job_manager = self.next_job_manager()
        self.offered: list[tuple[SlotOffer, ...]] = []

    def next_job_manager(self, *, job_store_capacity: int = JOB_STORE_CAPACITY) -> ActorRef:
        self.job_manager = self.start_job_manager(
            self.resource_manager, self.data_plane, self.services, job_store_capacity
        )
        return self.job_manager

    def stand(self, name: str, *sessions: LeaderSessionId) -> ActorRef:
        probe = self.probe(name, *sessions)
        self._probes[probe.ref] = probe
        return probe.ref

    def received(self, who: Ref, kind: type[M]) -> list[M]:
        return self._probes[who].recorded(kind)

    def last(self, who: Ref, kind: type[M]) -> M:
        return self.received(who, kind)[-1]

    def all_received(self, who: Ref) -> list[Message]:
        return self.received(who, Message)

    # The job

    def graph(self, parallelism: int = 1, *, restart: RestartStrategyConfiguration | None = None) -> JobGraph:
        """Return a job of a source and a sink with this parallelism, without periodic checkpoints."""
        made = graph_of(
            vertex("source", parallelism, outputs=1), vertex("sink", parallelism, reads=("source",)), restart=restart
        )
        return replace(made, checkpointing=CheckpointingSettings(directory=str(self.folder)))

    def submit(
        self,
        job_graph: JobGraph,
        listening: ListeningBehaviour = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES,
    ) -> None:
        submit = SubmitJob(job_graph=job_graph, client=self.client, listening_behaviour=listening)
        self.tell(self.job_manager, submit)

    def cancel(self) -> None:
        self.tell(self.job_manager, CancelJob(job_id=JOB, client=self.client))

    @property
    def registration(self) -> RegisterJobMaster:
        return self.last(self.resource_manager, RegisterJobMaster)

    def tell_job_master(self, message: Message) -> None:
        Gateway(self.registration.job_master, self.registration.leader_session_id).tell(message)
        self.system.run_until_idle()

    def statuses(self) -> list[JobStatus]:
        return [changed.status for changed in self.received(self.client, JobStatusChanged)]

    def stopping_failure(self) -> str:
        [failure] = self.received(self.client, StoppingFailure)
        return failure.cause.message

    # The ResourceManager and the TaskManagers

    def accept_job_master(self) -> None:
        self.send_as_resource_manager(JobMasterRegistrationSuccess(leader_session_id=RESOURCE_MANAGER_SESSION))

    def send_as_resource_manager(self, message: Message, session: LeaderSessionId | None = None) -> None:
        session = session or self.registration.leader_session_id
        utter = Utter(receiver=self.registration.job_master, message=message, session=session)
        self.resource_manager.tell(utter)
        self.system.run_until_idle()

    def register_task_manager(self, name: str) -> ActorRef:
        ref = self.stand(name, self.registration.leader_session_id)
        self.tell_job_master(RegisterTaskManager(task_manager_id=TaskManagerId(name), task_manager=ref))
        return ref

    def offer(self, name: str, slots: int) -> None:
        """Fulfil this number of open slot requests with slots of this TaskManager."""
        served = sum(map(len, self.offered))
        asked = self.received(self.resource_manager, RequestSlot)[served:][:slots]
        offers = tuple(
            SlotOffer(allocation_id=request.allocation_id, slot_id=SlotId(f"{name}/{index}"))
            for index, request in enumerate(asked, served)
        )
        self.offered.append(offers)
        self.tell_job_master(OfferSlots(task_manager_id=TaskManagerId(name), offers=offers))

    def deployed(self, task_manager: Ref) -> list[TaskDeploymentDescriptor]:
        return [submit.descriptor for submit in self.received(task_manager, SubmitTask)]

    def report(self, attempt: str, state: ExecutionState, failure: SerializedThrowable | None = None) -> None:
        update = TaskExecutionState(attempt=ExecutionAttemptId(attempt), state=state, failure=failure)
        self.tell_job_master(UpdateTaskExecutionState(state=update))

    def report_tasks(self, state: ExecutionState) -> None:
        for attempt in TASKS:
            self.report(attempt, state)

    def acknowledge_checkpoint(self, checkpoint_id: int = 1) -> None:
        for attempt in TASKS:
            self.acknowledge(attempt, checkpoint_id)

    def acknowledge(self, attempt: ExecutionAttemptId, checkpoint_id: int = 1) -> None:
        self.tell_job_master(AcknowledgeCheckpoint(job_id=JOB, attempt=attempt, checkpoint_id=checkpoint_id))

    def request_splits(self, attempt: str = TASKS[0], count: int = 1) -> None:
        source = OperatorId("source")
        self.tell_job_master(RequestSplits(attempt=ExecutionAttemptId(attempt), operator_id=source, count=count))

    def run(self, job_graph: JobGraph, slots: int) -> ActorRef:
        """Submit a job, and bring all its tasks to RUNNING on one TaskManager with this number of slots."""
        self.submit(job_graph)
        self.accept_job_master()
        task_manager = self.register_task_manager("tm-1")
        self.offer("tm-1", slots)
        for descriptor in self.deployed(task_manager):
            self.report(descriptor.attempt, ExecutionState.RUNNING)
        return task_manager


def file_split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=10)
