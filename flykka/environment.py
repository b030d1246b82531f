"""Where a program begins: StreamExecutionEnvironment, by Flink's and PyFlink's names."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from flykka.actors.errors import GraphError
from flykka.actors.graph.job_graph_generator import job_graph
from flykka.checkpoints import check_restorable, find_checkpoint
from flykka.client_actor import JobExecutionResult
from flykka.data_stream import DataStream, StreamType
from flykka.errors import ClusterError, DuplicateUidError, ProgramError, StreamTypeError
from flykka.flight_record import surviving_flight_record_path
from flykka.job_settings import JobSettings
from flykka.launch import current_launch
from flykka.local_cluster import (
    HEARTBEAT_INTERVAL_MS,
    HEARTBEAT_TIMEOUT_MS,
    ClusterSettings,
    LocalCluster,
    slots_needed,
)
from flykka.messages.ids import JobId
from flykka.messages.job_graph import (
    CheckpointingSettings,
    ExternalizedCheckpointRetention,
    JobGraph,
    OperatorKind,
)
from flykka.program import Program, at_least_one, not_negative, tried
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.trace.flight_recorder import DEFAULT_TURNS
from flykka.spark_bridge.code import SourceCode
from flykka.spark_bridge.code_registry import CodeRegistry
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.prototype import check_event_time
from flykka.spark_bridge.session import session_is_there, spark_session
from flykka.stream_graph_generator import stream_graph
from flykka.transformation import Transformation

if TYPE_CHECKING:
    from flykka.actors.graph.stream_graph import StreamGraph
    from flykka.job_client import JobClient
    from flykka.spark_bridge.prototype import SparkSession
    from flykka.spark_bridge.sources.file_source import FileSource
    from flykka.watermark_strategy import WatermarkStrategy


class StreamExecutionEnvironment(JobSettings):
    """Programs are written down in it and run on its local cluster; rows are with its Spark session.

    Made by `get_execution_environment`, and used in a `with` statement or closed by `close`. The setters return the
    environment, as Flink's do.
    """

    def __init__(self, session: SparkSession, settings: ClusterSettings, *, owns_session: bool = False) -> None:
        super().__init__()
        self.spark = session
        self._owns_session = owns_session
        self._settings = settings
        self._program = Program()
        self._registry = CodeRegistry()
        self._cluster: LocalCluster | None = None
        self._temporary: str | None = None
        self._running: list[tuple[JobClient, frozenset[str]]] = []

    @classmethod
    def get_execution_environment(
        cls,
        master: str = "local[*]",
        task_managers: int = 1,
        slots_per_task_manager: int | None = None,
        *,
        record: str | None = None,
        flight_recorder_turns: int = DEFAULT_TURNS,
        heartbeat_interval: Duration = HEARTBEAT_INTERVAL_MS,
        heartbeat_timeout: Duration = HEARTBEAT_TIMEOUT_MS,
    ) -> Self:
        """An environment over the active Spark session, or over a new one at `master`.

        The cluster of `task_managers` starts with the first job. `slots_per_task_manager` of None gives it as many
        slots as that job needs. With `record`, every turn of every actor is written to that file; without it the last
        `flight_recorder_turns` are kept in memory (0: none), and written beside the checkpoints of a job that fails.

        Raises:
            ProgramError: a number is below 1, or that of the flight recorder's turns below 0.
            DurationError: a length of time cannot be read.
            SessionError: no Spark session can be started.
        """
        slots = slots_per_task_manager
        settings = ClusterSettings(
            task_managers=at_least_one(task_managers, "number of TaskManagers"),
            slots_per_task_manager=None if slots is None else at_least_one(slots, "number of slots per TaskManager"),
            heartbeat_interval_ms=positive_duration_ms(heartbeat_interval, "heartbeat interval"),
            heartbeat_timeout_ms=positive_duration_ms(heartbeat_timeout, "heartbeat timeout"),
            record=record,
            flight_recorder_turns=not_negative(flight_recorder_turns, "number of turns of the flight recorder"),
        )
        launch = current_launch()
        adopted = session_is_there()
        session = spark_session(launch.master(master))
        environment = cls(session, launch.cluster_settings(settings), owns_session=not adopted)
        launch.environment_made(environment)
        return environment

    def from_source(
        self, source: FileSource, watermark_strategy: WatermarkStrategy, name: str, uid: str | None = None
    ) -> DataStream:
        """A stream of the rows of `source`.

        Raises:
            StreamTypeError: the event-time column is not there, or is no timestamp.
            DuplicateUidError: another operator has the uid.
            SourceError: the source has no schema to be read from it.
        """
        event_time = watermark_strategy.timestamp_column or source.event_time
        source = replace(source, event_time=event_time)
        made = Transformation(
            kind=OperatorKind.SOURCE,
            position=self._program.next_position,
            name=name,
            code=SourceCode(source=source, watermark_delay_ms=watermark_strategy.delay_ms),
            watermark_delay_ms=watermark_strategy.delay_ms,
            idle_timeout_ms=watermark_strategy.idle_timeout_ms,
            explicit_uid=uid,
        )
        prototype = source.prototype(self.spark)
        if event_time is not None:
            tried(made, lambda: check_event_time(prototype, event_time))
        elif watermark_strategy.delay_ms is not None:
            raise StreamTypeError(f"{made}: watermarks need an event time: with_timestamp_column(...) names its column")
        self._program.add(made)
        windowable = event_time if watermark_strategy.delay_ms is not None else None
        return DataStream(self._program, made, StreamType(prototype=prototype, event_time=windowable))

    def get_stream_graph(self) -> StreamGraph:
        """The operators written down since the last job, as a graph; their code is bound by this.

        Raises:
            ProgramError: there are none, or they cannot be connected as written.
        """
        self._refuse_running_uids()
        return stream_graph(self._program.transformations, self._registry, self.defaults)

    def get_job_graph(self, job_name: str = "flykka job") -> JobGraph:
        """What `execute` submits: the stream graph, chained. Raises as `get_stream_graph` does."""
        try:
            return job_graph(
                self.get_stream_graph(),
                job_id=JobId(uuid4().hex),
                name=job_name,
                checkpointing=self._checkpointing_settings(),
                restart_strategy=self.restart_strategy,
                heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
                heartbeat_timeout_ms=self._settings.heartbeat_timeout_ms,
            )
        except GraphError as impossible:
            raise ProgramError(str(impossible)) from impossible

    def execute(self, job_name: str = "flykka job") -> JobExecutionResult:
        """Run the operators written down since the last job, and wait for their end.

        Raises:
            ProgramError: there are none, or they cannot be connected as written.
            InsufficientSlotsError: the cluster has fewer slots than the job needs.
            CheckpointError: it cannot continue from the checkpoint that was given.
            JobSubmissionError: the job was refused.
            JobExecutionError: it has failed.
        """
        return self.execute_async(job_name).wait()

    def execute_async(self, job_name: str = "flykka job") -> JobClient:
        """Submit the operators written down since the last job; the client says what becomes of them.

        Raises:
            ProgramError: there are none, or they cannot be connected as written.
            InsufficientSlotsError: the cluster has fewer slots than the job needs.
            CheckpointError: it cannot continue from the checkpoint that was given.
            JobSubmissionError: the job was refused.
        """
        launch = current_launch()
        launch.settle(self)
        graph = self.get_job_graph(job_name)
        self._settings = self._settings.with_slots_for(slots_needed(graph))
        survives = graph.checkpointing.directory != self._temporary
        record = None if survives else surviving_flight_record_path(graph)
        client = self.cluster.submit(graph, self._checkpoint_to_restore(graph), flight_record=record)
        client.wait_submitted()
        self.restore_from = None
        self._running.append((client, frozenset(made.uid for made in self._program.transformations)))
        self._program = Program()
        launch.job_submitted(client, keeps_checkpoints=survives)
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
            self._cluster = LocalCluster(SparkDataPlane(self.spark, self._registry), self._settings)
        return self._cluster

    def close(self) -> None:
        """End the cluster, what still runs on it, and the Spark session if this environment has started it.

        Raises:
            TerminationTimeoutError: actors did not end in time; the rest is closed all the same.
        """
        with ExitStack() as last_first:
            if self._owns_session:
                last_first.callback(self.spark.stop)
            if self._temporary is not None:
                last_first.callback(shutil.rmtree, self._temporary, ignore_errors=True)
            if self._cluster is not None:
                last_first.callback(self._cluster.shutdown)
            self._owns_session, self._temporary, self._cluster = False, None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if raised is None:
                current_launch().block_ended(self)
        finally:
            self.close()

    def _checkpointing_settings(self) -> CheckpointingSettings:
        settings = self.checkpointing
        if settings.directory:
            return settings
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="flykka-checkpoints-")
        if settings.retention is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION:
            # The folder goes when the environment is closed: nobody is to be told that there is something in it.
            settings = replace(settings, retention=ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
        return replace(settings, directory=self._temporary)

    def _checkpoint_to_restore(self, graph: JobGraph) -> str | None:
        if self.restore_from is None:
            return None
        checkpoint = find_checkpoint(self.restore_from, self.checkpointing.directory)
        check_restorable(checkpoint, graph)
        return checkpoint.path

    def _refuse_running_uids(self) -> None:
        # The registry has one code per uid: a job that restarts must not find another job's.
        self._running = [(client, uids) for client, uids in self._running if not client.done()]
        wanted = {made.uid for made in self._program.transformations}
        for client, uids in self._running:
            if taken := sorted(uids & wanted):
                raise DuplicateUidError(f"{client.job_name!r} still runs and has the uids {', '.join(taken)}")
