"""Runs the attempts of jobs on one Spark session. Thread-safe."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from flykka.actors.errors import UnboundOperatorError
from flykka.actors.task.bridge import Bridge
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId, ResultPartitionId
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.props import Props
from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.attempt.engine import SparkEngine
from flykka.spark_bridge.attempt.services import JobServices
from flykka.spark_bridge.connectors.job_owners import JobOwner, JobOwners
from flykka.spark_bridge.connectors.job_sinks import check_sinks, staging_folders
from flykka.spark_bridge.connectors.job_sources import NamedDiscovery, check_sources
from flykka.spark_bridge.connectors.staging import StagingOwner
from flykka.spark_bridge.diagnosis.jvm_metrics import jvm_metrics
from flykka.spark_bridge.errors import OperatorCoordinatorError
from flykka.spark_bridge.operators.coordinator_runner import CoordinatorRunner, coordinator_runner
from flykka.spark_bridge.operators.global_aggregates import JobAggregates
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.operators.source_reader import SourceReaders
from flykka.spark_bridge.program.sink import SinkJob
from flykka.spark_bridge.rows.batches import BatchStore, StoreStats
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.session.fast_paths import FastPaths
from flykka.spark_bridge.session.session import engine_session, settings_of
from flykka.spark_bridge.session.spark_sessions import SparkSessions
from flykka.spark_bridge.state.local_state import LocalStates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
    from flykka.actors.data_plane import SplitDiscovery
    from flykka.actors.errors import OwnershipLostError
    from flykka.actors.failure_enrichers import FailureContext
    from flykka.messages.attempt.answers import EngineFailed, WorkProgress
    from flykka.messages.monitoring.exception_history import FailureLabel
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.spark_bridge.attempt.attempt_work import AttemptWork
    from flykka.spark_bridge.operators.code_registry import CodeRegistry


logger = logging.getLogger("flykka.spark_bridge")

CANCELLATION_TIMEOUT_SECONDS = 30.0
"""The maximum time to wait for cancelled work to end."""

LONG_WORK_MS = 1_000
"""Work is reported as long work after this time."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Job:
    """A run of a job: the services of its attempts, the latest attempt of each subtask, and its staging folders.

    `user_session` is the application's, for user functions that receive a DataFrame. `name` is empty for a job that was
    not checked before it ran.
    """

    name: str
    user_session: SparkSession
    services: JobServices
    latest: dict[tuple[JobVertexId, int], SparkEngine] = field(default_factory=dict)
    staging: set[str] = field(default_factory=set)
    coordinators: dict[OperatorId, CoordinatorRunner] = field(default_factory=dict)


@trace_tag("data_plane.spark")
class SparkDataPlane:
    def __init__(
        self,
        session: SparkSession,
        registry: CodeRegistry,
        *,
        owners: JobOwners | None = None,
        owns_session: bool = False,
        cancellation_timeout_seconds: float = CANCELLATION_TIMEOUT_SECONDS,
    ) -> None:
        """Create the data plane on the user's `session`, which stays unchanged: flykka's settings are set on a clone.

        Without `owners`, the folders of a job are owned from its acceptance. With `owns_session`, flykka has started
        the session, and replaces it if it is stopped.
        """
        remember_secrets(settings_of(session))
        self.session = engine_session(session)
        self._fast_paths = FastPaths.of(session)
        self._owners = owners or JobOwners(registry)
        self._owners.on_lost = self._fail
        self.sessions = SparkSessions(session, owned=owns_session)
        self._registry = registry
        self._filesystem = FileSystem(self.session)
        self._cancellation_timeout_seconds = cancellation_timeout_seconds
        self._lock = Lock()
        self._jobs: dict[JobId, _Job] = {}
        self._ending: dict[JobId, list[_Job]] = {}
        self._names: dict[JobId, str] = {}
        self._closed = False

    def check(self, job_graph: JobGraph) -> None:
        """Check that a job can run, before it runs. May block.

        Raises:
            SessionError: the Spark session was stopped and cannot be started again, or its JVM is gone.
            UnboundOperatorError: the graph does not fit the registered code; the message names the operators.
            SinkError: a sink cannot write to its target; the message names the operator.
            SourceError: the input of a source is missing or unreadable; the message names operator and file.
        """
        self.sessions.ensure_running()
        with self._lock:
            self._names[job_graph.job_id] = job_graph.name
        registry = self._job(job_graph.job_id).services.registry
        registry.check(job_graph)
        check_sinks(job_graph, registry, self._filesystem)
        check_sources(job_graph, registry, self._filesystem)

    def own(self, job_graph: JobGraph) -> None:
        self._owners.acquire(job_graph, self._filesystem, logger.info)

    def confirm_owner(self, job_id: JobId) -> None:
        JobOwner(job_id, self._owners).confirm()

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        return tuple(self._registry.master_hooks)

    def labels_failures(self, job_id: JobId) -> bool:
        return any(self._registry.failure_enrichers)

    def label_failure(
        self, job_id: JobId, cause: SerializedThrowable, context: FailureContext
    ) -> tuple[FailureLabel, ...]:
        return self._registry.failure_enrichers.labels(cause, context)

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge, descriptor, self).with_dispatcher("pinned", may_block=False)

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        registry = self._registry.of_job(job_id)
        code = registry.resolve(operator.ref)
        if not isinstance(code, SourceCode):
            raise UnboundOperatorError(f"operator {operator.ref.uid!r} of job {job_id} is not a source")
        discovery = code.source.split_discovery(operator.operator_id, self._filesystem)
        return NamedDiscovery(discovery, operator.ref.uid, registry)

    def operator_coordinator(
        self, job_id: JobId, operator: Operator, parallelism: int, woken: Callable[[], object]
    ) -> CoordinatorRunner:
        job = self._job(job_id)
        runner = coordinator_runner(job.services.registry, operator, parallelism, woken)
        with self._lock:
            former = job.coordinators.get(operator.operator_id)
            job.coordinators[operator.operator_id] = runner
        if former is not None:
            self._close_coordinators([former])
        return runner

    def global_aggregates(self, job_id: JobId) -> JobAggregates:
        return self._job(job_id).services.aggregates

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """Finalize every sink, after all of its rows were published."""
        registry = self._job(job_id).services.registry
        JobOwner(job_id, self._owners).check()
        for vertex in vertices:
            for operator in vertex.operators:
                code = registry.resolve(operator.ref)
                if isinstance(code, SinkCode):
                    code.sink.for_job(job_id).finalize_global(self._filesystem)

    def end_attempts(self, job_id: JobId) -> None:
        """Attempts that do not end in time are logged and abandoned."""
        with self._lock:
            job = self._jobs.get(job_id)
        if job is not None:
            self._end(job, job_id)

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        with self._lock:
            job = self._jobs.get(job_id)
        if job is not None:
            job.services.store.release_partitions(frozenset(partition_ids))

    def release_job(self, job_id: JobId, *, keep_staged: bool = False, keep_owner: bool = False) -> None:
        """Free the resources of the job: batches, threads, and staged files unless a checkpoint still needs them.

        After that other processes may own the job's folders, except with `keep_owner`.
        """
        with self._lock:
            job = self._jobs.pop(job_id, None)
            if job is not None:
                self._ending.setdefault(job_id, []).append(job)
            # Another call may be running. When this call returns, its resources are freed as well.
            ending = tuple(self._ending.get(job_id, ()))
        keep_staged = keep_staged or not self._owners.still_owns(job_id)
        for each in ending:
            self._end(each, job_id)
            each.services.files.withdraw()
            each.services.local_states.close()
            each.services.store.close()
            for folder in sorted(each.staging) if not keep_staged else ():
                number = self._owners.number_of(job_id)
                StagingOwner(filesystem=self._filesystem, root=folder, number=number).delete()
        with self._lock:
            remaining = [each for each in self._ending.get(job_id, ()) if each not in ending]
            self._ending.pop(job_id, None)
            if remaining:
                self._ending[job_id] = remaining
        if not keep_owner:
            self._owners.release(job_id)

    def close(self) -> None:
        """Free the resources of all jobs, none of which runs any more, and of all jobs created later. May block."""
        with self._lock:
            self._closed = True
            job_ids = {**self._jobs, **self._ending}
        for job_id in job_ids:
            # The checkpoints of these jobs stay unchanged, and so do the staged files that a restore will publish.
            self.release_job(job_id, keep_staged=True)

    def _job(self, job_id: JobId) -> _Job:
        """Return the job. Its session is separate, with the user session's current views, functions and settings.

        If the session was replaced, the job continues in a clone of the new session.
        """
        user_session, registry = self.sessions.current, self._registry.of_job(job_id)
        with self._lock:
            job = self._jobs.get(job_id)
            if job is not None and job.services.registry is not registry:
                job.services = replace(job.services, registry=registry)
            if job is not None and job.user_session is not user_session:
                session = engine_session(user_session)
                job.services.local_states.close()
                job.user_session = user_session
                job.services = replace(
                    job.services,
                    session=session,
                    local_states=LocalStates(job.services.store, is_on=self._fast_paths.local_recovery),
                    readers=SourceReaders(session, lazy_reading=self._fast_paths.lazy_reading),
                )
            if job is None:
                services = self._new_services(engine_session(user_session), registry)
                if self._closed:
                    services.store.close()
                job = self._jobs[job_id] = _Job(
                    name=self._names.get(job_id, ""), user_session=user_session, services=services
                )
            return job

    def _new_services(self, session: SparkSession, registry: CodeRegistry) -> JobServices:
        store = BatchStore()
        return JobServices(
            sessions=self.sessions,
            session=session,
            store=store,
            local_states=LocalStates(store, is_on=self._fast_paths.local_recovery),
            readers=SourceReaders(session, lazy_reading=self._fast_paths.lazy_reading),
            aggregates=JobAggregates(),
            registry=registry,
            filesystem=self._filesystem,
            files=self._registry.files.of_job(),
            cancellation_timeout_seconds=self._cancellation_timeout_seconds,
            background_merges=self._fast_paths.background_merges,
        )

    def _end(self, job: _Job, job_id: JobId) -> None:
        with self._lock:
            attempts = tuple(job.latest.values())
            coordinators = tuple(job.coordinators.values())
            job.coordinators.clear()
        for attempt in attempts:
            attempt.end.revoke(f"job {job_id} has ended")
        self._close_coordinators(coordinators)
        deadline = monotonic() + self._cancellation_timeout_seconds
        for attempt in attempts:
            if not attempt.end.wait(max(0.0, deadline - monotonic())):
                logger.warning("%s is still running while its job %s is released", attempt.descriptor.attempt, job_id)

    def _fail(self, job_id: JobId, error: OwnershipLostError) -> None:
        with self._lock:
            job = self._jobs.get(job_id)
            attempts = () if job is None else tuple(job.latest.values())
        for attempt in attempts:
            attempt.fail(error)

    def _close_coordinators(self, coordinators: Iterable[CoordinatorRunner]) -> None:
        for coordinator in coordinators:
            try:
                coordinator.close(self._cancellation_timeout_seconds)
            except OperatorCoordinatorError as failed:
                # No caller waits for the coordinator: it was replaced, or the job has ended.
                logger.warning("%s", failed, exc_info=True)

    def long_work(self, job_id: JobId) -> tuple[WorkProgress, ...]:
        """Return the work that has run for `LONG_WORK_MS` or more. Blocks on calls to Spark.

        Raises Py4J's errors if Spark is gone.
        """
        with self._lock:
            job = self._jobs.get(job_id)
            attempts = () if job is None else tuple(job.latest.values())
        return tuple(work for attempt in attempts for work in attempt.progress(LONG_WORK_MS))

    def last_work(self, job_id: JobId, vertex_id: JobVertexId, subtask: int) -> AttemptWork | None:
        """Return the recent work of the latest attempt of a subtask; None without an attempt. Blocks on a call to
        Spark.
        """
        with self._lock:
            job = self._jobs.get(job_id)
            attempt = None if job is None else job.latest.get((vertex_id, subtask))
        return None if attempt is None else attempt.last_work()

    def jvm_metrics(self) -> dict[str, float]:
        """Return metrics of the driver's JVM; empty if it is gone. Blocks on calls to the JVM."""
        return jvm_metrics(self.sessions.current.sparkContext)

    def stats(self) -> StoreStats:
        with self._lock:
            jobs = [*self._jobs.values(), *(job for ending in self._ending.values() for job in ending)]
        return sum((job.services.store.stats() for job in jobs), StoreStats())

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> SparkEngine:
        """Create the engine of an attempt, which starts to work when the subtask's previous attempt has ended.

        Raises:
            UnboundOperatorError: no code is bound to an operator.
            ChainError: the operators do not form a valid chain.
        """
        job, subtask = self._job(descriptor.job_id), (descriptor.vertex.vertex_id, descriptor.subtask)
        staging = staging_folders(descriptor, job.services.registry)
        owner = JobOwner(descriptor.job_id, self._owners)
        with self._lock:
            sinks = SinkJob(
                name=job.name, user_session=job.user_session, owner_number=owner.number, check_owner=owner.check
            )
            predecessor = job.latest.get(subtask)
            engine = SparkEngine(descriptor, job.services, sinks, report=report, predecessor=predecessor)
            job.latest[subtask] = engine
            job.staging.update(staging)
        return engine
