"""Injects faults of each kind into a running simulation, and tracks which outcomes of a job they allow.

In one process no message is lost. The tables list messages that may be lost or duplicated, because heartbeats or
retries replace them, and timers that may be skipped. An actor that is partitioned from the others is considered dead
after its heartbeat timeout. Its messages arrive after it has been removed.

A fault, or a client's request, is injected at a point in virtual time, or right before a message is handled
(`FaultPlan`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import assert_never

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator
from flykka.actors.job_master.actor import JobMaster
from flykka.actors.machines.restart.restart_strategy import restarts_without_end
from flykka.actors.resource_manager.actor import ResourceManager
from flykka.actors.task.actor import Task
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.attempt.answers import (
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    SnapshotWritten,
)
from flykka.messages.attempt.commands import HoldBatches, SnapshotState
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import MetadataWritten, SavepointCompleted
from flykka.messages.control.job import (
    CancelJob,
    CheckpointCompleted,
    CheckpointType,
    RequestCheckpoint,
    StopJob,
    TriggerSavepoint,
)
from flykka.messages.control.job_control import JobAttemptsEnded, JobRestartDue
from flykka.messages.control.registration import (
    Heartbeat,
    HeartbeatRequest,
    JobMasterHeartbeat,
    RegisterJobMaster,
    RegisterTaskManager,
)
from flykka.messages.control.slots import AcceptSlots, AllocateSlot, OfferSlots
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.tasks.exchange import AlignmentTimeoutDue, BufferResponse, PartitionRequest
from flykka.messages.tasks.source import RequestSplits
from flykka.messages.tasks.task import (
    AcknowledgeDeployments,
    CancelTask,
    IdleDue,
    LatencyMarkerDue,
    MetricsDue,
    NotifyEndOfData,
    ReportTaskMetrics,
    SubmitTask,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.testing.faults import PlannedFault
from flykka.simulation.environment import Environment
from flykka.simulation.scenario import HEARTBEAT_TIMEOUT_MS, Fault
from flykka.simulation.settings import FaultKind
from flykka.simulation.storage import Operation
from flykka.simulation.system import Arrival, Cut, Direction, SimulatedSystem
from flykka.simulation.topology import Topology
from flykka.simulation.two_inputs import joins_by_time

_PAUSES_MS = (1, 20, 300, 3_000, 12_000)
_SLOW_MS = (300, 3_000, 8_000)
_STORAGE_MS = (20, 300, 2_000)
_JUMPS_MS = (500, 5_000, 60_000)
_CUTS_MS = (300, 3_000, 12_000, 25_000)
_EXEMPT = ("/user/client", "/user/job-manager", "/user/cluster-entrypoint")
"""Actors that are never partitioned: clients and processes have no heartbeats, and messages to them are not resent."""
LOST: dict[Arrival, str] = {
    (HeartbeatRequest, TaskManager): "the next one follows after an interval, and several fit into the timeout",
    (Heartbeat, ResourceManager): "like the request",
    (Heartbeat, JobMaster): "like the request",
    (HeartbeatRequest, JobMaster): "like that to a TaskManager",
    (JobMasterHeartbeat, ResourceManager): "like the request",
    (RegisterTaskManager, ResourceManager): "a TaskManager repeats it until it gets an answer",
    (RegisterJobMaster, ResourceManager): "a JobMaster repeats it too",
    (AcknowledgeCheckpoint, JobMaster): "the checkpoint times out",
    (DeclineCheckpoint, JobMaster): "like the acknowledgement",
    (ReportTaskMetrics, JobMaster): "no decision depends on it, and the next one has the same counters",
    (SubmitTask, TaskManager): "it is not acknowledged, and the attempt fails",
    (AcknowledgeDeployments, JobMaster): "an attempt that reports no state in time either fails and is cancelled",
}
DOUBLED: dict[Arrival, str] = {
    (HeartbeatRequest, TaskManager): "one more heartbeat",
    (Heartbeat, ResourceManager): "like the request",
    (Heartbeat, JobMaster): "like the request",
    (HeartbeatRequest, JobMaster): "like that to a TaskManager",
    (JobMasterHeartbeat, ResourceManager): "like the request",
    (RegisterTaskManager, ResourceManager): "a retry may be sent before the answer arrives",
    (RegisterJobMaster, ResourceManager): "like that of a TaskManager",
    (AcknowledgeCheckpoint, CheckpointCoordinator): "its task has acknowledged, or the checkpoint is complete",
    (DeclineCheckpoint, CheckpointCoordinator): "the checkpoint was removed",
    (NotifyCheckpointAborted, Task): "an abort names the checkpoint by its number",
    (CancelTask, Task): "the task is cancelled already",
    (ReportTaskMetrics, JobMaster): "counters are totals",
    (SubmitTask, TaskManager): "the attempt was submitted before",
    (AcknowledgeDeployments, JobMaster): "the deployment is acknowledged",
}
TIMERS: dict[Arrival, str] = {
    (AlignmentTimeoutDue, Task): "the checkpoint stays aligned",
    (IdleDue, Task): "the source counts as busy",
    (LatencyMarkerDue, Task): "latency is not reported",
    (MetricsDue, Task): "counters are reported later",
}
HEARTBEATS: frozenset[type[Message]] = frozenset({HeartbeatRequest, Heartbeat, JobMasterHeartbeat})
"""The messages that are delayed if a partition affects only heartbeats."""


class Injections:
    def __init__(self, system: SimulatedSystem, environment: Environment, topology: Topology) -> None:
        self.injected: Counter[str] = Counter()
        self.allows_failure = False
        """True if the job may end FAILED although its restarts are unlimited."""
        self.leaves_files = False
        """True if files may remain: an actor was killed while it was about to write, a deletion failed, or a message
        with a file's name was lost.
        """
        self.has_killed_master = False
        self.lasts_until_ms = 0
        """The time in milliseconds at which the last fault ends."""
        self._chance = Random(0)
        self._system = system
        self._environment = environment
        self._vertices = [vertex.vertex_id for vertex in topology.vertices]
        self._joins_by_time = joins_by_time(topology)
        self._failing: dict[Operation, tuple[int, Random]] = {}
        """For each storage operation: until when it may fail, and the random numbers that decide whether it fails."""
        environment.storage.fails = self._storage_fails

    def turn_to(self, job_graph: JobGraph, client: Ref) -> None:
        self._job_id, self._client = job_graph.job_id, client
        is_broken = any(until > self._now for until, _ in self._failing.values())
        self.allows_failure = is_broken or not restarts_without_end(job_graph.restart_strategy)

    def task_managers(self) -> list[str]:
        return self._living(lambda path: path.startswith("/user/task-manager-") and path.count("/") == 2)

    def inject(self, fault: Fault) -> None:
        self._chance, kind = Random(fault.seed), fault.kind
        happened = self._inject(kind)
        # A fault of messages is counted when a message is affected.
        if happened and kind not in (FaultKind.LOSS, FaultKind.DUPLICATE, FaultKind.TIMER):
            self.injected[kind.value] += 1

    def _inject(self, kind: FaultKind) -> bool:
        network = self._system.network
        match kind:
            case FaultKind.DELAY:
                return self._pause()
            case FaultKind.LOSS:
                self.leaves_files = True
                return self._plan_for(network.lost, LOST)
            case FaultKind.DUPLICATE:
                return self._plan_for(network.doubled, DOUBLED)
            case FaultKind.TIMER:
                return self._plan_for(network.silenced, TIMERS)
            case FaultKind.CRASH:
                return self._kill(self.task_managers())
            case FaultKind.KILL:
                return self._kill(self._living(lambda path: path.count("/") > 2 and "/task-manager-" in path))
            case FaultKind.MASTER:
                return self._kill_master()
            case FaultKind.STAGE:
                self._environment.faults.failing_stages[self._chance.choice(self._vertices)] += 1
                return True
            case FaultKind.SLOW:
                slow_ms = self._chance.choice(_SLOW_MS)
                self._environment.faults.slow_ms[self._chance.choice(self._vertices)] = slow_ms
                self._lasts(slow_ms)
                return True
            case FaultKind.STORAGE:
                return self._break_storage()
            case FaultKind.CLOCK:
                jump_ms = self._chance.choice(_JUMPS_MS)
                # The jump looks like missing heartbeats: TaskManagers that were about to write are replaced.
                self.leaves_files = self.leaves_files or jump_ms > HEARTBEAT_TIMEOUT_MS
                self._system.jump(jump_ms)
                self._lasts(0)
                return True
            case FaultKind.CUT:
                return self._cut_off()
            case FaultKind.HEARTBEAT:
                return self._cut_off(HEARTBEATS)
            case FaultKind.REQUEST:
                self._system.actor_selection("/user/job-manager").tell(self._request())
                return True
            case _:
                assert_never(kind)

    def _pause(self) -> bool:
        path = self._chance.choice(self._living(lambda path: path.startswith("/user/")))
        lasts_ms = self._chance.choice(_PAUSES_MS)
        self._system.schedule.pause(path, lasts_ms)
        self._lasts(lasts_ms)
        return True

    def _plan_for(self, plan: Counter[Arrival], arrivals: dict[Arrival, str]) -> bool:
        plan[self._chance.choice(list(arrivals))] += self._chance.choice((1, 1, 3))
        return True

    def _kill(self, paths: list[str]) -> bool:
        victim = self._system.find(self._chance.choice(paths)) if paths else None
        if victim is not None:
            self.leaves_files = True
            self._system.kill(victim)
        return victim is not None

    def _kill_master(self) -> bool:
        """Kill a master. Another one replaces it and recovers its job."""
        resource_managers = self._living(lambda path: path == "/user/resource-manager")
        if self._chance.random() < 0.4:
            return self._kill(resource_managers)
        coordinators = self._living(lambda path: "/checkpoint-coordinator" in path)
        job_managers = self._living(lambda path: path == "/user/job-manager")
        killed = self._kill(self._chance.choice((self._job_masters(), coordinators, job_managers)))
        self.has_killed_master = self.has_killed_master or killed
        return killed

    def _cut_off(self, only: frozenset[type[Message]] | None = None) -> bool:
        """Partition a process from the others for some time. A TaskManager, which can be replaced, may be partitioned
        forever.
        """
        task_managers = self.task_managers()
        sides = [*task_managers, *self._job_masters(), *self._living(lambda path: path == "/user/resource-manager")]
        if not sides:
            return False
        path = self._chance.choice(sides)
        cut = Cut(path=path, direction=self._chance.choice(tuple(Direction)), only=only, exempt=_EXEMPT)
        lasts_ms = self._chance.choice(_CUTS_MS)
        self.leaves_files = True
        self._system.network.cuts.append(cut)
        self._lasts(lasts_ms)
        if path not in task_managers or only is not None or self._chance.random() < 0.7:
            until_ms = self._now + lasts_ms
            self._system.manual_clock.schedule(until_ms, lambda: self._system.network.heal(cut))
        return True

    def _break_storage(self) -> bool:
        lasts_ms = self._chance.choice(_STORAGE_MS)
        operation = self._chance.choice(tuple(Operation))
        self.leaves_files = self.leaves_files or operation is Operation.DELETE
        self._failing[operation] = self._now + lasts_ms, self._chance
        self._lasts(lasts_ms)
        if not self._job_masters():
            # A job that cannot be stored is refused on submission.
            self.allows_failure = True
        return True

    def _request(self) -> Message:
        job_id, client, savepoints = self._job_id, self._client, f"{self._environment.root}/savepoints"
        match self._chance.choice(
            ("cancel", "savepoint", "savepoint", "checkpoint", "stop", "stop", "suspend", "drain")
        ):
            case "cancel":
                return CancelJob(job_id=job_id, client=client)
            case "savepoint":
                return TriggerSavepoint(job_id=job_id, client=client, savepoint_directory=savepoints)
            case "checkpoint":
                return RequestCheckpoint(job_id=job_id, client=client, checkpoint_type=CheckpointType.FULL)
            case "suspend":
                return StopJob(job_id=job_id, client=client)
            case stop_kind:
                # Time-bounded joins would miss rows that are read after the end of event time.
                drain = stop_kind == "drain" and not self._joins_by_time
                return StopJob(job_id=job_id, client=client, savepoint_directory=savepoints, drain=drain)

    @property
    def _now(self) -> int:
        return self._system.clock.now_ms()

    def _lasts(self, ms: int) -> None:
        self.lasts_until_ms = max(self.lasts_until_ms, self._now + ms)

    def _job_masters(self) -> list[str]:
        return self._living(lambda path: path.startswith("/user/job-manager/") and path.count("/") == 3)

    def _living(self, is_selected: Callable[[str], bool]) -> list[str]:
        return sorted(path for path in self._system.cells.living_paths() if is_selected(path))

    def _storage_fails(self, operation: Operation, path: str) -> bool:
        until_ms, chance = self._failing.get(operation, (0, self._chance))
        return self._now < until_ms and chance.random() < 0.7


MOMENTS: tuple[type[Message], ...] = (
    AllocateSlot,
    OfferSlots,
    AcceptSlots,
    SubmitTask,
    AcknowledgeDeployments,
    ChainOpened,
    UpdateTaskExecutionState,
    PartitionRequest,
    RequestSplits,
    BufferResponse,
    TriggerCheckpoint,
    SnapshotState,
    HoldBatches,
    SnapshotWritten,
    ChannelStateWritten,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    MetadataWritten,
    SavepointCompleted,
    CheckpointCompleted,
    NotifyCheckpointComplete,
    CheckpointCommitted,
    NotifyEndOfData,
    JobRestartDue,
    JobAttemptsEnded,
)
"""Messages before which faults may be injected. Each is sent between two steps of a protocol."""


COMPLETED: tuple[type[Message], ...] = (CheckpointCompleted, NotifyCheckpointComplete, CheckpointCommitted)
"""Messages after the completion of a checkpoint. A fault at one of them restores attempts from the checkpoint."""


WRITTEN: tuple[type[Message], ...] = (SnapshotState, AcknowledgeCheckpoint, NotifyEndOfData)
"""Messages that precede writes to the storage: of state, of metadata, or of the last checkpoint of a job."""


class FaultPlan:
    def __init__(self, system: SimulatedSystem, injections: Injections) -> None:
        self._system = system
        self._injections = injections
        self._planned: list[tuple[int, Fault]] = []
        self._waiting: list[PlannedFault] = []
        self._last_ms = 0

    @property
    def last_ms(self) -> int:
        """Return the time at which the last fault ends. A fault that waits for a message may never happen."""
        return max(self._last_ms, self._injections.lasts_until_ms)

    def plan(self, faults: Iterable[Fault], job_graph: JobGraph, client: Ref) -> None:
        """Plan the faults of the next job. The remaining faults of the last job are dropped."""
        self._injections.turn_to(job_graph, client)
        while self._waiting:
            self._waiting.pop().cancel()
        self._planned = []
        for fault in faults:
            if fault.before is None:
                self._planned.append((self._now + fault.at_ms, fault))
            else:
                self._before(fault.before, fault)
        self._planned.sort(key=lambda planned: planned[0])
        self._last_ms = self._planned[-1][0] if self._planned else self._now

    def run_for(self, ms: int) -> None:
        until = self._now + ms
        while self._planned and self._planned[0][0] <= until:
            at_ms, fault = self._planned.pop(0)
            self._system.advance(max(0, at_ms - self._now))
            self._injections.inject(fault)
        self._system.advance(max(0, until - self._now))

    def _before(self, kind: type[Message], fault: Fault) -> None:
        def inject() -> bool:
            self._waiting.remove(planned)
            self._injections.inject(fault)
            return True

        planned = PlannedFault(self._system, lambda _, message: type(message) is kind, inject, fault.count)
        self._waiting.append(planned)

    @property
    def _now(self) -> int:
        return self._system.clock.now_ms()
