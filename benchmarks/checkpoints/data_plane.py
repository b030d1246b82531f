"""A data plane without data: every stage, snapshot and commit is done as soon as it is asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from threading import Event

from flykka.actors.master_hooks import MasterTriggerRestoreHook
from flykka.messages.ids import JobId, OperatorId, ResultPartitionId
from flykka.messages.job_graph import JobGraph, JobVertex, Operator, OperatorKind
from flykka.messages.message import Message
from flykka.messages.source import SplitsDiscovered
from flykka.messages.stage import (
    AbortCheckpoint,
    BridgeClosed,
    BridgeOpened,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    OpenBridge,
    SnapshotState,
    StageFinished,
    StateSnapshotted,
)
from flykka.messages.state import TaskStateSnapshot
from flykka.messages.task import TaskDeploymentDescriptor
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props


class Arrivals:
    """Counts what comes from any thread, and notes when so many were there."""

    def __init__(self) -> None:
        self._expect(0)

    def _expect(self, wanted: int) -> None:
        self._wanted = wanted
        self._arrived = count(1)  # One of the few counters that need no lock.
        self._complete = Event()
        self._at = 0.0

    def begin(self, wanted: int) -> None:
        """Count from the beginning. Nobody arrives meanwhile."""
        self._expect(wanted)

    def arrive(self) -> None:
        """One more."""
        if next(self._arrived) == self._wanted:
            self._at = time.perf_counter()
            self._complete.set()

    def wait(self, timeout: float) -> float:
        """When the last one came, as `time.perf_counter` tells it."""
        if not self._complete.wait(timeout):
            raise TimeoutError(f"not all of {self._wanted} tasks have come within {timeout:.0f} s")
        return self._at


class InstantBridge(Actor):
    """Answers at once. As with rows, only a sink has something to commit."""

    def __init__(self, opened: Arrivals, *, is_sink: bool) -> None:
        self._opened = opened
        self._is_sink = is_sink

    def handle_message(self, message: Message) -> None:
        """Done."""
        task = self.context.parent
        match message:
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id):
                snapshot = _snapshotted(checkpoint_id, awaits_commit=self._is_sink)
                task.tell(StageFinished(stage=stage, snapshot=snapshot))
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                task.tell(CheckpointCommitted(checkpoint_id=checkpoint_id))
            case OpenBridge():
                self._opened.arrive()
                task.tell(BridgeOpened())
            case CloseBridge():
                task.tell(BridgeClosed())
            case AbortCheckpoint():
                pass
            case _:
                self.context.unhandled(message)


class NoSplits:
    """A folder in which there is never a file."""

    interval_ms: int | None = None

    def __init__(self, operator_id: OperatorId) -> None:
        self._operator_id = operator_id

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Nothing yet."""
        return SplitsDiscovered(operator_id=self._operator_id, splits=(), finished=False)


class InstantDataPlane:
    """Holds no rows, and so has nothing to check and nothing to release."""

    def __init__(self) -> None:
        self.opened = Arrivals()

    def check(self, job_graph: JobGraph) -> None:
        """Everything fits."""

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        """None."""
        return ()

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """A bridge that answers at once."""
        kinds = {operator.kind for operator in descriptor.vertex.operators}
        return Props(InstantBridge, self.opened, is_sink=OperatorKind.SINK in kinds)

    def split_discovery(self, job_id: JobId, operator: Operator) -> NoSplits:
        """One that finds nothing."""
        return NoSplits(operator.operator_id)

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """There is nothing to be done once."""

    def end_attempts(self, job_id: JobId) -> None:
        """They have ended with their actors."""

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """Nothing is kept."""

    def release_job(self, job_id: JobId, *, keep_staged: bool = False) -> None:
        """There is nothing."""


def _snapshotted(checkpoint_id: int, *, awaits_commit: bool) -> StateSnapshotted:
    return StateSnapshotted(
        checkpoint_id=checkpoint_id,
        state=TaskStateSnapshot(),
        size_bytes=0,
        incremental_bytes=0,
        sync_ms=0,
        async_ms=0,
        awaits_commit=awaits_commit,
    )
