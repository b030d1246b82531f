"""A CheckpointCoordinator below a JobMaster that records its messages; the test sends the messages of the tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator
from flykka.actors.checkpoint_coordinator.master_hooks import HooksOfJob, MasterTriggerRestoreHook
from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.checkpoint import (
    OperatorCoordinatorsSnapshotted,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.checkpoint_coordination import (
    CoordinatedTask,
    CoordinatedTasks,
)
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobGraph,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
)
from flykka.messages.state.handles import OperatorSubtaskState, SharedStateHandle, TaskStateSnapshot
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, LeaderSessionId, OperatorId
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import ClusterBuilder
from tests.actors.leading import new_checkpoints
from tests.actors.machines.checkpoint.coordinating import acknowledgement
from tests.actors.machines.graph.graphs import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS

JOB = JobId("job")
SESSION = LeaderSessionId("session")
M = TypeVar("M", bound=Message)


class JobMaster(Actor):
    """Spawns the coordinator, records its messages, and snapshots no operator coordinators."""

    def __init__(
        self,
        job_graph: JobGraph,
        storage: CheckpointStorage,
        checkpoints: CheckpointPointers,
        heard: list[Message],
        hooks: tuple[MasterTriggerRestoreHook, ...],
    ) -> None:
        self._heard = heard
        known = HooksOfJob([hook.identifier for hook in hooks], lambda: hooks)
        self._props = Props(CheckpointCoordinator, job_graph, storage, checkpoints, known)

    def pre_start(self) -> None:
        self._coordinator = self.context.spawn(self._props, "checkpoint-coordinator")

    def handle_message(self, message: Message) -> None:
        self._heard.append(message)
        if isinstance(message, SnapshotOperatorCoordinators):
            answer = OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=message.checkpoint_id, states=())
            self._coordinator.tell(answer)


class CoordinatorCluster(ClusterBuilder):
    """A coordinator below a JobMaster, tasks on one TaskManager, and a storage in a folder of the test."""

    def __init__(
        self,
        system: SeededSystem,
        folder: Path,
        *,
        sources: bool = False,
        hooks: tuple[MasterTriggerRestoreHook, ...] = (),
        storage: CheckpointStorage | None = None,
        checkpoints: CheckpointPointers | None = None,
        **changed: object,
    ) -> None:
        settings = {"directory": str(folder), "interval_ms": 1_000, **changed}
        super().__init__(system)
        self.folder = folder
        self.storage = storage or CheckpointStorage(str(folder))
        self.checkpoints = checkpoints or new_checkpoints(JOB)
        self.heard: list[Message] = []
        self._task_manager = self.probe("task-manager", SESSION)
        graph = JobGraph(
            job_id=JOB,
            name="job",
            vertices=(_vertex(OperatorKind.SOURCE if sources else OperatorKind.STATELESS),),
            checkpointing=CheckpointingSettings(**settings),  # type: ignore[arg-type]
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
        )
        self.start(Props(JobMaster, graph, self.storage, self.checkpoints, self.heard, hooks), "job-master")
        self.coordinator = self.find("job-master/checkpoint-coordinator")

    def send(self, message: Message) -> None:
        self.tell(self.coordinator, message)

    def deploy(
        self,
        *attempts: str,
        state: ExecutionState = ExecutionState.RUNNING,
        leader_session_id: LeaderSessionId = SESSION,
    ) -> None:
        tasks = tuple(
            CoordinatedTask(
                attempt=ExecutionAttemptId(attempt),
                vertex_id=JobVertexId("v"),
                subtask=subtask,
                parallelism=len(attempts),
                max_parallelism=128,
                task_manager=self._task_manager.ref,
                state=state,
                is_source=subtask == 0,
            )
            for subtask, attempt in enumerate(attempts)
        )
        self.send(CoordinatedTasks(job_id=JOB, tasks=tasks, leader_session_id=leader_session_id))

    def complete(self, checkpoint_id: int, *attempts: str, shared: str | None = None) -> None:
        for attempt in attempts:
            self.send(acknowledgement(attempt, checkpoint_id, None if shared is None else self.state(shared)))

    def state(self, name: str) -> TaskStateSnapshot:
        path = self.folder / "job" / "shared" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("rows")
        handle = SharedStateHandle(state_id=name, path=str(path), rows=1, size_bytes=4)
        return TaskStateSnapshot(
            operators=(OperatorSubtaskState(operator_id=OperatorId("operator"), shared=(handle,)),)
        )

    def task_messages(self) -> list[Message]:
        """Return the messages to the tasks since the last call."""
        messages = self._task_manager.recorded(Message)
        self._task_manager.received(Message)
        return messages

    def received(self, kind: type[M]) -> list[M]:
        return [message for message in self.heard if isinstance(message, kind)]

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


def _vertex(kind: OperatorKind) -> JobVertex:
    operator = Operator(
        operator_id=OperatorId("operator"), ref=OperatorRef(uid="operator", fingerprint=""), name="operator", kind=kind
    )
    return JobVertex(vertex_id=JobVertexId("v"), name="v", operators=(operator,), parallelism=1, max_parallelism=128)
