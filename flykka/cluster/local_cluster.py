"""A whole cluster in this process: the actor system with its JobManager, its ResourceManager and its TaskManagers."""

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
"""Seconds that the first actors have to begin."""


SHUTDOWN_TIMEOUT = 30.0
"""Seconds that all actors together have to end."""


def slots_needed(job_graph: JobGraph) -> int:
    """Each slot sharing group needs as many slots as its widest vertex has subtasks."""
    return slot_sharing_groups.slots_needed(job_graph.vertices)


class LocalCluster:
    """Starts with its making and runs until `shutdown`; also a `with` statement.

    Its actors live in a system of its own, or in `system`, which ends with it and has the recorder it was made with.

    Raises:
        ClusterError: `record` cannot be written; or `system` is given and `record` is set, but what is recorded was
            decided when the system was made; or the store of high availability cannot be used.
    """

    def __init__(self, data_plane: DataPlane, settings: ClusterSettings, *, system: ActorSystem | None = None) -> None:
        mask_logs()
        self._services = services_of(settings.high_availability)
        self._services.rest_address = settings.rest_address
        if system is None:
            system = _new_system(settings)
        elif settings.record is not None:
            file = _file_of(settings.record)
            raise ClusterError(f"{file!r} cannot record {system.name!r}: give that system a recorder")
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
        """Submit a job, to start from what is at `restore_path`; the client says what becomes of it.

        With a store of high availability it is one that `identify` has given. A client that is not attached hears
        nothing of it until it is asked.

        When it fails, what the flight recorder has kept is written to `flight_record`, or beside its checkpoints.

        Raises:
            ClusterError: the cluster has ended, for one of its components ended again and again.
            InsufficientSlotsError: all TaskManagers that there may be have fewer slots together than the job needs; an
                `InsufficientResourcesError` where an operator needs more than a TaskManager has declared.
            InsufficientNetworkBuffersError: a task needs more network buffers than a TaskManager has, or all tasks need
                more than all TaskManagers have.
        """
        if self._failed is not None:
            raise ClusterError(f"job {job_graph.name!r} has no cluster to run on: {self._failed.cause.message}")
        job_graph = replace(job_graph, slot_request_timeout_ms=self._settings.slot_request_timeout_ms)
        check_job(job_graph, self._settings, self._slots)
        write = flight_record_writer(self._system.recorder, flight_record or flight_record_path(job_graph))
        client = JobClient(
            self._system,
            self._job_manager,
            job_graph,
            restore_path,
            write,
            allow_non_restored_state=allow_non_restored_state,
            attached=attached,
        )
        # Who has ended holds nothing any more, and a cluster may run any number of jobs.
        self._clients = [*self._running(), client]
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
        """The job that this is in the store of high availability. Waits until this driver leads.

        `restore_path` is where the user wants it to start; one that `repeats` is not the same that has finished. The
        reason for a wait is passed to `notify`.

        Raises:
            CheckpointError: it was kept in the store, and does not fit its own latest checkpoint any more.
            ClusterError: the store cannot be used, or belongs to another environment of this process.
        """
        assert self._application_jobs is not None, "without a store every job is a new one"
        return self._application_jobs.identify(
            job_graph,
            restore_path,
            allow_non_restored_state=allow_non_restored_state,
            notify=notify,
            repeats=repeats,
        )

    def check(self, job_graph: JobGraph) -> None:
        """Look whether the job can run, as is done when it is submitted: what is deleted for it is not, in vain.

        Raises what `submit` raises, and what the data plane has against it.
        """
        check_job(job_graph, self._settings, self._slots)
        self._data_plane.check(job_graph)

    def job(self, job_id: JobId | str) -> JobClient:
        """A client of a job that runs here, submitted by any client: it hears of the job from now on.

        Raises:
            UnknownJobError: no job of this id runs, or not any more.
        """
        job_id = JobId(job_id)
        job_graph = self._gateway.running_graph(job_id, START_TIMEOUT)
        if job_graph is None:
            raise UnknownJobError(f"no job {job_id!r} runs on this cluster: there is none of this id, or it has ended")
        return JobClient(self._system, self._job_manager, job_graph, submits=False)

    def jobs(self) -> tuple[JobOverview, ...]:
        """The jobs that run here and the last that have ended, in the order of submission (Flink's listJobs).

        Raises:
            ClusterError: the cluster has ended.
        """
        try:
            return self._gateway.jobs(START_TIMEOUT)
        except ActorDeadError:
            raise ClusterError("the jobs of a cluster that was shut down are not known any more") from None

    def task_managers(self) -> tuple[str, ...]:
        """The names of the TaskManagers that live now, in the order in which they were started."""
        living = (cell for cell in self._system.cells.living() if cell.parent is self._system.user)
        return tuple(cell.name for cell in living if cell.props.actor_class is TaskManager)

    def kill_task_manager(self, name: str) -> None:
        """End a TaskManager as when its machine is switched off: no hook runs, no message is sent.

        Raises:
            UnknownTaskManagerError: no living TaskManager has this name.
        """
        living = self.task_managers()
        doomed = self._system.find(f"/user/{name}")
        if name not in living or doomed is None:
            raise UnknownTaskManagerError(f"there is no TaskManager {name!r}; there are: {', '.join(living) or 'none'}")
        self._system.kill(doomed)

    def running_graph(self, job_id: JobId) -> JobGraph | None:
        """The graph of a job that runs, known without asking an actor; None where there is none."""
        return next((client.job_graph for client in self._clients if client.job_id == job_id), None)

    @property
    def gateway(self) -> JobManagerGateway:
        """The way to the JobManager, the present one or its successor."""
        return self._gateway

    @property
    def system(self) -> ActorSystem:
        """The actor system, for those who look inside."""
        return self._system

    def shutdown(self, *, concludes: bool = True) -> None:
        """Stop all actors, and free what jobs that had not ended hold in the data plane.

        With a store of high availability, the run of the application is concluded; without `concludes`, its
        next run continues it.

        Raises:
            TerminationTimeoutError: actors still run after half a minute; the error names them.
        """
        running = self._running()
        for client in self._clients:
            # Nobody can be asked when the actors have stopped.
            _ = client.details
        if self._application_jobs is not None:
            self._application_jobs.end(concludes=concludes)
        try:
            self._system.terminate().wait(SHUTDOWN_TIMEOUT)
        finally:
            self._services.close()
        for client in running:
            # Its checkpoints are left as they are, and with them what they will publish.
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
        # The submission of a job finds them there.
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
        raise ClusterError(f"{refused}: a recorder is for one cluster, give this one another") from None


def _file_of(record: str | TraceRecorder | None) -> str | None:
    return os.fspath(record.path) if isinstance(record, TraceRecorder) else record


def _recorder(settings: ClusterSettings) -> Recorder | None:
    if settings.record is not None:
        return settings.record if isinstance(settings.record, TraceRecorder) else TraceRecorder(settings.record)
    return FlightRecorder(settings.flight_recorder_turns) if settings.flight_recorder_turns else None
