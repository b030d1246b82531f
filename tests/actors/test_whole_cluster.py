"""Whenever a TaskManager of a whole cluster is killed, each file is still counted once. Rows are names."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, NotifyCheckpointComplete, TriggerCheckpoint
from flykka.messages.control.checkpoint_coordination import CheckpointsRecovered, RestoreState
from flykka.messages.control.job import (
    CheckpointCompleted,
    JobResultSuccess,
    JobStatus,
    TaskManagerLost,
)
from flykka.messages.control.registration import DisconnectJobMaster, RegisterJobMaster, RegisterTaskManager
from flykka.messages.control.slots import AcceptSlots, AllocateSlot, AllocateSlotConfirmed, OfferSlots, RequestSlot
from flykka.messages.graph.job_graph import FailoverStrategyKind
from flykka.messages.tasks.source import RequestSplits, SplitsDiscovered
from flykka.messages.tasks.task import (
    NotifyEndOfData,
    SubmitTask,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.message import Message
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.machines.graph.graphs import HEARTBEAT_TIMEOUT_MS
from tests.actors.whole_cluster import ALL_FILES, WholeCluster, is_a, seeds


@pytest.mark.parametrize("seed", seeds(5))
def test_a_job_without_a_fault_runs_and_finishes(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit()

        stage.run(seconds=5)

        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
        assert stage.data_plane.sink.published == ALL_FILES
        assert len(stage.client.received(JobResultSuccess)) == 1


@pytest.mark.parametrize("seed", seeds(5))
def test_the_slots_of_an_ended_job_serve_the_next_job(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit("first", parallelism=2)
        stage.submit("second", parallelism=4)

        stage.run(seconds=10)

        ended = [success.job_id for success in stage.client.received(JobResultSuccess)]
        assert sorted(ended) == ["first", "second"]
        assert sorted(stage.data_plane.released) == ["first", "second"]


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("stopped_at_ms", [600, 15_000])
def test_a_suspended_process_does_not_lose_its_own_task_managers(
    seed: int, stopped_at_ms: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit()
        system.advance(stopped_at_ms)

        system.manual_clock.move_to(system.manual_clock.now_ms() + 3 * HEARTBEAT_TIMEOUT_MS)
        system.run_until_idle()
        stage.run(seconds=2 * HEARTBEAT_TIMEOUT_MS // 1_000)

        assert stage.client.received(TaskManagerLost) == []
        assert stage.task_managers() == ["task-manager-1", "task-manager-2"]
        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
        assert any("heartbeats missed during this time are not counted" in line for line in caplog.messages)


@pytest.mark.parametrize("seed", seeds(5))
def test_a_killed_task_manager_is_replaced_and_its_job_finishes(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        kill = kill_when(system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit()

        stage.run(seconds=10)

        assert kill.done
        assert stage.task_managers() == ["task-manager-1", "task-manager-3"]
        assert [lost.task_manager for lost in stage.client.received(TaskManagerLost)] == ["task-manager-2"]
        assert stage.statuses() == [
            JobStatus.RUNNING,
            JobStatus.FAILING,
            JobStatus.RESTARTING,
            JobStatus.CREATED,
            JobStatus.RUNNING,
            JobStatus.FINISHED,
        ]
        assert stage.data_plane.sink.published == ALL_FILES
        assert len(stage.client.received(CheckpointCompleted)) > 1


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
@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_finishes_if_a_task_manager_is_killed_at_any_moment(
    moment: type[Message], seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))
        stage.submit()

        stage.run(seconds=15)

        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.slow
@pytest.mark.parametrize(
    "failover_strategy",
    [
        pytest.param(kind, marks=() if kind is FailoverStrategyKind.REGION else pytest.mark.long)
        for kind in FailoverStrategyKind
    ],
)
@pytest.mark.parametrize(
    "moment",
    [
        OfferSlots,
        pytest.param(AcceptSlots, marks=pytest.mark.long),
        CheckpointsRecovered,
        pytest.param(RestoreState, marks=pytest.mark.long),
        pytest.param(SplitsDiscovered, marks=pytest.mark.long),
        AcknowledgeCheckpoint,
    ],
)
@pytest.mark.parametrize(
    "victim",
    [
        "/user/resource-manager",
        "/user/job-manager/job-job",
        "/user/job-manager/job-job/checkpoint-coordinator",
        "/user/task-manager-1",
        "/user/task-manager-2",
    ],
)
def test_a_job_ends_if_any_actor_is_killed_while_disks_are_slow(
    victim: str, moment: type[Message], failover_strategy: FailoverStrategyKind, tmp_path: Path
) -> None:
    with SeededSystem(blocking_ms=300) as system:
        stage = WholeCluster(system, tmp_path)
        kill = kill_when(system, victim, is_a(moment))
        stage.submit(failover_strategy=failover_strategy)

        stage.run(seconds=30)

        assert kill.done
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize(
    "moment",
    [
        RegisterTaskManager,
        RegisterJobMaster,
        RequestSlot,
        AllocateSlot,
        AllocateSlotConfirmed,
        OfferSlots,
        SubmitTask,
        TriggerCheckpoint,
        NotifyEndOfData,
        DisconnectJobMaster,
    ],
)
@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_continues_if_the_resource_manager_is_killed(moment: type[Message], seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        kill = kill_when(system, "/user/resource-manager", is_a(moment))
        stage = WholeCluster(system, tmp_path)
        stage.submit()

        stage.run(seconds=10)

        assert kill.done
        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
        assert stage.data_plane.sink.published == ALL_FILES
        assert stage.task_managers() == ["task-manager-1", "task-manager-2"]


@pytest.mark.parametrize("seed", seeds(3))
def test_a_new_resource_manager_knows_the_slots_and_serves_the_next_job(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit("first", parallelism=4)
        stage.run(seconds=1)
        system.kill(stage.resource_manager)
        stage.submit("second", parallelism=4)

        stage.run(seconds=20)

        assert sorted(success.job_id for success in stage.client.received(JobResultSuccess)) == ["first", "second"]


@pytest.mark.parametrize("seed", seeds(3))
def test_a_task_manager_killed_without_a_resource_manager_is_replaced(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path)
        stage.submit()
        stage.run(seconds=1)
        for path in ("/user/resource-manager", "/user/task-manager-1"):
            doomed = system.find(path)
            assert doomed is not None
            system.kill(doomed)

        stage.run(seconds=15)

        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES
        assert stage.task_managers() == ["task-manager-2", "task-manager-3"]


@pytest.mark.parametrize("child", ["checkpoint-coordinator", "checkpoint-coordinator-de-activator"])
@pytest.mark.parametrize("moment", [SubmitTask, AcknowledgeCheckpoint, NotifyEndOfData])
def test_a_killed_child_ends_its_job_master_and_the_next_resumes(
    child: str, moment: type[Message], tmp_path: Path
) -> None:
    with SeededSystem(1) as system:
        stage = WholeCluster(system, tmp_path)
        kill = kill_when(system, f"/user/job-manager/job-job/{child}", is_a(moment))
        stage.submit()

        stage.run(seconds=15)

        assert kill.done
        statuses = stage.statuses()
        assert JobStatus.RESTARTING in statuses
        assert statuses[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES
