"""Runs a job of one topology on its own cluster, and times its submission and its checkpoints."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

from benchmarks.checkpoints.data_plane import Arrivals, InstantDataPlane
from benchmarks.checkpoints.topologies import HEARTBEAT_TIMEOUT_MS, TASK_MANAGERS, Topology, job_graph
from flykka.client.job_client import JobClient
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete
from flykka.messages.control.checkpoint_coordination import PeriodicTriggerDue
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ref import Ref
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.recording import Effect
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.record.flight_recorder import FlightRecorder

SECONDS_AT_MOST = 120.0
"""The maximum duration of a run in seconds; a longer run has failed."""

_LOOK_S = 0.005
_LOOK_S_PER_TASK = 20e-6
"""Seconds between two polls of the tasks' states, for each task, because polling many tasks takes time, too."""


@dataclass(frozen=True)
class Times:
    """The wall-clock time of a checkpoint, and the CPU time that the process used meanwhile, in ms."""

    wall_ms: float
    cpu_ms: float


class NotifiedTasks(FlightRecorder):
    """The flight recorder that every cluster has; counts the Tasks that are notified that a checkpoint is complete."""

    def __init__(self) -> None:
        super().__init__()
        self.notified = Arrivals()

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        super().turn(sequence, now_ms, recipient, envelope, effects, failure)
        # A message that a TaskManager forwards is wrapped in another message, within a leader session.
        if type(envelope.message) is NotifyCheckpointComplete:
            self.notified.arrive()


@dataclass
class Measured:
    """The seconds from submission until all tasks run, the checkpoints, and their garbage collection time."""

    submit_s: float
    checkpoints: list[Times] = field(default_factory=list)
    gc_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunningJob:
    """A warmed-up job whose tasks all run, on its own cluster; `submit_s` is the time until they were running."""

    topology: Topology
    cluster: LocalCluster
    client: JobClient
    submit_s: float
    coordinator: ActorRef
    notified: Arrivals

    def checkpoint(self) -> Times:
        """Time one checkpoint, from the periodic trigger message until every Task is notified that it is complete.

        Raises:
            TimeoutError: the checkpoint does not complete.
        """
        completed = self.client.details_with(0).checkpoints_completed
        self.notified.begin(self.topology.tasks)
        cpu, begun = time.process_time(), time.perf_counter()
        self.coordinator.tell(PeriodicTriggerDue())
        wall = self.notified.wait(SECONDS_AT_MOST) - begun
        cpu = time.process_time() - cpu
        heard = "the client does not hear of it"
        _wait_until(lambda: self.client.details_with(0).checkpoints_completed > completed, _LOOK_S, heard)
        # Follow-up work of a checkpoint, such as deleting the previous one, must not affect the next checkpoint.
        time.sleep(max(_LOOK_S, wall / 2))
        return Times(wall_ms=wall * 1_000, cpu_ms=cpu * 1_000)


@contextmanager
def running_job(topology: Topology, say: Callable[[str], object]) -> Iterator[RunningJob]:
    """Run one job with its warm-up, and cancel it at the end.

    The cluster is a real one, with its flight recorder on; its TaskManagers exist before the job is submitted.

    Raises:
        TimeoutError: the job does not start or end, or a checkpoint does not complete.
    """
    plane = InstantDataPlane()
    recorder = NotifiedTasks()
    settings = ClusterSettings(
        task_managers=TASK_MANAGERS,
        slots_per_task_manager=topology.slots_per_task_manager,
        heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
    )
    system = ActorSystem("flykka", recorder=recorder)
    with (
        TemporaryDirectory(prefix="flykka-benchmark-") as folder,
        LocalCluster(plane, settings, system=system) as cluster,
    ):
        _wait_until(lambda: len(cluster.task_managers()) == TASK_MANAGERS, _LOOK_S, "the TaskManagers do not start")
        plane.opened.begin(topology.tasks)
        begun = time.perf_counter()
        client = cluster.submit(job_graph(topology, folder))
        # Earlier polls would find nothing, and each poll costs the polled actors time.
        plane.opened.wait(SECONDS_AT_MOST)
        look_s = max(_LOOK_S, _LOOK_S_PER_TASK * topology.tasks)
        _wait_until(lambda: _all_run(client, topology), look_s, f"not all {topology.tasks} tasks run")
        submit_s = time.perf_counter() - begun
        say(f"{topology.name}: all tasks run after {submit_s:.2f} s")
        coordinator = cluster.system.find(f"/user/job-manager/job-{client.job_id}/checkpoint-coordinator")
        assert coordinator is not None, "a running job has a coordinator"
        # The first periodic checkpoint is triggered a second after the start, and must not be mistaken for a measured
        # one.
        _wait_until(lambda: client.details_with(0).checkpoints_completed > 0, look_s, "the first checkpoint fails")
        job = RunningJob(
            topology=topology,
            cluster=cluster,
            client=client,
            submit_s=submit_s,
            coordinator=coordinator,
            notified=recorder.notified,
        )
        for _ in range(topology.warm_up):
            job.checkpoint()
        yield job
        client.cancel(timeout=SECONDS_AT_MOST)
        _wait_until(client.done, look_s, "the job does not end")


def measure(topology: Topology, say: Callable[[str], object]) -> Measured:
    with running_job(topology, say) as job:
        measured = Measured(submit_s=job.submit_s)
        with _collections(measured):
            for _ in range(topology.checkpoints):
                measured.checkpoints.append(job.checkpoint())
                say(f"{topology.name}: {measured.checkpoints[-1].wall_ms:.1f} ms")
    return measured


def _all_run(client: JobClient, topology: Topology) -> bool:
    running = sum(vertex.subtasks.get(ExecutionState.RUNNING, 0) for vertex in client.details_with(0).vertices)
    return running == topology.tasks


def _wait_until(holds: Callable[[], bool], look_s: float, complaint: str) -> None:
    deadline = time.monotonic() + SECONDS_AT_MOST
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{complaint} within {SECONDS_AT_MOST:.0f} s")
        time.sleep(look_s)


@contextmanager
def _collections(measured: Measured) -> Iterator[None]:
    """Measure the time of the garbage collector, which is enabled as in production."""
    began = 0.0

    def note(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            measured.gc_ms += (time.perf_counter() - began) * 1_000

    gc.collect()
    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
