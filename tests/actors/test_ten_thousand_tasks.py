"""The work per task does not grow with the number of tasks, because no message is sent to all tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.messages.control.job import (
    CancelJob,
    CheckpointCompleted,
    ExecutionStateChanged,
    JobResultFailure,
    JobStatus,
    SubmitJob,
)
from flykka.messages.graph.job_graph import CheckpointingSettings, ShipStrategy
from flykka.messages.tasks.task import ExecutionState
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.machines.graph.graphs import JOB, graph_of, vertex
from tests.actors.whole_cluster import WholeCluster

INTERVAL_MS = 1_000
MAX_PARALLELISM = 32_768
FEW, TEN_TIMES_AS_MANY = 20, 200


class Job:
    """A job whose tasks are half sources and half sinks, connected one to one. Each step runs until idle."""

    def __init__(self, system: SeededSystem, folder: Path, tasks: int) -> None:
        self.tasks = tasks
        self.stage = WholeCluster(system, folder, slots=tasks // 4)
        system.run_until_idle()

    def submit(self) -> None:
        parallelism = self.tasks // 2
        source = vertex("source", parallelism, outputs=1)
        sink = vertex("sink", parallelism, reads=("source",), ship_strategy=ShipStrategy.FORWARD)
        graph = graph_of(*(replace(each, max_parallelism=MAX_PARALLELISM) for each in (source, sink)))
        checkpointing = CheckpointingSettings(directory=str(self.stage.folder), interval_ms=INTERVAL_MS)
        client = self.stage.client
        client.send(
            self.stage.job_manager,
            SubmitJob(job_graph=replace(graph, checkpointing=checkpointing), client=client.ref, restore_path=None),
        )

    def checkpoint(self) -> None:
        self.stage.system.advance(INTERVAL_MS)

    def cancel(self) -> None:
        client = self.stage.client
        client.send(self.stage.job_manager, CancelJob(job_id=JOB, client=client.ref))

    def running(self) -> int:
        moved = self.stage.client.received(ExecutionStateChanged)
        return len({change.attempt for change in moved if change.state is ExecutionState.RUNNING})


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count the calls of Python functions in the block; resuming a generator counts as a call."""
    calls = [0]

    def count(_frame: object, event: str, _argument: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Job.submit, marks=pytest.mark.long),
        Job.checkpoint,
        pytest.param(Job.cancel, marks=pytest.mark.long),
    ],
    ids=lambda step: step.__name__,
)
def test_ten_times_the_tasks_cause_at_most_ten_times_the_work(step: Callable[[Job], None], tmp_path: Path) -> None:
    few, many = (_calls(step, tasks, tmp_path / str(tasks)) for tasks in (FEW, TEN_TIMES_AS_MANY))

    assert many < 10 * few


@pytest.mark.slow
@pytest.mark.long
def test_ten_thousand_tasks_run_take_a_checkpoint_and_are_cancelled(tmp_path: Path) -> None:
    with SeededSystem(1, serialize_messages=False) as system:
        job = Job(system, tmp_path, 10_000)

        job.submit()
        assert job.running() == 10_000

        job.checkpoint()
        assert [completed.checkpoint_id for completed in job.stage.client.received(CheckpointCompleted)] == [1]

        job.cancel()
        assert [result.status for result in job.stage.client.received(JobResultFailure)] == [JobStatus.CANCELED]
        assert job.stage.data_plane.released == [JOB]


def _calls(step: Callable[[Job], None], tasks: int, folder: Path) -> int:
    with SeededSystem(1, serialize_messages=False) as system:
        job = Job(system, folder, tasks)
        for before in (Job.submit, Job.checkpoint, Job.cancel):
            if before is not step:
                before(job)
                continue
            with counted_calls() as calls:
                step(job)
            break
        return calls[0]
