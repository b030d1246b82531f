"""A data plane that moves no rows: the base of the tests' data planes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.data_plane import Engine, SplitDiscovery, WithoutCoordinators, WithoutOwners
from flykka.actors.failure_enrichers import FailureContext, FailureEnrichers
from flykka.actors.task.bridge import Bridge
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.attempt.answers import EngineFailed, StageResult
from flykka.messages.attempt.commands import ReadSplits
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.monitoring.exception_history import FailureLabel
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, ResultPartitionId
from flykka.runtime.props import Props


class NoRows(EmptyEngine):
    def read_splits(self, command: ReadSplits) -> StageResult:
        return StageResult(stage=command.stage)


class NoData(WithoutCoordinators, WithoutOwners):
    """Accepts every job, moves no rows, and records the jobs whose data it should release."""

    def __init__(self) -> None:
        self.released: list[JobId] = []
        self.enrichers = FailureEnrichers()
        self.labelled = 0

    def check(self, job_graph: JobGraph) -> None: ...

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        return ()

    def labels_failures(self, job_id: JobId) -> bool:
        return any(self.enrichers)

    def label_failure(
        self, job_id: JobId, cause: SerializedThrowable, context: FailureContext
    ) -> tuple[FailureLabel, ...]:
        self.labelled += 1
        return self.enrichers.labels(cause, context)

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge, descriptor, self)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> Engine:
        return NoRows(descriptor)

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        raise AssertionError("nobody looks for splits in these tests")

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None: ...

    def end_attempts(self, job_id: JobId) -> None: ...

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None: ...

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None:
        self.released.append(job_id)
