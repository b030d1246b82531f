"""Times of faults and of clients' requests: moments of virtual time, or right before a message is handled."""

from __future__ import annotations

from collections.abc import Iterable

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
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import MetadataWritten, SavepointCompleted
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.control.job_control import JobAttemptsEnded, JobRestartDue
from flykka.messages.control.slots import AcceptSlots, AllocateSlot, OfferSlots
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.tasks.exchange import BufferResponse, PartitionRequest
from flykka.messages.tasks.source import RequestSplits
from flykka.messages.tasks.task import AcknowledgeDeployments, NotifyEndOfData, SubmitTask, UpdateTaskExecutionState
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.testing.faults import PlannedFault
from flykka.simulation.fault_injection import Injections
from flykka.simulation.scenario import Fault
from flykka.simulation.system import SimulatedSystem

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
"""Before a message of one of these something may happen: where a protocol is between two of its steps."""


COMPLETED: tuple[type[Message], ...] = (CheckpointCompleted, NotifyCheckpointComplete, CheckpointCommitted)
"""The messages at which restarted attempts begin with the state of a checkpoint."""


WRITTEN: tuple[type[Message], ...] = (SnapshotState, AcknowledgeCheckpoint, NotifyEndOfData)
"""The messages behind which the storage is written: state, metadata, the last checkpoint of a job."""


class FaultPlan:
    """Lets a run go on, with what is to happen on the way."""

    def __init__(self, system: SimulatedSystem, injections: Injections) -> None:
        self._system = system
        self._injections = injections
        self._planned: list[tuple[int, Fault]] = []
        self._waiting: list[PlannedFault] = []
        self._last_ms = 0

    @property
    def last_ms(self) -> int:
        """The time of the end of the last fault; a fault that waits for a message may never happen."""
        return max(self._last_ms, self._injections.lasts_until_ms)

    def plan(self, faults: Iterable[Fault], job_graph: JobGraph, client: Ref) -> None:
        """Place what is to happen to the next job, in the place of what has not happened to the last."""
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
        """Let so much virtual time pass, with what is due."""
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
