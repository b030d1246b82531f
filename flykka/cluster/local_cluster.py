"""A complete cluster in this process: an actor system with JobManager, ResourceManager and TaskManagers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from flykka.actors.cluster.entrypoint import ClusterEntrypoint, ConfiguredJobManager, ConfiguredResourceManager
from flykka.actors.execution_graph_info_store.actor import await_archives_at_shutdown
from flykka.actors.machines.slots import slot_sharing_groups
from flykka.actors.machines.slots.resource_profile import share_of
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.actors.task_manager.actor import ConfiguredTaskManagers, TaskManager
from flykka.client.client_actor import Attached
from flykka.client.flight_record import flight_record_path, flight_record_writer
from flykka.client.job_client import JobClient
from flykka.client.job_manager_gateway import JobManagerGateway
from flykka.cluster.application_jobs import ApplicationJobs, IdentifiedJob
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.garbage_collection import raise_gc_threshold, restore_gc_threshold
from flykka.cluster.high_availability.stores import services_of
from flykka.cluster.job_checks import check_job
from flykka.errors import ClusterError, UnknownJobError, UnknownTaskManagerError
from flykka.messages.control.cluster import ClusterComponents, ClusterFailed, RequestClusterComponents
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.job_details import JobOverview
from flykka.messages.wire.ids import JobId
from flykka.runtime.errors import ActorDeadError
from flykka.runtime.masked_logs import mask_logs
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder

if TYPE_CHECKING:
    from flykka.actors.data_plane import DataPlane
    from flykka.runtime.recording import Recorder

START_TIMEOUT = 30.0
"""Seconds to wait until the first actors have started."""


SHUTDOWN_TIMEOUT = 30.0
"""Seconds to wait until all actors have terminated."""


def slots_needed(job_graph: JobGraph) -> int:
    """Return the number of slots: the sum of the largest parallelism in each slot sharing group."""
    return slot_sharing_groups.slots_needed(job_graph.vertices)


class LocalCluster:
    """A local cluster, which runs from its creation until `shutdown`. Use it in a `with` statement.

    Its actors run in their own actor system, or in `system`, which terminates with the cluster and keeps its recorder.

    Raises:
        ClusterError: `record` cannot be written; both `system` and `record` are set, although a system has its own
            recorder; or the high-availability store cannot be used.
    """

    def __init__(self, data_plane: DataPlane, settings: ClusterSettings, *, system: ActorSystem | None = None) -> None:
        mask_logs()
        self._services = services_of(settings.high_availability)
        self._services.rest_address = settings.rest_address
        if system is None:
            system = _new_system(settings)
        elif settings.record is not None:
            file = _file_of(settings.record)
            raise ClusterError(
                f"{file!r} cannot record the existing actor system {system.name!r}: give that system a recorder when"
                " you create it"
            )
        self._data_plane = data_plane
        self._settings = settings
        self._clients: list[JobClient] = []
        self._slots = settings.with_slots_for(1).slots_per_task_manager or 1
        self._system = system
        raise_gc_threshold()
        system.terminated.add_done_callback(restore_gc_threshold)
        self._failed: ClusterFailed | None = None
        system.event_stream.subscribe(self._on_failed, ClusterFailed)
        self._job_manager = self._system.living(self._start().job_manager)
        await_archives_at_shutdown(system)
        self._gateway = JobManagerGateway(self._system, self._job_manager, self._services)
        self._application_jobs: ApplicationJobs | None = None
        if settings.high_availability is not None:
            self._application_jobs = ApplicationJobs(self._services, self._gateway)

    def submit(
        self,
        job_graph: JobGraph,
        restore_path: str | None = None,
        *,
        allow_non_restored_state: bool = False,
        flight_record: str | None = None,
        attached: Attached = True,
    ) -> JobClient:
        """Submit a job that starts from `restore_path`, and return a client of it.

        With high availability the job must have been returned by `identify`. A client that is not attached receives no
        updates. If the job fails, the flight recorder is written to `flight_record`, or next to the job's checkpoints.

        Raises:
            ClusterError: the cluster has terminated, because one of its components failed repeatedly.
            InsufficientSlotsError: the maximum number of TaskManagers has fewer slots than the job needs;
                `InsufficientResourcesError` if an operator needs more than a TaskManager has declared.
            InsufficientNetworkBuffersError: a task needs more network buffers than a TaskManager has, or all tasks need
                more than all TaskManagers have.
        """
        if self._failed is not None:
            raise ClusterError(f"job {job_graph.name!r} has no cluster to run on: {self._failed.cause.message}")
        job_graph = replace(job_graph, slot_request_timeout_ms=self._settings.slot_request_timeout_ms)
        check_job(job_graph, self._settings, self._slots)
        write = flight_record_writer(self._system.recorder, flight_record or flight_record_path(job_graph))
        # Clients of ended jobs are dropped, because a cluster may run any number of jobs. This may take time, so it
        # is done before the submission: an interrupt must not hide a submitted job.
        self._clients = self._running()
        client = JobClient(
            self._system,
            self._job_manager,
            job_graph,
            restore_path,
            write,
            allow_non_restored_state=allow_non_restored_state,
            attached=attached,
        )
        self._clients.append(client)
        return client

    def identify(
        self,
        job_graph: JobGraph,
        restore_path: str | None = None,
        *,
        allow_non_restored_state: bool = False,
        repeats: bool = False,
        notify: Callable[[str], object],
    ) -> IdentifiedJob:
        """Find the job in the high-availability store. Waits until this driver leads.

        `restore_path` is the checkpoint from which the user wants to start. With `repeats` a finished job runs again.
        The reason for waiting is passed to `notify`.

        Raises:
            CheckpointError: the job is in the store, and no longer fits its own latest checkpoint.
            ClusterError: the store cannot be used, or belongs to another environment of this process.
        """
        assert self._application_jobs is not None, "the cluster has no high-availability store"
        return self._application_jobs.identify(
            job_graph,
            restore_path,
            allow_non_restored_state=allow_non_restored_state,
            notify=notify,
            repeats=repeats,
        )

    def check(self, job_graph: JobGraph) -> None:
        """Check whether the job can run, as `submit` does, before files are deleted for it.

        Raises the errors of `submit` and of the data plane's checks.
        """
        check_job(job_graph, self._settings, self._slots)
        self._data_plane.check(job_graph)

    def job(self, job_id: JobId | str) -> JobClient:
        """Return a new client of a running job, which receives the job's events from now on.

        Raises:
            UnknownJobError: no job with this id is running.
        """
        job_id = JobId(job_id)
        job_graph = self._gateway.running_graph(job_id, START_TIMEOUT)
        if job_graph is None:
            raise UnknownJobError(f"no job {job_id!r} runs on this cluster: it has ended, or never ran here")
        return JobClient(self._system, self._job_manager, job_graph, submits=False)

    def jobs(self) -> tuple[JobOverview, ...]:
        """Return the running jobs and recently ended jobs, in the order of submission (Flink's listJobs).

        Raises:
            ClusterError: the cluster has terminated.
        """
        try:
            return self._gateway.jobs(START_TIMEOUT)
        except ActorDeadError:
            raise ClusterError("the jobs of a cluster that was shut down are not known any more") from None

    def task_managers(self) -> tuple[str, ...]:
        """Return the names of the running TaskManagers, in start order."""
        living = (cell for cell in self._system.cells.living() if cell.parent is self._system.user)
        return tuple(cell.name for cell in living if cell.props.actor_class is TaskManager)

    def kill_task_manager(self, name: str) -> None:
        """Kill a TaskManager as if its machine had crashed: no hook runs, and no message is sent.

        Raises:
            UnknownTaskManagerError: no TaskManager with this name is running.
        """
        living = self.task_managers()
        doomed = self._system.find(f"/user/{name}")
        if name not in living or doomed is None:
            raise UnknownTaskManagerError(f"there is no TaskManager {name!r}; there are: {', '.join(living) or 'none'}")
        self._system.kill(doomed)

    def running_graph(self, job_id: JobId) -> JobGraph | None:
        """Return the graph of a running job without asking an actor, or None."""
        return next((client.job_graph for client in self._clients if client.job_id == job_id), None)

    @property
    def gateway(self) -> JobManagerGateway:
        """The gateway to the current JobManager or its successor."""
        return self._gateway

    @property
    def system(self) -> ActorSystem:
        """The actor system, for inspection."""
        return self._system

    def shutdown(self, *, concludes: bool = True) -> None:
        """Stop all actors, and release the data-plane resources of jobs that have not ended.

        With high availability the run of the application is concluded. If `concludes` is False, the next run continues
        it.

        Raises:
            TerminationTimeoutError: actors are still running after half a minute. The error names them.
        """
        running = self._running()
        for client in self._clients:
            # The details are requested now, because no actor can reply later.
            _ = client.details
        if self._application_jobs is not None:
            self._application_jobs.end(concludes=concludes)
        try:
            self._system.terminate().wait(SHUTDOWN_TIMEOUT)
        finally:
            self._services.close()
        for client in running:
            # The checkpoints are kept, and with them the staged output.
            self._data_plane.release_job(client.job_id, keep_staged=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.shutdown()

    def _running(self) -> list[JobClient]:
        return [client for client in self._clients if not client.done()]

    def _start(self) -> ClusterComponents:
        job_manager = ConfiguredJobManager(
            data_plane=self._data_plane,
            high_availability=self._services,
            job_store_capacity=self._settings.job_store_capacity,
        )
        entrypoint = Props(ClusterEntrypoint, self._resource_manager_props(), job_manager)
        started = self._system.spawn(entrypoint, "cluster-entrypoint")
        components = started.ask(lambda me: RequestClusterComponents(reply_to=me), timeout=START_TIMEOUT)
        assert isinstance(components, ClusterComponents)
        return components

    def _on_failed(self, failed: ClusterFailed) -> None:
        self._failed = failed

    def _resource_manager_props(self) -> ConfiguredResourceManager:
        total = self._settings.resources.slots_total
        size = share_of(total, self._slots)
        task_managers = ConfiguredTaskManagers(
            slots=self._slots,
            slot_size=size,
            total=total,
            data_plane=self._data_plane,
            network=self._settings.network,
            task_cancellation=self._settings.task_cancellation,
        )
        return ConfiguredResourceManager(
            workers=WorkerCounts(
                configured=self._settings.task_managers,
                maximum=self._settings.max_task_managers,
                slots=self._slots,
                slot_size=size,
                total=total,
            ),
            slot_request_timeout_ms=self._settings.slot_request_timeout_ms,
            task_manager_props=task_managers,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
            heartbeat_timeout_ms=self._settings.heartbeat_timeout_ms,
        )


def _new_system(settings: ClusterSettings) -> ActorSystem:
    recorder = _recorder(settings)
    try:
        return ActorSystem("flykka", recorder=recorder)
    except OSError as refused:
        raise ClusterError(
            f"the recording {_file_of(settings.record)!r} cannot be written: {refused.strerror}; give another file"
            " (record=..., in `flykka run` --record)"
        ) from None
    except RuntimeError as refused:
        raise ClusterError(f"{refused}: a recorder records one cluster; give this one another recorder") from None


def _file_of(record: str | TraceRecorder | None) -> str | None:
    return os.fspath(record.path) if isinstance(record, TraceRecorder) else record


def _recorder(settings: ClusterSettings) -> Recorder | None:
    if settings.record is not None:
        return settings.record if isinstance(settings.record, TraceRecorder) else TraceRecorder(settings.record)
    return FlightRecorder(settings.flight_recorder_turns) if settings.flight_recorder_turns else None
