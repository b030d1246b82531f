"""StreamExecutionEnvironment, with which a program begins, by Flink's and PyFlink's names."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.api.checkpoint_folder import CheckpointFolder
from flykka.api.configuration.configuration import OPTIONS
from flykka.api.configuration.environment_options import EnvironmentOptions
from flykka.api.end_of_script import EndOfScript
from flykka.api.environment_display import EnvironmentDisplay
from flykka.api.foreign_names import NamesElsewhere
from flykka.api.job_start import JobStarts
from flykka.api.launch import current_launch
from flykka.api.notebook_cells import end_earlier_job, follow_cells, keep_checkpoints, remember_job
from flykka.api.observation import Observation
from flykka.api.source_verbs import SourceVerbs
from flykka.api.streams.cached_streams import CachedStreams
from flykka.api.streams.program import Program
from flykka.api.streams.sources import ComputedFrames
from flykka.api.streams.stream_graph_generator import stream_graph
from flykka.api.submission_settings import with_submission_settings
from flykka.api.table.sql_verbs import SqlVerbs
from flykka.api.user_files import UserFiles
from flykka.api.user_hooks import UserHooks
from flykka.client.datasets import ClusterDatasets
from flykka.client.environment_jobs import EnvironmentJobs
from flykka.client.flight_record import surviving_flight_record_path
from flykka.client.job_execution_result import JobExecutionResult
from flykka.client.job_id import new_job_id
from flykka.client.listening import Attached
from flykka.client.start_settings import AUTO
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.high_availability.settings import ZooKeeperSettings
from flykka.cluster.high_availability.stores import store_address
from flykka.cluster.local_cluster import LocalCluster, slots_needed
from flykka.errors import ClusterError, JobExecutionError, ProgramError
from flykka.messages.graph.job_graph import FailoverStrategyKind, JobGraph
from flykka.messages.graph.restart_strategies import RestartStrategyConfiguration
from flykka.runtime.durations import Duration
from flykka.runtime.memory_size import MemorySize
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.spark_bridge.connectors.job_owners import JobOwners
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.session.session import session_is_there, spark_session, stop_session

if TYPE_CHECKING:
    from flykka.actors.machines.job_graph.stream_graph import StreamGraph
    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.program.prototype import SparkSession


class StreamExecutionEnvironment(
    SourceVerbs, SqlVerbs, UserFiles, UserHooks, Observation, EnvironmentDisplay, NamesElsewhere
):
    """Programs are written down in it and run on its local cluster; rows are with its Spark session.

    Made by `get_execution_environment`, and used in a `with` statement or closed by `close`. The setters return the
    environment, as Flink's do.
    """

    _foreign_names = ("environment",)

    def __init__(
        self,
        session: SparkSession,
        settings: ClusterSettings,
        options: EnvironmentOptions | None = None,
        *,
        owns_session: bool = False,
    ) -> None:
        super().__init__()
        self._session, self._owns_session = session, owns_session
        self._settings, self._options = settings, options or EnvironmentOptions()
        self._registry = CodeRegistry()
        self._datasets = ClusterDatasets(lambda: self.spark, self._registry)
        cached = CachedStreams(
            self._datasets, lambda: self._checkpoint_folder.datasets(self.checkpointing, settings.high_availability)
        )
        self._program = Program(self._registry.files, cached=cached)
        self._owners = JobOwners(
            self._registry,
            lease_ms=settings.owner_lease_ms,
            store=store_address(settings.high_availability),
            leads=lambda: self._cluster is not None and self._cluster.gateway.leads(),
        )
        self._starts = JobStarts(self._registry, self._owners)
        self._cluster: LocalCluster | None = None
        self._data_plane: SparkDataPlane | None = None
        self._checkpoint_folder = CheckpointFolder()
        self._closed = False
        self._computed = ComputedFrames()
        self._running = EnvironmentJobs(self._registry)

    @classmethod
    def get_execution_environment(
        cls,
        master: str | None = None,
        task_managers: int | None = None,
        slots_per_task_manager: int | None = None,
        *,
        max_task_managers: int | None = None,
        slot_request_timeout: Duration | None = None,
        record: str | PathLike[str] | TraceRecorder | None = None,
        flight_recorder_turns: int | None = None,
        job_store_capacity: int | None = None,
        heartbeat_interval: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
        network_buffers: int | None = None,
        network_memory_bytes: int | None = None,
        buffers_per_channel: int | None = None,
        floating_buffers_per_gate: int | None = None,
        task_manager_cpu: float | None = None,
        task_manager_memory: MemorySize | None = None,
        managed_memory: MemorySize | None = None,
        restart_strategy: RestartStrategyConfiguration | None = None,
        failover_strategy: FailoverStrategyKind | str | None = None,
        high_availability: str | PathLike[str] | ZooKeeperSettings | None = None,
        configuration: Mapping[str, object] | None = None,
    ) -> Self:
        """An environment over the active Spark session, or over a new one at `master`.

        Each argument is an option of the same name, and `configuration` may have any other of docs/options.md, such as
        `{"checkpoint_interval": "10s"}`. What is not said here comes from a file of options, and else is as that page
        says; environment variables and the options of `flykka run` win over what is said here.

        The cluster of `task_managers` starts with the first job. Without `slots_per_task_manager` it has as many slots
        as that job needs. With `record`, every turn of every actor is written to that file (a `TraceRecorder` says
        more); without it the last `flight_recorder_turns` are kept in memory (0: none), and written beside the
        checkpoints of a job that fails. Of jobs that have ended the last `job_store_capacity` can be asked about.

        Each TaskManager has `network_buffers`, each room for one batch on its way, which together hold
        `network_memory_bytes`; else whatever its tasks need. Every channel has `buffers_per_channel` of its own.

        `task_manager_cpu` and `task_manager_memory` are what each TaskManager has for its slots, equal shares unless
        operators ask for more or less (`set_resources`); `managed_memory` is the part of it that keeps state.

        `restart_strategy` and `failover_strategy` (`region` or `full`) are those of jobs that set none. With
        `high_availability`, a folder of this machine or a place in ZooKeeper, the application may be killed and run
        again: its jobs go on (docs/high_availability.md).

        Raises:
            ConfigurationError: a value is not one of its option, here, in the file or in an environment variable.
            SessionError: no Spark session can be started.
        """
        # First of all: these are the arguments, and nothing else yet.
        said = {name: value for name, value in locals().items() if value is not None and name in OPTIONS}
        launch = current_launch()
        options = launch.environment_options()
        options.say(configuration or {}, "configuration")
        options.say(said, "get_execution_environment")
        adopted, where, settings = session_is_there(), options.master(), options.cluster_settings()
        with nullcontext() if adopted else launch.starting_spark(where):
            session = spark_session(where, short_lived=launch.only_plans)
        environment = cls(session, settings, options, owns_session=not adopted)
        launch.environment_made(environment)
        keep_checkpoints(environment)
        options.apply_defaults(environment)
        options.register_files(environment)
        follow_cells(environment)
        return environment

    @property
    def spark(self) -> SparkSession:
        """The Spark session: another one than before where it was stopped during a job and started again."""
        return self._session if self._data_plane is None else self._data_plane.sessions.current

    @property
    def sql_state_ttl_ms(self) -> int | None:
        """The time that joins of streams in SQL keep rows for; None: for ever. What the launch says holds."""
        said: int | None = self._options.overrides.get("sql_state_ttl", super().sql_state_ttl_ms)
        return said

    @property
    def program(self) -> Program:
        """The transformations defined since the last job."""
        return self._program

    def get_stream_graph(self) -> StreamGraph:
        """The operators written down since the last job that lead to a sink, as a graph; their code is bound by this.

        Raises:
            ProgramError: there are none, or they cannot be connected as written.
        """
        self._running.let_go()
        self._computed.free_finished()
        operators = self._program.leading_to_sinks()
        self._computed.compute_again(operators)
        return stream_graph(operators, self._registry, self.defaults, self._settings.all_slots)

    def get_job_graph(self, job_name: str = "flykka job") -> JobGraph:
        """The graph that `execute` submits: the stream graph, chained. Raises as `get_stream_graph` does."""
        try:
            graph = job_graph(
                self.get_stream_graph(),
                job_id=new_job_id(),
                name=job_name,
                checkpointing=self._checkpoint_folder.resolve(
                    self.checkpointing,
                    self._settings.high_availability,
                    is_retention_set=self.is_retention_set,
                ),
                restart_strategy=self.resolved_restart_strategy(self._settings.restart_strategy),
                failover_strategy=self.failover_strategy or self._settings.failover_strategy,
                input_dependency_constraint=self.input_dependency_constraint,
                rescaling=self.rescaling,
                task_cancellation=self.task_cancellation,
                latency_tracking_interval_ms=self.latency_tracking_interval_ms,
                stage_timeout_ms=self.stage_timeout_ms,
                heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
                heartbeat_timeout_ms=self._settings.heartbeat_timeout_ms,
            )
        except GraphError as impossible:
            raise ProgramError(str(impossible)) from impossible
        return with_submission_settings(self, graph)

    def execute(self, job_name: str = "flykka job") -> JobExecutionResult:
        """Run the operators written down since the last job, and wait for their end.

        Raises what `execute_async` raises, and `JobExecutionError` where the job has failed.
        """
        __tracebackhide__ = True
        return self.execute_async(job_name).wait()

    def execute_async(self, job_name: str = "flykka job", *, attached: Attached = True) -> JobClient:
        """Submit the operators written down since the last job; the client says what becomes of them.

        One that is not attached hears nothing of its job until it is asked: for jobs of very many tasks. With the
        `ListeningBehaviour` `EXECUTION_RESULT` it is told the result, and no state of a task.

        Raises:
            ProgramError: there are none, or they cannot be connected as written.
            InsufficientSlotsError: the cluster has fewer slots than the job needs.
            CheckpointError: it cannot continue from the checkpoint that was given, or from where it left off.
            JobSubmissionError: the job was refused; a `DuplicateJobSubmissionError` where it would publish rows twice.
        """
        self._check_open()
        self._program.submit()
        launch = current_launch()
        launch.override_settings(self, self._options.overrides)
        launch.program_written(self, job_name)
        # Before an earlier job is ended for it: a program that makes no job takes nobody's place.
        self._program.leading_to_sinks()
        self._take_place_of(end_earlier_job(job_name))
        graph = self.get_job_graph(job_name)
        has_store = self._settings.high_availability is not None
        survives = self._checkpoint_folder.outlives_environment(graph.checkpointing.directory)
        start = self._starts.prepare_start(
            self, graph, self.spark, lambda: self._cluster_for(graph), has_store=has_store, was_named=survives
        )
        self._registry.assign(start.job_graph)
        try:
            client = self._cluster_for(start.job_graph).submit(
                start.job_graph,
                start.restore_path,
                allow_non_restored_state=self.allow_non_restored_state,
                flight_record=None if survives else surviving_flight_record_path(start.job_graph),
                attached=attached,
            )
            self._running.add(client, self.rest_address, self.rest_token)
            remember_job(client, self)
            client.wait_submitted()
        except Exception as failed:
            # A job that has failed already was accepted; any other was not.
            self._owners.release(start.job_graph.job_id, unused=not isinstance(failed, JobExecutionError))
            raise
        start.note()
        self._starts.remember(client)
        self.from_checkpoint(AUTO)
        self._computed.belong_to(client)
        self._datasets.belong_to(client)
        self._program = self._program.close(job_name)
        assert self._data_plane is not None, "the cluster that took the job has it"
        look = partial(self._data_plane.long_work, client.job_id)
        launch.job_submitted(
            client, keeps_checkpoints=survives, look=look, rest_address=self.rest_address, rest_token=self.rest_token
        )
        return client

    @property
    def cluster(self) -> LocalCluster:
        """The local cluster, started now where no job has done so yet.

        Raises:
            ClusterError: the first job is to decide how many slots there are, and has not been executed.
        """
        if self._cluster is None:
            if self._settings.slots_per_task_manager is None:
                raise ClusterError("the first job decides how many slots there are: execute it, or give their number")
            self._data_plane = SparkDataPlane(
                self.spark, self._registry, owners=self._owners, owns_session=self._owns_session
            )
            self._cluster = self._start_cluster(self._data_plane, self._settings, self._datasets)
            if self._settings.high_availability is not None:
                atexit.register(self._exit, EndOfScript())
        return self._cluster

    def _cluster_for(self, first: JobGraph) -> LocalCluster:
        self._settings = self._settings.with_slots_for(slots_needed(first))
        return self.cluster

    @property
    def pending_uids(self) -> frozenset[str]:
        """The operators written down since the last job: what the next one is made of."""
        return frozenset(made.uid for made in self._program.transformations)

    def close(self) -> None:
        """End the cluster, what still runs on it, and the Spark session if this environment has started it.

        With a store of high availability, this is the end of the application: run again, it starts from the beginning.

        Raises:
            TerminationTimeoutError: actors did not end in time; the rest is closed all the same.
        """
        self._close(concludes=True)

    def abandon(self) -> None:
        """Close, but not in order: with a store of high availability, the next run of the application continues."""
        self._close(concludes=False)

    def _exit(self, end: EndOfScript) -> None:
        """The interpreter ends, and nobody has closed this: in order where the script has come to its end."""
        self._close(concludes=end.was_reached())

    def _close(self, *, concludes: bool) -> None:
        self._closed = True
        self._owners.give_up_waiting()
        atexit.unregister(self._exit)
        with ExitStack() as last_first:
            if self._owns_session:
                last_first.callback(lambda: stop_session(self.spark))
            last_first.callback(self._checkpoint_folder.remove)
            last_first.callback(self._owners.close)
            last_first.callback(self._registry.files.close)
            last_first.callback(self._computed.free)
            keeps_files = not concludes and self._settings.high_availability is not None
            last_first.callback(self._datasets.close, keeps_files=keeps_files)
            if self._data_plane is not None:
                last_first.callback(self._data_plane.close)
            last_first.callback(self._running.close)
            if self._cluster is not None:
                last_first.callback(self._shut_down, self._cluster, concludes=concludes)
            self._owns_session, self._cluster = False, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if raised is None:
                current_launch().block_ended(self)
        finally:
            self._close(concludes=raised is None)

    def _check_open(self) -> None:
        if self._closed:
            raise ProgramError("this environment is closed: make another one with get_execution_environment(...)")

    def _program_for_source(self) -> Program:
        self._check_open()
        self._program = self._program.for_source()
        return self._program

    def _take_place_of(self, earlier: StreamExecutionEnvironment | None) -> None:
        """Close the environment that this cell made when it ran before; take over its Spark session and checkpoints."""
        if earlier is None or earlier is self:
            return
        self._checkpoint_folder.share(earlier._checkpoint_folder)
        if not list(earlier._running):
            self._owns_session, earlier._owns_session = self._owns_session or earlier._owns_session, False
            earlier.close()
