"""SimulatedDataPlane: the port to the data, implemented with rows that can be counted."""

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
from flykka.simulation.operators import Source
from flykka.simulation.world import World


@trace_tag("data_plane.simulated")
class SimulatedDataPlane(WithoutCoordinators, WithoutOwners):
    """Runs the attempts of one simulation."""

    def __init__(self, world: World) -> None:
        self._world = world

    def check(self, job_graph: JobGraph) -> None:
        """Every job that is drawn can run."""

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        return ()

    def labels_failures(self, job_id: JobId) -> bool:
        return False

    def label_failure(
        self, job_id: JobId, cause: SerializedThrowable, context: FailureContext
    ) -> tuple[FailureLabel, ...]:
        return ()

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """The props of the bridge actor of one execution attempt."""
        return Props(Bridge, descriptor, self)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> SimulatedEngine:
        return SimulatedEngine(descriptor, self._world, report)

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        source = self._world.program[operator.ref.uid]
        assert isinstance(source, Source), f"{operator.ref.uid} is no source"
        return SimulatedDiscovery(source, operator.operator_id, self._world)

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """There is nothing to be done once."""

    def end_attempts(self, job_id: JobId) -> None:
        """End what still works for the job, also where its actor does not know yet that it is over."""
        for attempt in self._world.attempts.pop(job_id, []):
            attempt.revoke(f"job {job_id} is over")

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """Free what was kept in BLOCKING partitions."""
        self._world.batches_of(job_id).release_partitions(partition_ids)

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None:
        """Free what is left of the job. Attempts that have ended hold no batch."""
        self.end_attempts(job_id)
        world = self._world
        batches = world.batches_of(job_id)
        left = batches.left()
        if left:
            world.violations.append(f"{len(left)} batches of {job_id} are left when it is over, such as {left[0]}")
        batches.release_all()
        world.local_states_of(job_id).close()
        if not keep_staged:
            world.discard([f"{world.root}/staging/{job_id}"])


_SMALL_BYTES = 4 * 1024**2


class SimulatedDiscovery:
    """Finds some splits of a source at each look, until it has found all."""

    changed: Callable[[], bool] | None = None

    def __init__(self, source: Source, operator_id: OperatorId, world: World) -> None:
        self.interval_ms = source.interval_ms
        self._source = source
        self._operator_id = operator_id
        self._world = world

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The next splits; a position is the number of the first row that is not in one. Raises `OSError`."""
        self._world.storage.look(f"{self._world.name}/input/{self._operator_id}")
        source, first = self._source, int(position or b"0")
        last = min(first + source.splits_per_look * source.rows_per_split, source.rows)
        splits = tuple(
            IndexRangeSplit(
                split_id=SplitId(f"{self._operator_id}-{start}"),
                rows=min(source.rows_per_split, last - start),
                start=start,
                # Splits of a row are the small files of a backlog: readers put them together.
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
