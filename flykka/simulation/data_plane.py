"""SimulatedDataPlane: an implementation of `DataPlane` with countable rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.data_plane import SplitDiscovery, WithoutCoordinators, WithoutOwners
from flykka.actors.failure_enrichers import FailureContext
from flykka.actors.task.bridge import Bridge
from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.monitoring.exception_history import FailureLabel
from flykka.messages.tasks.source import IndexRangeSplit, SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, OperatorId, ResultPartitionId, SplitId
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.props import Props
from flykka.simulation.engine import SimulatedEngine
from flykka.simulation.environment import Environment
from flykka.simulation.operators import Source


@trace_tag("data_plane.simulated")
class SimulatedDataPlane(WithoutCoordinators, WithoutOwners):
    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def check(self, job_graph: JobGraph) -> None:
        """Accept every job, because only valid jobs are generated."""

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

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> SimulatedEngine:
        return SimulatedEngine(descriptor, self._environment, report)

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        source = self._environment.program[operator.ref.uid]
        assert isinstance(source, Source), f"{operator.ref.uid} is not a source"
        return SimulatedDiscovery(source, operator.operator_id, self._environment)

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None: ...

    def end_attempts(self, job_id: JobId) -> None:
        """End the attempts that still work for the job. Their actors may not know yet that it has ended."""
        for attempt in self._environment.attempts.pop(job_id, []):
            attempt.revoke(f"job {job_id} has ended")

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        self._environment.batches_of(job_id).release_partitions(partition_ids)

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None:
        self.end_attempts(job_id)
        environment = self._environment
        batches = environment.batches_of(job_id)
        remaining = batches.unreleased()
        if remaining:
            environment.violations.append(
                f"{len(remaining)} batches of {job_id} are not released at its end, such as {remaining[0]}"
            )
        batches.release_all()
        environment.local_states_of(job_id).close()
        if not keep_staged:
            environment.discard([f"{environment.root}/staging/{job_id}"])


_SMALL_BYTES = 4 * 1024**2


class SimulatedDiscovery:
    changed: Callable[[], bool] | None = None

    def __init__(self, source: Source, operator_id: OperatorId, environment: Environment) -> None:
        self.interval_ms = source.interval_ms
        self._source = source
        self._operator_id = operator_id
        self._environment = environment

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the next splits. A position is the number of the first row without a split. Raises `OSError`."""
        self._environment.storage.look(f"{self._environment.name}/input/{self._operator_id}")
        source, first = self._source, int(position or b"0")
        last = min(first + source.splits_per_look * source.rows_per_split, source.rows)
        splits = tuple(
            IndexRangeSplit(
                split_id=SplitId(f"{self._operator_id}-{start}"),
                rows=min(source.rows_per_split, last - start),
                start=start,
                # Splits of one row represent small files of a backlog, which readers combine.
                size_bytes=_SMALL_BYTES if source.rows_per_split == 1 else None,
            )
            for start in range(first, last, source.rows_per_split)
        )
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=splits,
            finished=last == source.rows,
            begun_at=position,
            position=b"%d" % last,
            interval_ms=source.interval_ms,
        )
