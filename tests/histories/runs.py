"""The runs of the golden traces: whole clusters in virtual time.

A run that does not end as intended raises an error. Recordings with one seed are equal unless the behaviour has
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from fsspec.implementations.memory import MemoryFileSystem

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.messages.attempt.commands import WriteChannelState
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, TriggerCheckpoint
from flykka.messages.control.checkpoint_coordination import CheckpointRequest
from flykka.messages.control.job import (
    CancelJob,
    CheckpointAborted,
    CheckpointCompleted,
    JobRestored,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    StoppingSuccess,
    TaskManagerLost,
    TriggerSavepointSuccess,
)
from flykka.messages.control.rescaling import (
    JobParallelismChanged,
    JobResourceRequirements,
    JobVertexResourceRequirements,
    UpdateJobResourceRequirements,
)
from flykka.messages.graph.job_graph import (
    CheckpointingMode,
    FixedDelayRestartStrategyConfiguration,
    JobType,
    ScheduleMode,
    SchedulerType,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Message
from flykka.runtime.recording import Recorder
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.keyed_cluster import ALL_ROWS, KeyedRows, keyed_job
from tests.actors.machines.graph.graphs import vertex
from tests.actors.peer import Utter
from tests.actors.slow_cluster import ALL_FILES as SLOW_FILES
from tests.actors.slow_cluster import SlowNames
from tests.actors.whole_cluster import ALL_FILES, Names, WholeCluster, is_a
from tests.histories.faults import FaultyNames

SEED = 6
_FOLDER = "memory://histories"


def killed_task_manager(recorder: Recorder, seed: int = SEED) -> None:
    """A TaskManager is killed while a checkpoint is acknowledged, another TaskManager replaces it, and the job
    continues.
    """
    with _recorded_cluster(recorder, seed, Names()) as stage:
        stage.checkpointing = {"retained": 2}
        kill = kill_when(stage.system, "/user/task-manager-2", is_a(AcknowledgeCheckpoint))
        stage.submit()
        stage.run(seconds=10)

        assert kill.done
        assert stage.client.received(TaskManagerLost)
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


def rescaled(recorder: Recorder, seed: int = SEED) -> None:
    """A job with keyed state is stopped with a checkpoint, and continues from it with three subtasks instead of two."""
    plane = KeyedRows()
    with _recorded_cluster(recorder, seed, plane) as stage:
        stage.submit("first", vertices=keyed_job(2))
        stage.system.advance(1_200)
        stage.stop("first")
        stage.run(seconds=5)
        stopped = stage.client.expect(StoppingSuccess)
        stage.submit("second", restore_path=stopped.checkpoint_path, vertices=keyed_job(3))
        stage.run(seconds=20)

        assert stage.client.received(JobRestored)
        assert plane.durable.rows() == ALL_ROWS


def adaptive(recorder: Recorder, seed: int = SEED) -> None:
    """An adaptive job starts with fewer slots than it requests, is rescaled by a client, and loses a TaskManager."""
    plane = KeyedRows()
    with _recorded_cluster(recorder, seed, plane) as stage:
        stage.submit(
            "job",
            vertices=keyed_job(6),
            scheduler_type=SchedulerType.ADAPTIVE,
            resource_wait_timeout_ms=300,
            rescale_cooldown_ms=1_000,
        )
        stage.system.advance(900)
        bounds = tuple(
            JobVertexResourceRequirements(vertex_id=JobVertexId(name), lower_bound=1, upper_bound=2)
            for name in ("source", "keyed")
        )
        requirements = JobResourceRequirements(vertices=bounds)
        kill = kill_when(stage.system, "/user/task-manager-1", is_a(CheckpointRequest))
        update = UpdateJobResourceRequirements(job_id=JobId("job"), client=stage.client.ref, requirements=requirements)
        stage.client.ref.tell(Utter(receiver=stage.job_manager, message=update))
        stage.run(seconds=30)

        assert kill.done
        parallelisms = [changed.vertices[0].parallelism for changed in stage.client.received(JobParallelismChanged)]
        assert (parallelisms[0], parallelisms[-1]) == (4, 2)
        assert plane.durable.rows() == ALL_ROWS


def savepoints(recorder: Recorder, seed: int = SEED) -> None:
    """A savepoint of a job that continues, and then a savepoint with which it stops."""
    with _recorded_cluster(recorder, seed, Names()) as stage:
        stage.submit()
        stage.system.advance(300)
        stage.trigger_savepoint(f"{_FOLDER}/savepoints")
        stage.system.advance(400)
        stage.stop(savepoints=f"{_FOLDER}/savepoints")
        stage.run(seconds=2)

        assert stage.client.received(TriggerSavepointSuccess)
        assert stage.client.received(StoppingSuccess)
        assert stage.statuses()[-1] is JobStatus.FINISHED


def unaligned(recorder: Recorder, seed: int = SEED) -> None:
    """Checkpoints start aligned, switch to unaligned, and overtake queued data; the job restores one of them."""
    plane = SlowNames()
    with _recorded_cluster(recorder, seed, plane) as stage:
        stage.checkpointing = {"unaligned": True, "aligned_timeout_ms": 300}
        messages: list[Message] = []
        stage.system.add_delivery_hook(lambda _recipient, message, _sender: messages.append(message))
        kill_when(stage.system, "/user/task-manager-2", is_a(CheckpointCompleted))
        stage.submit()
        stage.run(seconds=25)

        assert any(isinstance(message, WriteChannelState) for message in messages)
        assert plane.batches.restored
        assert plane.sink.published == SLOW_FILES


def declined_and_failed(recorder: Recorder, seed: int = SEED) -> None:
    """A snapshot fails and its checkpoint is declined; then a stage fails and the job restarts."""
    with _recorded_cluster(recorder, seed, FaultyNames()) as stage:
        stage.checkpointing = {"tolerable_failures": 1, "interval_ms": 200, "min_pause_ms": 150}
        stage.submit()
        stage.run(seconds=10)

        assert stage.client.received(CheckpointAborted)
        assert stage.client.received(JobRestored)
        assert stage.client.received(JobResultSuccess)
        assert stage.data_plane.sink.published == ALL_FILES


def crowded(recorder: Recorder, seed: int = SEED) -> None:
    """Two jobs that request more slots than exist, few buffers, overlapping checkpoints, and one cancelled job."""
    plane = KeyedRows()
    with _recorded_cluster(recorder, seed, plane, NetworkSettings(network_buffers=30)) as stage:
        stage.checkpointing = {"interval_ms": 150, "min_pause_ms": 150, "max_concurrent": 2, "retained": 3}
        stage.submit("first", vertices=keyed_job(4))
        stage.system.advance(100)
        stage.submit("second", vertices=keyed_job(2))
        stage.system.advance(600)
        for _ in range(3):
            stage.trigger_savepoint(f"{_FOLDER}/savepoints", "first")
        stage.run(seconds=8)
        stage.submit("third", vertices=keyed_job(2))
        stage.system.advance(500)
        cancel = CancelJob(job_id=JobId("third"), client=stage.client.ref)
        stage.client.ref.tell(Utter(receiver=stage.job_manager, message=cancel))
        stage.run(seconds=5)

        ended = [success.job_id for success in stage.client.received(JobResultSuccess)]
        assert sorted(ended) == ["first", "second"]
        assert len(stage.client.received(TriggerSavepointSuccess)) == 3
        [cancelled] = stage.client.received(JobResultFailure)
        assert (cancelled.job_id, cancelled.status) == ("third", JobStatus.CANCELED)


def at_least_once(recorder: Recorder, seed: int = SEED) -> None:
    """At-least-once: barriers block no channel, latency is tracked, sources become idle, a TaskManager is killed."""
    with _recorded_cluster(recorder, seed, SlowNames()) as stage:
        stage.checkpointing = {"mode": CheckpointingMode.AT_LEAST_ONCE, "interval_ms": 400, "max_concurrent": 2}
        kill = kill_when(stage.system, "/user/task-manager-2", is_a(JobRestored))
        kill_when(stage.system, "/user/task-manager-1", is_a(CheckpointCompleted))
        source = replace(vertex("source", 2, outputs=1), watermark_delay_ms=0, idle_timeout_ms=200)
        sink = vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.REBALANCE)
        stage.submit(
            vertices=(source, sink),
            latency_tracking_interval_ms=5,
            heartbeat_interval_ms=1_000,
            restart_strategy=FixedDelayRestartStrategyConfiguration(attempts=2, delay_ms=100),
        )
        stage.run(seconds=30)

        assert kill.done
        assert stage.client.received(JobResultSuccess)
        assert set(stage.data_plane.sink.published) == set(SLOW_FILES)


def regions(recorder: Recorder, seed: int = SEED) -> None:
    """One job is refused, one job restarts by regions, and a third job continues although the ResourceManager is
    killed.
    """
    with _recorded_cluster(recorder, seed, Names()) as stage:
        stage.submit("refused", job_type=JobType.BATCH)
        stage.submit("first", schedule_mode=ScheduleMode.PIPELINED_REGION)
        stage.run(seconds=5)
        stage.submit("second")
        kill = kill_when(stage.system, "/user/resource-manager", is_a(TriggerCheckpoint))
        stage.run(seconds=5)

        assert kill.done
        assert [success.job_id for success in stage.client.received(JobResultSuccess)] == ["first", "second"]
        assert [failed.cause.type_name for failed in stage.client.received(JobResultFailure)] == ["GraphError"]


RUNS: dict[str, Callable[[Recorder, int], None]] = {
    "adaptive": adaptive,
    "at-least-once": at_least_once,
    "crowded": crowded,
    "declined-and-failed": declined_and_failed,
    "killed-task-manager": killed_task_manager,
    "regions": regions,
    "rescaled": rescaled,
    "savepoints": savepoints,
    "unaligned": unaligned,
}


@contextmanager
def _recorded_cluster(
    recorder: Recorder, seed: int, data_plane: Names, network: NetworkSettings | None = None
) -> Iterator[WholeCluster]:
    """Return a cluster whose every turn is recorded; its checkpoints are only in memory."""
    with SeededSystem(seed, recorder=recorder) as system:
        try:
            yield WholeCluster(system, f"{_FOLDER}/checkpoints", data_plane, network)
        finally:
            storage = MemoryFileSystem()
            if storage.exists("/histories"):
                storage.rm("/histories", recursive=True)
