"""A data plane without data: every stage, snapshot and commit finishes as soon as it is requested."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from threading import Event

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.data_plane import WithoutCoordinators, WithoutOwners
from flykka.actors.failure_enrichers import FailureContext
from flykka.actors.task.bridge import Bridge
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.attempt.answers import ChainOpened, EngineFailed
from flykka.messages.attempt.commands import OpenChain
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.monitoring.exception_history import FailureLabel
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, OperatorId, ResultPartitionId
from flykka.runtime.props import Props


class Arrivals:
    """Counts arrivals from any thread, and records the time of the last expected one."""

    def __init__(self) -> None:
        self._expect(0)

    def _expect(self, wanted: int) -> None:
        self._wanted = wanted
        self._arrived = count(1)  # thread-safe without a lock
        self._complete = Event()
        self._at = 0.0

    def begin(self, wanted: int) -> None:
        """Reset the count. Must not be called concurrently with arrivals."""
        self._expect(wanted)

    def arrive(self) -> None:
        if next(self._arrived) == self._wanted:
            self._at = time.perf_counter()
            self._complete.set()

    def wait(self, timeout: float) -> float:
        """Return the time of the last expected arrival, by `time.perf_counter`."""
        if not self._complete.wait(timeout):
            raise TimeoutError(f"not all of {self._wanted} tasks have come within {timeout:.0f} s")
        return self._at


class InstantEngine(EmptyEngine):
    """Replies at once, and reports when it was opened."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, opened: Arrivals) -> None:
        super().__init__(descriptor)
        self._opened = opened

    def open_chain(self, command: OpenChain) -> ChainOpened:
        self._opened.arrive()
        return super().open_chain(command)


class NoSplits:
    interval_ms: int | None = None
    changed: Callable[[], bool] | None = None

    def __init__(self, operator_id: OperatorId) -> None:
        self._operator_id = operator_id

    def discover(self, position: bytes) -> SplitsDiscovered:
        return SplitsDiscovered(operator_id=self._operator_id, splits=(), finished=False)


class InstantDataPlane(WithoutCoordinators, WithoutOwners):
    """A data plane without rows, so there is nothing to check or release."""

    def __init__(self) -> None:
        self.opened = Arrivals()

    def check(self, job_graph: JobGraph) -> None:
        """Accept every job."""

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        return ()

    def labels_failures(self, job_id: JobId) -> bool:
        return False

    def label_failure(
        self, job_id: JobId, cause: SerializedThrowable, context: FailureContext
    ) -> tuple[FailureLabel, ...]:
        return ()

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge, descriptor, self)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> InstantEngine:
        return InstantEngine(descriptor, self.opened)

    def split_discovery(self, job_id: JobId, operator: Operator) -> NoSplits:
        return NoSplits(operator.operator_id)

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None: ...

    def end_attempts(self, job_id: JobId) -> None:
        """Do nothing, because attempts end with their actors."""

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """Do nothing, because no partitions are retained."""

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None: ...
