"""SparkDataPlane: the port to the data, implemented with Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from flykka.actors.errors import UnboundOperatorError
from flykka.messages.ids import JobId, JobVertexId
from flykka.messages.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.task import TaskDeploymentDescriptor
from flykka.runtime.props import Props
from flykka.spark_bridge.attempt import Attempt
from flykka.spark_bridge.batches import BatchStore, StoreStats
from flykka.spark_bridge.bridge import SparkBridge
from flykka.spark_bridge.code import SinkCode, SourceCode
from flykka.spark_bridge.filesystem import FileSystem
from flykka.spark_bridge.services import Services
from flykka.spark_bridge.session import engine_session
from flykka.spark_bridge.sinks.job_sinks import check_sinks, staging_folders
from flykka.spark_bridge.sources.job_sources import NamedDiscovery, check_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.actors.data_plane import SplitDiscovery
    from flykka.actors.master_hooks import MasterTriggerRestoreHook
    from flykka.messages.message import Message
    from flykka.spark_bridge.code_registry import CodeRegistry


logger = logging.getLogger("flykka.spark_bridge")

CANCELLATION_TIMEOUT_SECONDS = 30.0
"""How long is waited for what was cancelled."""


class SparkDataPlane:
    """Runs attempts on one Spark session. Safe to use from any thread."""

    def __init__(
        self,
        session: SparkSession,
        registry: CodeRegistry,
        *,
        cancellation_timeout_seconds: float = CANCELLATION_TIMEOUT_SECONDS,
    ) -> None:
        """`session` is the user's and stays as it is; what we set is set on a clone."""
        self.session = engine_session(session)
        self._services = Services(
            session=self.session,
            user_session=session,
            store=BatchStore(),
            registry=registry,
            filesystem=FileSystem(self.session),
            cancellation_timeout_seconds=cancellation_timeout_seconds,
        )
        self._lock = Lock()
        self._latest: dict[tuple[JobId, JobVertexId, int], Attempt] = {}
        self._staging: dict[JobId, set[str]] = {}
        self._services_of: dict[JobId, Services] = {}

    def check(self, job_graph: JobGraph) -> None:
        """Look before a job runs whether it can. May block.

        Raises:
            UnboundOperatorError: the graph does not fit the registered code; the text names the operators.
            SinkError: a sink cannot write where it is to; the text names the operator.
            SourceError: what a source is to read is not there, or cannot be read; the text names operator and file.
        """
        services = self._services_for(job_graph.job_id)
        services.registry.check(job_graph)
        check_sinks(job_graph, services)
        check_sources(job_graph, services)

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        """The hooks of the application: those of all of its jobs."""
        return tuple(self._services.registry.master_hooks)

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """The props of the bridge actor of one execution attempt."""
        return Props(SparkBridge, descriptor, self)

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        """The discovery of a source operator."""
        code = self._services.registry.resolve(operator.ref)
        if not isinstance(code, SourceCode):
            raise UnboundOperatorError(f"operator {operator.ref.uid!r} of job {job_id} is no source")
        discovery = code.source.split_discovery(operator.operator_id, self._services.filesystem)
        return NamedDiscovery(discovery, operator.ref.uid, self._services.registry)

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """Let every sink do what it does once, when all of its rows are published."""
        services = self._services_for(job_id)
        for vertex in vertices:
            for operator in vertex.operators:
                code = services.registry.resolve(operator.ref)
                if isinstance(code, SinkCode):
                    code.sink.finalize_global(services.filesystem)

    def end_attempts(self, job_id: JobId) -> None:
        """End what still works for the job; what does not end in time is logged and left."""
        with self._lock:
            attempts = [attempt for key, attempt in self._latest.items() if key[0] == job_id]
        self._end(attempts, job_id)

    def release_job(self, job_id: JobId, *, keep_staged: bool = False) -> None:
        """Free what is left of the job: batches, threads, and staged files unless a checkpoint still needs them."""
        with self._lock:
            subtasks = [key for key in self._latest if key[0] == job_id]
            attempts = [self._latest.pop(key) for key in subtasks]
            staging = self._staging.pop(job_id, set())
            self._services_of.pop(job_id, None)
        self._end(attempts, job_id)
        self._services.store.release_job(job_id)
        for folder in staging if not keep_staged else ():
            self._services.filesystem.delete(folder)
            self._services.filesystem.delete_if_empty(folder.rsplit("/", 1)[0])

    def _services_for(self, job_id: JobId) -> Services:
        """With a session of the job's own: it has the views, functions and settings that there are by now."""
        with self._lock:
            if job_id not in self._services_of:
                own = engine_session(self._services.user_session)
                self._services_of[job_id] = replace(self._services, session=own)
            return self._services_of[job_id]

    def _end(self, attempts: list[Attempt], job_id: JobId) -> None:
        for attempt in attempts:
            attempt.end.revoke(f"job {job_id} is over")
        deadline = monotonic() + self._services.cancellation_timeout_seconds
        for attempt in attempts:
            if not attempt.end.wait(max(0.0, deadline - monotonic())):
                logger.warning("%s: job %s is released while it still runs", attempt.descriptor.attempt, job_id)

    def stats(self) -> StoreStats:
        """What the batch store holds."""
        return self._services.store.stats()

    def begin_attempt(self, descriptor: TaskDeploymentDescriptor, report: Callable[[Message], None]) -> Attempt:
        """The Spark side of an attempt; it begins to work when the attempt before it of the same subtask has ended.

        Raises:
            UnboundOperatorError: an operator has no code here.
            ChainError: the operators do not form a chain that can run.
        """
        subtask = (descriptor.job_id, descriptor.vertex.vertex_id, descriptor.subtask)
        services = self._services_for(descriptor.job_id)
        staging = staging_folders(descriptor, services.registry)
        with self._lock:
            attempt = Attempt(descriptor, services, report=report, predecessor=self._latest.get(subtask))
            self._latest[subtask] = attempt
            self._staging.setdefault(descriptor.job_id, set()).update(staging)
        return attempt
