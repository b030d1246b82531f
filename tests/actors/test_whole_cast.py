"""The whole cast of a job beside a data plane without data: a TaskManager is killed, and the job comes to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.job_manager import JobManager
from flykka.actors.resource_manager import ResourceManager
from flykka.actors.task_manager import TaskManager
from flykka.messages.checkpoint import AcknowledgeCheckpoint, NotifyCheckpointComplete, TriggerCheckpoint
from flykka.messages.ids import JobId, OperatorId, SplitId, TaskManagerId
from flykka.messages.job import CheckpointCompleted, JobResultSuccess, JobStatus, JobStatusChanged, SubmitJob
from flykka.messages.job_graph import CheckpointingSettings, JobGraph, Operator, ShipStrategy
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.messages.registration import RegisterJobMaster
from flykka.messages.slots import AcceptSlots, AllocateSlot, AllocateSlotConfirmed, OfferSlots
from flykka.messages.source import FileSplit, RequestSplits, SplitsDiscovered
from flykka.messages.stage import (
    AbortCheckpoint,
    BridgeClosed,
    BridgeOpened,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    OpenBridge,
    ReadSplits,
    SnapshotState,
    StageFinished,
    StateSnapshotted,
)
from flykka.messages.state import TaskStateSnapshot
from flykka.messages.task import (
    NotifyEndOfData,
    SubmitTask,
    TaskDeploymentDescriptor,
    UpdateTaskExecutionState,
)
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem, seeded_system
from tests.actors.graph.graphs import graph_of, vertex
from tests.actors.peer import Peer, Utter

FILES = 6
LOOK_MS = 300


class Bridge(Actor):
    """Does every stage at once and makes nothing of it."""

    def __init__(self, read: list[SplitId]) -> None:
        self._read = read

    def handle_message(self, message: Message) -> None:
        for answer in self._answers(message):
            self.context.parent.tell(answer)

    def _answers(self, message: Message) -> list[Message]:
        match message:
            case OpenBridge():
                return [BridgeOpened()]
            case ReadSplits(stage=stage, splits=splits):
                self._read += [split.split_id for split in splits]
                return [StageFinished(stage=stage)]
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id):
                snapshotted = StateSnapshotted(
                    checkpoint_id=checkpoint_id,
                    state=TaskStateSnapshot(),
                    size_bytes=0,
                    incremental_bytes=0,
                    sync_ms=0,
                    async_ms=0,
                )
                return [StageFinished(stage=stage), snapshotted]
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                return [CheckpointCommitted(checkpoint_id=checkpoint_id)]
            case CloseBridge():
                return [BridgeClosed()]
            case AbortCheckpoint():
                return []
            case _:
                raise AssertionError(f"{message} was not expected")


class OneFileAtATime:
    """A folder in which every look finds one file more."""

    interval_ms: int | None = LOOK_MS

    def __init__(self, operator_id: OperatorId) -> None:
        self._operator_id = operator_id

    def discover(self, seen: frozenset[SplitId]) -> SplitsDiscovered:
        name = SplitId(f"file-{len(seen)}")
        split = FileSplit(split_id=name, path=f"/in/{name}", start_row=0, rows=1)
        finished = len(seen) + 1 == FILES
        return SplitsDiscovered(operator_id=self._operator_id, splits=(split,), finished=finished)


class NoData:
    """A data plane that only notes which splits were read, by every attempt there was."""

    def __init__(self) -> None:
        self.read: list[SplitId] = []
        self.released: list[JobId] = []

    def check(self, job_graph: JobGraph) -> None:
        """Everything fits."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge, self.read)

    def split_discovery(self, job_id: JobId, operator: Operator) -> OneFileAtATime:
        return OneFileAtATime(operator.operator_id)

    def release_job(self, job_id: JobId) -> None:
        self.released.append(job_id)


class Stage:
    """Two TaskManagers with two slots each, and a client."""

    def __init__(self, system: SeededSystem, folder: Path) -> None:
        self.system = system
        self.data_plane = NoData()

        def task_manager(name: TaskManagerId, resource_manager: Ref) -> Props:
            return Props(TaskManager, name, 2, resource_manager, self.data_plane)

        resource_manager = system.spawn(Props(ResourceManager, 2, task_manager), "resource-manager")
        self.job_manager = system.spawn(Props(JobManager, resource_manager, self.data_plane), "job-manager")
        self.client = Peer(system, "client")
        self.folder = folder

    def submit(self, name: str = "job", parallelism: int = 2) -> None:
        graph = graph_of(
            vertex("source", parallelism, outputs=1),
            vertex("sink", parallelism, reads=("source",), ship_strategy=ShipStrategy.HASH),
        )
        checkpointing = CheckpointingSettings(directory=str(self.folder), interval_ms=1_000)
        self.client.ref.tell(
            Utter(
                receiver=self.job_manager,
                message=SubmitJob(
                    job_graph=replace(graph, job_id=JobId(name), checkpointing=checkpointing), client=self.client.ref
                ),
            )
        )

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.system.advance(1_000)

    def statuses(self) -> list[JobStatus]:
        return [changed.status for changed in self.client.heard(JobStatusChanged)]

    def task_managers(self) -> list[str]:
        paths = [path.split("/") for path in self.system.living_paths()]
        return sorted({path[2] for path in paths if len(path) > 2 and path[2].startswith("task-manager")})


def is_a(kind: type[Message]) -> Callable[[ActorRef, Message], bool]:
    """Before a message of this kind is handled, by whomever."""
    return lambda _recipient, message: isinstance(message, kind)


ALL_FILES = [f"file-{number}" for number in range(FILES)]


@pytest.mark.parametrize("seed", range(5))
def test_a_job_without_a_fault_runs_and_finishes(seed: int, tmp_path: Path) -> None:
    with seeded_system(seed) as system:
        stage = Stage(system, tmp_path)
        stage.submit()

        stage.run(seconds=5)

        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
        assert sorted(stage.data_plane.read) == ALL_FILES
        assert len(stage.client.heard(JobResultSuccess)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_slots_of_a_job_that_has_ended_serve_the_next(seed: int, tmp_path: Path) -> None:
    with seeded_system(seed) as system:
        stage = Stage(system, tmp_path)
        stage.submit("first", parallelism=2)
        stage.submit("second", parallelism=4)

        stage.run(seconds=10)

        ended = [success.job_id for success in stage.client.heard(JobResultSuccess)]
        assert sorted(ended) == ["first", "second"]
        assert sorted(stage.data_plane.released) == ["first", "second"]


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_task_manager_is_replaced_and_its_job_goes_on_to_its_end(seed: int, tmp_path: Path) -> None:
    with seeded_system(seed) as system:
        stage = Stage(system, tmp_path)
        kill = kill_when(system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit()

        stage.run(seconds=10)

        assert kill.done
        assert stage.task_managers() == ["task-manager-1", "task-manager-3"]
        assert stage.statuses() == [
            JobStatus.RUNNING,
            JobStatus.FAILING,
            JobStatus.RESTARTING,
            JobStatus.CREATED,
            JobStatus.RUNNING,
            JobStatus.FINISHED,
        ]
        assert set(stage.data_plane.read) == set(ALL_FILES)
        assert len(stage.client.heard(CheckpointCompleted)) > 1


@pytest.mark.parametrize(
    "moment",
    [
        AllocateSlot,
        AllocateSlotConfirmed,
        RegisterJobMaster,
        OfferSlots,
        AcceptSlots,
        SubmitTask,
        UpdateTaskExecutionState,
        RequestSplits,
        TriggerCheckpoint,
        AcknowledgeCheckpoint,
        NotifyCheckpointComplete,
        NotifyEndOfData,
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_moment_a_task_manager_is_killed_at_the_job_comes_to_its_end(
    moment: type[Message], seed: int, tmp_path: Path
) -> None:
    with seeded_system(seed) as system:
        stage = Stage(system, tmp_path)
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))
        stage.submit()

        stage.run(seconds=15)

        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert set(stage.data_plane.read) == set(ALL_FILES)
