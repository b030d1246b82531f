"""The whole cast of a job beside a data plane of names: wherever a TaskManager is killed, each file counts once."""

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
from flykka.messages.job import (
    CheckpointCompleted,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
    TaskManagerLost,
)
from flykka.messages.job_graph import CheckpointingSettings, JobGraph, Operator, ShipStrategy
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.messages.registration import RegisterJobMaster
from flykka.messages.slots import AcceptSlots, AllocateSlot, AllocateSlotConfirmed, OfferSlots, RequestSlot
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
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.graph.graphs import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, graph_of, vertex
from tests.actors.peer import Peer, Utter

FILES = 6
LOOK_MS = 250
"""Every fourth look comes together with a checkpoint: that is where a split could slip across the barrier."""


class Sink:
    """Output that outlives the attempts: staged per subtask and checkpoint, then published."""

    def __init__(self) -> None:
        self._staged: dict[tuple[int, int], list[SplitId]] = {}
        self._published: dict[tuple[int, int], list[SplitId]] = {}

    def restore(self, subtask: int, checkpoint_id: int) -> None:
        """Publish what the checkpoint covers, and drop what is behind it."""
        self.publish(subtask, checkpoint_id)
        self._staged = {place: rows for place, rows in self._staged.items() if place[0] != subtask}

    def stage(self, subtask: int, checkpoint_id: int, rows: list[SplitId]) -> None:
        self._staged[subtask, checkpoint_id] = rows

    def take_back(self, subtask: int, checkpoint_id: int) -> list[SplitId]:
        return self._staged.pop((subtask, checkpoint_id), [])

    def publish(self, subtask: int, checkpoint_id: int) -> None:
        for place in [place for place in self._staged if place[0] == subtask and place[1] <= checkpoint_id]:
            self._published[place] = self._staged.pop(place)

    @property
    def published(self) -> list[SplitId]:
        return sorted(row for rows in self._published.values() for row in rows)


class Bridge(Actor):
    """Does every stage at once; what a source reads goes into the sink without a detour."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink) -> None:
        self._is_source = not descriptor.inputs
        self._subtask = descriptor.subtask
        self._sink = sink
        self._read: list[SplitId] = []

    def handle_message(self, message: Message) -> None:
        for answer in self._answers(message):
            self.context.parent.tell(answer)

    def _answers(self, message: Message) -> list[Message]:
        match message:
            case OpenBridge(restored_checkpoint_id=checkpoint_id):
                if self._is_source:
                    self._sink.restore(self._subtask, checkpoint_id or 0)
                return [BridgeOpened()]
            case ReadSplits(stage=stage, splits=splits):
                self._read += [split.split_id for split in splits]
                return [StageFinished(stage=stage)]
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id):
                return [StageFinished(stage=stage), self._snapshot(checkpoint_id)]
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                if self._is_source:
                    self._sink.publish(self._subtask, checkpoint_id)
                return [CheckpointCommitted(checkpoint_id=checkpoint_id)]
            case AbortCheckpoint(checkpoint_id=checkpoint_id):
                if self._is_source:
                    self._read = self._sink.take_back(self._subtask, checkpoint_id) + self._read
                return []
            case CloseBridge():
                return [BridgeClosed()]
            case _:
                raise AssertionError(f"{message} was not expected")

    def _snapshot(self, checkpoint_id: int) -> StateSnapshotted:
        if self._is_source:
            self._sink.stage(self._subtask, checkpoint_id, self._read)
            self._read = []
        state = TaskStateSnapshot()
        return StateSnapshotted(
            checkpoint_id=checkpoint_id, state=state, size_bytes=0, incremental_bytes=0, sync_ms=0, async_ms=0
        )


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


class Names:
    """A data plane whose rows are the ids of the splits that were read."""

    def __init__(self) -> None:
        self.sink = Sink()
        self.released: list[JobId] = []

    def check(self, job_graph: JobGraph) -> None:
        """Everything fits."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge, descriptor, self.sink)

    def split_discovery(self, job_id: JobId, operator: Operator) -> OneFileAtATime:
        return OneFileAtATime(operator.operator_id)

    def end_attempts(self, job_id: JobId) -> None:
        """Attempts end with their actors."""

    def release_job(self, job_id: JobId, *, keep_staged: bool = False) -> None:
        self.released.append(job_id)


class Stage:
    """Two TaskManagers with two slots each, and a client."""

    def __init__(self, system: SeededSystem, folder: Path) -> None:
        self.system = system
        self.data_plane = Names()

        def task_manager(name: TaskManagerId, resource_manager: Ref) -> Props:
            return Props(TaskManager, name, 2, resource_manager, self.data_plane)

        resource_manager = system.spawn(
            Props(
                ResourceManager,
                2,
                task_manager,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
            ),
            "resource-manager",
        )
        self.job_manager = system.spawn(Props(JobManager, resource_manager, self.data_plane), "job-manager")
        self.client = Peer(system, "client")
        self.folder = folder

    def submit(self, name: str = "job", parallelism: int = 2, restore_path: str | None = None) -> None:
        graph = graph_of(
            vertex("source", parallelism, outputs=1),
            vertex("sink", parallelism, reads=("source",), ship_strategy=ShipStrategy.HASH),
        )
        checkpointing = CheckpointingSettings(directory=str(self.folder), interval_ms=1_000)
        self._ask(
            SubmitJob(
                job_graph=replace(graph, job_id=JobId(name), checkpointing=checkpointing),
                client=self.client.ref,
                restore_path=restore_path,
            )
        )

    def stop(self, name: str = "job") -> None:
        self._ask(StopJob(job_id=JobId(name), client=self.client.ref))

    def _ask(self, message: Message) -> None:
        self.client.ref.tell(Utter(receiver=self.job_manager, message=message))

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.system.advance(1_000)

    def statuses(self) -> list[JobStatus]:
        return [changed.status for changed in self.client.heard(JobStatusChanged)]

    def task_managers(self) -> list[str]:
        paths = [path.split("/") for path in self.system.tree.living_paths()]
        return sorted({path[2] for path in paths if len(path) > 2 and path[2].startswith("task-manager")})


def is_a(kind: type[Message]) -> Callable[[ActorRef, Message], bool]:
    """Before a message of this kind is handled, by whomever."""
    return lambda _recipient, message: isinstance(message, kind)


ALL_FILES = [f"file-{number}" for number in range(FILES)]


@pytest.mark.parametrize("seed", range(5))
def test_a_job_without_a_fault_runs_and_finishes(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = Stage(system, tmp_path)
        stage.submit()

        stage.run(seconds=5)

        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
        assert stage.data_plane.sink.published == ALL_FILES
        assert len(stage.client.heard(JobResultSuccess)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_slots_of_a_job_that_has_ended_serve_the_next(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = Stage(system, tmp_path)
        stage.submit("first", parallelism=2)
        stage.submit("second", parallelism=4)

        stage.run(seconds=10)

        ended = [success.job_id for success in stage.client.heard(JobResultSuccess)]
        assert sorted(ended) == ["first", "second"]
        assert sorted(stage.data_plane.released) == ["first", "second"]


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_task_manager_is_replaced_and_its_job_goes_on_to_its_end(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = Stage(system, tmp_path)
        kill = kill_when(system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit()

        stage.run(seconds=10)

        assert kill.done
        assert stage.task_managers() == ["task-manager-1", "task-manager-3"]
        assert [lost.task_manager for lost in stage.client.heard(TaskManagerLost)] == ["task-manager-2"]
        assert stage.statuses() == [
            JobStatus.RUNNING,
            JobStatus.FAILING,
            JobStatus.RESTARTING,
            JobStatus.CREATED,
            JobStatus.RUNNING,
            JobStatus.FINISHED,
        ]
        assert stage.data_plane.sink.published == ALL_FILES
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
    with SeededSystem(seed) as system:
        stage = Stage(system, tmp_path)
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))
        stage.submit()

        stage.run(seconds=15)

        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize(
    "moment", [RegisterJobMaster, RequestSlot, AllocateSlotConfirmed, SubmitTask, TriggerCheckpoint, NotifyEndOfData]
)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_moment_the_resource_manager_is_killed_at_the_job_fails_and_names_it(
    moment: type[Message], seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = Stage(system, tmp_path)
        kill = kill_when(system, "/user/resource-manager", is_a(moment))
        stage.submit()

        stage.run(seconds=5)

        [failed] = stage.client.heard(JobResultFailure)
        assert kill.done
        assert failed.cause.type_name == "ResourceManagerLostError"
        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FAILING, JobStatus.FAILED]
        assert stage.data_plane.released == ["job"]


@pytest.mark.parametrize("after_ms", [300, 990, 1_010, 1_200])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_is_stopped_and_continued_counts_each_file_once(after_ms: int, seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = Stage(system, tmp_path)
        stage.submit("first")
        system.advance(after_ms)
        stage.stop("first")
        system.advance(50)

        stopped = stage.client.expect(StoppingSuccess)
        published = stage.data_plane.sink.published
        stage.submit("second", restore_path=stopped.checkpoint_path)
        stage.run(seconds=5)

        assert len(published) < FILES
        assert [success.job_id for success in stage.client.heard(JobResultSuccess)] == ["first", "second"]
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("moment", [TriggerCheckpoint, AcknowledgeCheckpoint, NotifyCheckpointComplete])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_loses_a_task_manager_while_it_stops_goes_on_and_says_so(
    moment: type[Message], seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = Stage(system, tmp_path)
        stage.submit()
        system.advance(300)
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))
        stage.stop()

        stage.run(seconds=10)

        assert kill.done
        assert stage.client.expect(StoppingFailure).cause.message.startswith("it became FAILING meanwhile")
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES
