"""A whole cluster in which a job resumes with another parallelism: no row is lost, duplicated or late."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.client.checkpoints import list_checkpoints
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete
from flykka.messages.control.job import CancelJob, CheckpointCompleted, JobResultSuccess, StoppingSuccess
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from flykka.messages.tasks.task import SubmitTask
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.keyed_cluster import ALL_ROWS, KeyedRows, keyed_job
from tests.actors.peer import Utter
from tests.actors.whole_cluster import WholeCluster, is_a, seeds

pytestmark = pytest.mark.slow

RETAINED = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION


def stop_with_checkpoint(stage: WholeCluster, job: str) -> str:
    stage.stop(job)
    while not (heard := stage.client.received(StoppingSuccess)):
        stage.system.advance(10)
    stage.run(seconds=1)
    return heard[0].checkpoint_path


def cancelled(stage: WholeCluster, job: str, *, delete_checkpoints: bool = False) -> list[str]:
    cancel = CancelJob(job_id=JobId(job), client=stage.client.ref, delete_checkpoints=delete_checkpoints)
    stage.client.ref.tell(Utter(receiver=stage.job_manager, message=cancel))
    stage.run(seconds=5)
    return [checkpoint.path for checkpoint in list_checkpoints(str(stage.folder)).completed]


@pytest.mark.slow
@pytest.mark.parametrize("parallelisms", [(1, 2), (2, 4), (4, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize(
    "after_ms", [480, *(pytest.param(after_ms, marks=pytest.mark.long) for after_ms in (100, 700))]
)
@pytest.mark.parametrize("seed", seeds(2))
def test_a_stopped_job_resumes_with_another_parallelism(
    parallelisms: tuple[int, int], after_ms: int, seed: int, tmp_path: Path
) -> None:
    before, after = parallelisms
    with SeededSystem(seed) as system:
        plane = KeyedRows()
        stage = WholeCluster(system, tmp_path, plane)
        stage.submit("first", vertices=keyed_job(before))
        system.advance(after_ms)
        path = stop_with_checkpoint(stage, "first")
        published = len(plane.durable.published)
        stage.submit("second", restore_path=path, vertices=keyed_job(after))
        stage.run(seconds=20)

        assert published < len(ALL_ROWS)
        assert [success.job_id for success in stage.client.received(JobResultSuccess)] == ["first", "second"]
        assert plane.durable.rows() == ALL_ROWS
        assert plane.durable.late == []


@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_resumes_with_one_two_four_and_one_subtasks(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        plane = KeyedRows()
        stage = WholeCluster(system, tmp_path, plane)
        path = None
        for number, parallelism in enumerate((1, 2, 4)):
            stage.submit(f"job-{number}", restore_path=path, vertices=keyed_job(parallelism))
            system.advance(400)
            path = stop_with_checkpoint(stage, f"job-{number}")

        stage.submit("last", restore_path=path, vertices=keyed_job(1))
        stage.run(seconds=20)

        assert stage.client.received(JobResultSuccess)[-1].job_id == "last"
        assert plane.durable.rows() == ALL_ROWS
        assert plane.durable.late == []


@pytest.mark.parametrize(
    "parallelisms", [(1, 2), *(pytest.param(each, marks=pytest.mark.long) for each in ((2, 4), (4, 1)))]
)
@pytest.mark.parametrize("seed", seeds(3))
def test_the_next_run_publishes_the_pending_output_of_a_cancelled_job(
    parallelisms: tuple[int, int], seed: int, tmp_path: Path
) -> None:
    before, after = parallelisms
    with SeededSystem(seed) as system:
        plane = KeyedRows()
        stage = WholeCluster(system, tmp_path, plane)
        stage.checkpointing = {"interval_ms": 500}
        stage.submit("first", vertices=keyed_job(before))
        kill = kill_when(system, "/user/task-manager-1", is_a(NotifyCheckpointComplete))
        while not kill.done:
            system.advance(10)
        [kept] = cancelled(stage, "first")
        stage.submit("second", restore_path=kept, vertices=keyed_job(after))
        stage.run(seconds=20)

        assert plane.durable.rows() == ALL_ROWS
        assert plane.durable.late == []


def test_a_job_cancelled_with_checkpoint_deletion_retains_no_checkpoint(tmp_path: Path) -> None:
    with SeededSystem(0) as system:
        stage = WholeCluster(system, tmp_path, KeyedRows())
        stage.checkpointing = {"interval_ms": 500}
        stage.submit("first", vertices=keyed_job(1))
        while not list_checkpoints(str(stage.folder)).completed:
            system.advance(10)

        assert cancelled(stage, "first", delete_checkpoints=True) == []


@pytest.mark.parametrize("moment", [SubmitTask, CheckpointCompleted, NotifyCheckpointComplete])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_rescaled_job_resumes_after_it_loses_a_task_manager(moment: type[Message], seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        plane = KeyedRows()
        stage = WholeCluster(system, tmp_path, plane)
        stage.submit("first", vertices=keyed_job(4))
        system.advance(480)
        path = stop_with_checkpoint(stage, "first")
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))
        stage.submit("second", restore_path=path, vertices=keyed_job(3))
        stage.run(seconds=20)

        assert kill.done
        assert stage.client.received(JobResultSuccess)[-1].job_id == "second"
        assert plane.durable.rows() == ALL_ROWS
        assert plane.durable.late == []


@pytest.mark.parametrize("parallelisms", [(2, 3), (2, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("seed", seeds(3))
def test_in_flight_data_of_an_unaligned_checkpoint_reaches_its_new_owner(
    parallelisms: tuple[int, int], seed: int, tmp_path: Path
) -> None:
    before, after = parallelisms
    with SeededSystem(seed) as system:
        plane = KeyedRows()
        stage = WholeCluster(system, tmp_path, plane)
        stage.checkpointing = {"retention": RETAINED, "unaligned": True}
        stage.submit("first", vertices=keyed_job(before))
        while not stage.client.received(CheckpointCompleted):
            system.advance(10)
        [kept] = cancelled(stage, "first")
        stage.submit("second", restore_path=kept, vertices=keyed_job(after))
        stage.run(seconds=20)

        assert plane.durable.batches.restored > 0
        assert plane.durable.rows() == ALL_ROWS
        assert plane.durable.late == []
