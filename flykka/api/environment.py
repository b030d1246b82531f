"""StreamExecutionEnvironment, with which a program begins, by Flink's and PyFlink's names."""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from flykka.actors.errors import FailureEnricherError, GraphError, MasterHookError
from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.api.checkpoint_folder import CheckpointFolder
from flykka.api.configuration.configuration import applied
from flykka.api.configuration.options import Options
from flykka.api.configuration.readers import permissions
from flykka.api.configuration.resolved_options import EnvironmentOptions
from flykka.api.configuration.restart_strategies import FallbackRestartStrategyConfiguration, check_restart_strategy
from flykka.api.end_of_script import EndOfScript
from flykka.api.foreign_names import NamesElsewhere
from flykka.api.job_settings import JobSettings, check_heartbeats
from flykka.api.job_start import JobStarts
from flykka.api.launch import current_launch
from flykka.api.notebook_cells import end_earlier_job, follow_cells, keep_checkpoints, remember_job
from flykka.api.observation import Observation
from flykka.api.streams.cached_streams import CachedStreams
from flykka.api.streams.program import (
    Program,
    at_least_one,
    at_least_one_if_any,
    not_negative,
    one_of,
    parallelism_or_auto,
)
from flykka.api.streams.sources import ComputedFrames, source_stream
from flykka.api.streams.stream_graph_generator import stream_graph
from flykka.api.streams.summary import Summary, program_facts
from flykka.api.table.statement_executor import StatementExecutor
from flykka.api.table.statement_set import StatementSet
from flykka.api.user_files import UserFiles
from flykka.client.client_actor import Attached
from flykka.client.datasets import ClusterDatasets
from flykka.client.flight_record import surviving_flight_record_path
from flykka.client.job_client import new_job_id
from flykka.client.job_execution_result import JobExecutionResult
from flykka.client.running_jobs import EnvironmentJobs
from flykka.client.start_settings import AUTO
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.high_availability.stores import store_address
from flykka.cluster.local_cluster import LocalCluster, slots_needed
from flykka.errors import ClusterError, JobExecutionError, ProgramError
from flykka.messages.graph.job_graph import (
    UNLIMITED_TOLERABLE_FAILURES,
    CheckpointFailureReason,
    CheckpointingMode,
    CheckpointingSettings,
    ExternalizedCheckpointRetention,
    FailoverStrategyKind,
    InputDependencyConstraint,
    JobGraph,
    RestartStrategyConfiguration,
    ScheduleMode,
    SchedulerType,
    TolerableFailures,
)
from flykka.runtime.durations import Duration, duration_ms, format_ms, positive_duration_ms
from flykka.spark_bridge.connectors.dataframe import DataFrameSource
from flykka.spark_bridge.connectors.job_owners import JobOwners
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.session.session import session_is_there, settings_of_results, spark_session, stop_session

if TYPE_CHECKING:
    from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
    from flykka.actors.failure_enrichers import FailureEnricher
    from flykka.actors.machines.job_graph.stream_graph import StreamGraph
    from flykka.api.configuration.option import Values
    from flykka.api.runtime_mode import RuntimeExecutionMode
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.stream_graph_generator import Defaults
    from flykka.api.streams.watermark_strategy import WatermarkStrategy
    from flykka.api.table.statement_executor import StatementResult
    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.program.prototype import DataFrame, SparkSession
    from flykka.spark_bridge.program.source import Source

TITLE = "StreamExecutionEnvironment"

_SHORT_MS = 100
"""An interval below this that is given as a number may have been meant in seconds."""

_SHORT = {"EXPIRED": CheckpointFailureReason.CHECKPOINT_EXPIRED}
"""Reasons as the log and the statistics of checkpoints have them."""


class StreamExecutionEnvironment(NamesElsewhere):
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
        self.job_settings = JobSettings()
        self.statement_executor = StatementExecutor(self)
        self._session, self._owns_session = session, owns_session
        self._cluster_settings, self._options = settings, options or EnvironmentOptions()
        self._observation = Observation(self._options)
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
        configuration: Mapping[str, object] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """An environment over the active Spark session, or over a new one at `master`.

        Each argument is an option of docs/options.md, such as `checkpoint_interval="10s"`, and `configuration` has
        others by their names, such as `{"checkpoint_interval": "10s"}`. What is not said here comes from a file of
        options, and else is as that page says; environment variables and the options of `flykka run` win over what is
        said here.

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
        named: Values = {
            "master": master,
            "task_managers": task_managers,
            "slots_per_task_manager": slots_per_task_manager,
            **options,
        }
        launch = current_launch()
        said = launch.environment_options()
        said.say(configuration or {}, "configuration")
        said.say({name: each for name, each in named.items() if each is not None}, "get_execution_environment")
        adopted, where, settings = session_is_there(), said.master(), said.cluster_settings()
        with nullcontext() if adopted else launch.starting_spark(where):
            session = spark_session(where, short_lived=launch.only_plans)
        environment = cls(session, settings, said, owns_session=not adopted)
        launch.environment_made(environment)
        keep_checkpoints(environment)
        environment.job_settings = said.with_defaults(environment.job_settings)
        said.register_files(environment._files)
        follow_cells(environment)
        return environment

    # --- a program begins ---------------------------------------------------------------------------------------------

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """A stream of the rows of `source`, called after it if nothing else; without a strategy, no watermarks.

        A schema that is not declared is taken now from what is there, and stays.

        Raises:
            ProgramError: this is no source, or no watermark strategy, or the uid is empty, or the environment closed.
            StreamTypeError: the event-time column is not there, or is no timestamp; a field cannot be computed.
            DuplicateUidError: another operator has the uid.
            SourceError: the source has no schema to be read from it.
        """
        return source_stream(self._program_for_source(), self.spark, source, watermark_strategy, name, uid)

    def from_dataframe(
        self,
        frame: DataFrame,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
        *,
        partitions_per_batch: int | None = None,
    ) -> DataStream:
        """A stream of the rows of a DataFrame, which are computed now and kept until their job is over.

        So a job that restarts reads the same rows again. A batch is a group of the DataFrame's Spark partitions, as
        many as there are cores where `partitions_per_batch` does not say. A checkpoint tells which partitions were
        read: to continue from it in another process, the DataFrame must give the same rows in the same partitions
        there. One that was sorted, or read from files that do not change, does; after a shuffle it need not.

        Raises:
            ProgramError: this is no DataFrame of this Spark session, or a streaming one, or the number is below 1.
            StreamTypeError: the event-time column is not there, or is no timestamp.
            DuplicateUidError: another operator has the uid.
        """
        program = self._program_for_source()
        limit = at_least_one_if_any(partitions_per_batch, "partitions per batch")
        source = DataFrameSource(computed=self._computed.keep(self.spark, frame), partitions_limit=limit)
        return source_stream(program, self.spark, source, watermark_strategy, name, uid)

    @property
    def program(self) -> Program:
        """The transformations defined since the last job."""
        return self._program

    def _program_for_source(self) -> Program:
        self._check_open()
        self._program = self._program.for_source()
        return self._program

    # --- SQL ----------------------------------------------------------------------------------------------------------

    def create_temporary_view(
        self, name: str, stream: DataStream, *, primary_key: str | Sequence[str] | None = None
    ) -> None:
        """Let `sql` find a stream under this name, in place of whatever had it before.

        With a primary key a row takes the place of the one before it of this key: the rows are upserts. Their event
        time is for temporal joins alone (FOR SYSTEM_TIME AS OF), which ask from when on a row holds. Where they have a
        column `row_kind`, it is their kind (Flink's RowKind), and no column of the view: `-D` takes the row of the key
        away.

        Spark's own tables and views stay as they are: where one has the same name, `sql` finds the stream.

        Raises:
            ProgramError: `name` is no name, or this is no DataStream, or it has not the columns of the primary key.
        """
        self.statement_executor.create_temporary_view(name, stream, primary_key)

    def sql(self, query: str) -> DataStream:
        """The stream of the rows of a query, in the SQL of Spark, with all its functions and those of the session.

        It may read tables and views of streams, and tables and views of the Spark session, which are read again for
        every batch. Running aggregates (GROUP BY without a window) are upserts by their keys; `changelog` of the stream
        says so.

        Raises:
            SqlError: the text cannot be read, or asks for what cannot run on a stream; it names line and column.
        """
        return self.statement_executor.sql(query)

    def explain_sql(self, query: str) -> str:
        """Tell the operators that a query becomes, and the state that each keeps; nothing is added to the program.

        The last lines tell whether the rows of the result stay, and warn of state that never ends. Raises as `sql`.
        """
        return self.statement_executor.explain_sql(query)

    def execute_sql(self, statement: str) -> StatementResult:
        """Run a statement; what it is decides what comes of it.

        `INSERT INTO` and `EXECUTE STATEMENT SET BEGIN ... END` start a job, of these and of what else was written down
        since the last one and leads to a sink, and give its `JobClient`. `SHOW` and `DESCRIBE` give a pandas DataFrame,
        `EXPLAIN` a text, and what declares or sets something nothing.

        Raises:
            SqlError: it cannot be read or not run; or it is a query, whose rows `sql` gives.
        """
        return self.statement_executor.execute_sql(statement)

    def create_statement_set(self) -> StatementSet:
        """Make an empty set of INSERTs, which are executed as one job."""
        return StatementSet(self.statement_executor)

    def set_sql_state_ttl(self, ttl: Duration) -> Self:
        """Let joins of streams in queries that are written behind this keep rows no longer than `ttl`.

        That is as Flink's `table.exec.state.ttl`: it is of processing time, and holds for joins whose condition does
        not bound the event times, which keep rows for ever without it. `explain_sql` tells it.

        Raises:
            DurationError: it cannot be read.
        """
        return self._set(sql_state_ttl=duration_ms(ttl, "time-to-live"))

    @property
    def sql_state_ttl_ms(self) -> int | None:
        """The time that joins of streams in SQL keep rows for; None: for ever. What the launch says holds."""
        said: int | None = self._options.overrides.get("sql_state_ttl", self.job_settings.sql_state_ttl_ms)
        return said

    # --- settings of jobs ---------------------------------------------------------------------------------------------

    @property
    def defaults(self) -> Defaults:
        """Settings of operators that have none of their own, as they were set."""
        return self.job_settings.defaults

    @property
    def checkpointing(self) -> CheckpointingSettings:
        """Settings of checkpoints, as they were set."""
        return self.job_settings.checkpointing

    def _set(self, **values: Any) -> Self:
        """Set options of jobs by their names, in the form in which the table of options applies them."""
        self.job_settings = applied(self.job_settings, values)
        return self

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """The parallelism of operators that have none of their own; 1 unless set. `"auto"` is what the slots give.

        Raises:
            ProgramError: it is below 1.
        """
        return self._set(parallelism=parallelism_or_auto(parallelism, "parallelism"))

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """The number of key groups of operators that set none; derived from their parallelism unless set.

        Raises:
            ProgramError: it is below 1.
        """
        return self._set(max_parallelism=at_least_one(max_parallelism, "maximum parallelism"))

    def disable_operator_chaining(self) -> Self:
        """Run every operator in tasks of its own: slower, and each is seen by itself in metrics and traces."""
        return self._set(operator_chaining=False)

    def disable_batch_coalescing(self) -> Self:
        """Run a stage for every batch, even where several wait: more Spark jobs, and rows do not come out earlier."""
        return self._set(batch_coalescing=False)

    def disable_auto_generated_uids(self) -> Self:
        """Refuse programs in which an operator has no uid: its state would be lost when the program is changed."""
        return self._set(auto_generated_uids=False)

    def set_runtime_mode(self, mode: RuntimeExecutionMode | str) -> Self:
        """Run programs as streams (`STREAMING`, the default), or as batch jobs where their sources end.

        In `BATCH` mode each part of a program begins when all that it reads is finished, which is kept until nobody
        needs it: after a failure only the parts restart that have not finished. Windows fire at the end, the only
        checkpoint is the one that the sinks commit with, and no row is late. All sources must come to an end. With
        `AUTOMATIC` programs of such sources run in `BATCH` mode, all others as streams.

        Raises:
            ProgramError: there is no such mode.
        """
        return self._set(runtime_mode=mode)

    def set_schedule_mode(self, mode: ScheduleMode | str) -> Self:
        """Set when the tasks of a job are deployed: all at once when there are slots (`EAGER`, the default), or later.

        With `PIPELINED_REGION` tasks that exchange rows with each other are deployed when these have their slots, and
        when what they read from others is whole. With `LAZY_FROM_SOURCES` each task is deployed when there is something
        for it to read. There is no checkpoint before all run or have finished.

        Raises:
            ProgramError: there is no such mode.
        """
        return self._set(schedule_mode=one_of(ScheduleMode, mode, "schedule mode"))

    def set_default_input_dependency_constraint(self, constraint: InputDependencyConstraint | str) -> Self:
        """With `LAZY_FROM_SOURCES`: whether a task begins when `ANY` of its inputs can be read (unless set), or `ALL`.

        Raises:
            ProgramError: there is no such constraint.
        """
        chosen = one_of(InputDependencyConstraint, constraint, "input constraint")
        return self._set(input_dependency_constraint=chosen)

    def set_scheduler(self, scheduler: SchedulerType | str) -> Self:
        """Set the scheduler of streaming jobs (Flink's jobmanager.scheduler); the enum or its name, in either case.

        `default`, what holds unless set, waits until a job has all its slots. `adaptive` runs it with those that there
        are, from one subtask of each operator up to the parallelism that the program says: it begins with fewer where
        no more come in time, takes more when there are more, and goes on with fewer where a TaskManager is lost for
        good. Every failure restarts all tasks of such a job. Batch jobs always have the default one.

        Raises:
            ProgramError: there is no such scheduler.
        """
        return self._set(scheduler=one_of(SchedulerType, scheduler.upper(), "scheduler"))

    def set_resource_wait_timeout(self, timeout: Duration) -> Self:
        """Set how long a job of the adaptive scheduler waits for all slots, until it begins with those that there are.

        10 seconds unless set.

        Raises:
            DurationError: it is no length of time.
        """
        return self._set(resource_wait_timeout=duration_ms(timeout, "resource wait timeout"))

    def set_rescale_cooldown(self, pause: Duration) -> Self:
        """Set how long a job of the adaptive scheduler goes on as it is before it takes slots that have come.

        30 seconds unless set: each time all of its tasks restart.

        Raises:
            DurationError: it is no length of time.
        """
        return self._set(rescale_cooldown=duration_ms(pause, "rescale cooldown"))

    def set_task_cancellation(self, interval: Duration = "30s", timeout: Duration = "3min") -> Self:
        """Set how long a cancelled task may take to end. The defaults are the cluster's, shown here.

        Its bridge to Spark is told again to stop every `interval`. Where that has not ended after `timeout`, its
        TaskManager gives up, and another one takes its place; with 0 it waits without end. The bridge waits 30 s at
        most for code that blocks in the driver, and then leaves it behind.

        Raises:
            DurationError: a length of time cannot be read, or the interval is none.
        """
        return self._set(
            task_cancellation_interval=positive_duration_ms(interval, "task cancellation interval"),
            task_cancellation_timeout=duration_ms(timeout, "task cancellation timeout"),
        )

    def set_stage_timeout(self, timeout: Duration) -> Self:
        """Fail a task whose stage makes no progress for `timeout`; 0, or nothing set: it may stand for ever.

        Progress is a task of Spark's that ends, or a Spark job that begins: the time must be longer than the longest
        Spark task takes. The task is restarted as after any other failure, and what hangs is cancelled.

        Raises:
            DurationError: the length of time cannot be read.
        """
        return self._set(stage_timeout=duration_ms(timeout, "stage timeout"))

    def set_latency_tracking_interval(self, interval: Duration) -> Self:
        """Let every source subtask send a latency marker each `interval`; 0, or nothing set: none are sent.

        A marker takes the way of the rows, behind those before it, and each vertex tells how long it took to get there:
        `details.vertices` of the client, and the picture of `flykka run`. It does not wait in windows.

        Raises:
            DurationError: the interval cannot be read.
        """
        return self._set(latency_tracking_interval=duration_ms(interval, "latency tracking interval"))

    def set_rpc_timeout(self, timeout: Duration) -> Self:
        """Set how long a TaskManager may take to acknowledge that a task was deployed there (`pekko.ask.timeout`).

        A task that is not acknowledged after `timeout`, 10 s unless set, has failed, and is restarted as after any
        other failure. Of many tasks that are deployed together the time counts from the last one acknowledged.

        Raises:
            DurationError: the length of time cannot be read, or is none.
        """
        return self._set(rpc_timeout=positive_duration_ms(timeout, "RPC timeout"))

    def set_shutdown_on_attached_exit(
        self,
        enabled: bool = True,
        *,
        heartbeat_interval: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
    ) -> Self:
        """Cancel a job whose client dies (`execution.shutdown-on-attached-exit`); unless set it runs on.

        The client gives a sign of life every `heartbeat_interval`, in the beginning 30 s. Where there was none for
        `heartbeat_timeout`, in the beginning 3 min, the job is cancelled, and its exception history says why. One that
        is executed with `attached=False` runs on.

        Raises:
            DurationError: a length of time cannot be read, or is none.
            ProgramError: the timeout is not longer than the interval.
        """
        said: dict[str, int] = {}
        if heartbeat_interval is not None:
            said["client_heartbeat_interval"] = positive_duration_ms(
                heartbeat_interval, "interval of client heartbeats"
            )
        if heartbeat_timeout is not None:
            said["client_heartbeat_timeout"] = positive_duration_ms(heartbeat_timeout, "timeout of client heartbeats")
        check_heartbeats(applied(self.job_settings, said).client_heartbeats)
        return self._set(shutdown_on_attached_exit=enabled, **said)

    # --- restarts -----------------------------------------------------------------------------------------------------

    def set_restart_strategy(
        self, strategy: RestartStrategyConfiguration | FallbackRestartStrategyConfiguration
    ) -> Self:
        """Set what is done after a failure: see `RestartStrategies`.

        Unless set it is what the cluster says (`restart_strategy` of `get_execution_environment`), and where that says
        nothing it is as in Flink 2: with checkpoints a job is restarted as
        `RestartStrategies.exponential_delay_restart()` says, without checkpoints not at all.

        Raises:
            ProgramError: this is no restart strategy.
        """
        check_restart_strategy(strategy)
        return self._set(restart_strategy=strategy)

    def set_failover_strategy(self, strategy: FailoverStrategyKind | str) -> Self:
        """Set which tasks are restarted when one has failed: those of its `region`, or all of them (`full`).

        A region are tasks that exchange rows while these are made; with it those start again that read what it makes,
        and those that made what it reads where that is lost. Unless set it is what the cluster says
        (`failover_strategy` of `get_execution_environment`), and where that says nothing, `region`.

        Raises:
            ProgramError: there is no such strategy.
        """
        return self._set(failover_strategy=one_of(FailoverStrategyKind, strategy, "failover strategy"))

    def enable_approximate_local_recovery(self, enabled: bool = True) -> Self:
        """Let tasks before one that has failed run on, and ACCEPT THAT ROWS ARE LOST with each failure.

        Only the task that has failed and those behind it restart, from the last checkpoint. Lost is what was on its way
        to them, and what they had taken in since that checkpoint from tasks that run on. No row is published twice.
        What runs on has nothing to read again, so that a failure far behind costs a few seconds instead of all that was
        read since the checkpoint. It is for results that may be a little too small, such as a live dashboard.

        Of jobs that read streams, whose checkpoints are aligned, whose failover strategy is `region` and whose tasks
        are deployed at once; others are refused when they are executed.
        """
        return self._set(approximate_local_recovery=bool(enabled))

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def enable_checkpointing(
        self,
        interval: Duration,
        *,
        timeout: Duration | None = None,
        min_pause: Duration | None = None,
        max_concurrent: int | None = None,
        tolerable_failures: int | None = None,
        retained: int | None = None,
        initial_delay: Duration | None = None,
        max_concurrent_deletions: int | None = None,
    ) -> Self:
        """Take a checkpoint every `interval`. Without this only the final one is taken, at the end of the input.

        What is not given stays as it was: in the beginning as docs/options.md says, or as a file of options does.
        A number is one of milliseconds; below 100 it warns, as seconds may have been meant.
        A checkpoint that takes longer than `timeout` is given up; `min_pause` passes between two; so many failed ones
        in a row are tolerated before the job fails (`set_tolerable_checkpoint_failure_number`), and so many completed
        ones are kept. Older ones are deleted in the background, no more than `max_concurrent_deletions` at a time; no
        checkpoint begins while more than `max_concurrent` wait for that.

        The first one comes `initial_delay` after the job begins to run, and after each restart of it; `"random"` draws
        that for each job, between `min_pause` and `interval`. Unless set it comes early: until it is complete nothing
        is published.

        Raises:
            DurationError: a length of time cannot be read, or is none where there must be one.
            ProgramError: a number is below 1, or that of tolerable failures below 0, or checkpoints may overlap and are
                unaligned.
        """
        if type(interval) is int and 0 < interval < _SHORT_MS:
            warnings.warn(
                f"enable_checkpointing({interval}) takes a checkpoint every {interval} ms: a number is milliseconds."
                f" Write '{interval}s' for seconds, or '{interval}ms' if this is meant",
                stacklevel=2,
            )
        said: dict[str, Any] = {"checkpoint_interval": positive_duration_ms(interval, "checkpoint interval")}
        if timeout is not None:
            said["checkpoint_timeout"] = positive_duration_ms(timeout, "checkpoint timeout")
        if min_pause is not None:
            said["checkpoint_min_pause"] = duration_ms(min_pause, "pause between checkpoints")
        if max_concurrent is not None:
            said["max_concurrent_checkpoints"] = at_least_one(max_concurrent, "number of concurrent checkpoints")
        if retained is not None:
            said["retained_checkpoints"] = at_least_one(retained, "number of retained checkpoints")
        if initial_delay is not None:
            is_drawn = initial_delay == "random"
            said["checkpoint_initial_delay"] = (
                initial_delay if is_drawn else duration_ms(initial_delay, "initial delay")
            )
        if max_concurrent_deletions is not None:
            number = at_least_one(max_concurrent_deletions, "number of concurrent deletions")
            said["max_concurrent_checkpoint_deletions"] = number
        if tolerable_failures is not None:
            self.set_tolerable_checkpoint_failure_number(tolerable_failures)
        return self._set(**said)

    def set_checkpoint_dir(self, directory: str | PathLike[str]) -> Self:
        """Set where checkpoints are kept: a path or an fsspec address that the driver and the executors reach.

        Unless set it is a temporary folder, which `close` removes with all that is in it.
        """
        return self._set(checkpoint_dir=directory)

    def set_default_savepoint_directory(self, directory: str | PathLike[str]) -> Self:
        """Set where savepoints go that are triggered without a directory; a path or an fsspec address, as above.

        Each has a folder of its own there, `savepoint-<job>-<...>`, that no job deletes and that may be moved.

        Raises:
            ProgramError: it is empty.
        """
        if not directory:
            raise ProgramError("the default savepoint directory must be a path, not an empty text")
        return self._set(savepoint_dir=directory)

    def set_archive_dir(self, directory: str | PathLike[str]) -> Self:
        """Set where a job leaves an archive when it has ended, for `flykka history`; a path or an fsspec address.

        Unless set it is `archives` in the checkpoint directory; a job without one of these leaves none.

        Raises:
            ProgramError: it is empty.
        """
        if not directory:
            raise ProgramError("the archive directory must be a path, not an empty text")
        return self._set(archive_dir=directory)

    def set_checkpoint_fsync(self, enabled: bool) -> Self:
        """Set whether files are synced to the disk before a checkpoint, or what a sink publishes, refers to them.

        They are unless this is False. Without it a job still survives killed processes, but a machine that loses its
        power may leave checkpoints and published files that are empty.
        """
        return self._set(checkpoint_fsync=enabled)

    def set_externalized_checkpoint_retention(self, retention: ExternalizedCheckpointRetention | str) -> Self:
        """Set whether the last checkpoints stay when a job ends without being FINISHED; the enum or its name.

        `RETAIN_ON_CANCELLATION` (the default) keeps them when it is cancelled and when it fails,
        `DELETE_ON_CANCELLATION` when it fails, `NO_EXTERNALIZED_CHECKPOINTS` never. A job that is stopped always keeps
        its last one, one that comes to the end of its input none. In the temporary folder of an environment without
        `set_checkpoint_dir` none is kept unless `RETAIN_ON_CANCELLATION` is set.

        Raises:
            ProgramError: there is no such retention.
        """
        return self._set(retention=retention)

    def set_checkpoint_permissions(self, octal: int | str) -> Self:
        """Set the permissions of new folders of checkpoints, savepoints and archives: `0o750`, or `"0750"`.

        Files in them have the same without the right to execute. Unless set they are of the user alone, `0o700`,
        whatever the umask. Folders that exist keep theirs. Object stores have rules of their own.

        Raises:
            ProgramError: they are no such permissions.
        """
        try:
            return self._set(checkpoint_permissions=permissions(octal))
        except ValueError as wrong:
            raise ProgramError(f"checkpoint permissions: {wrong}") from None

    def set_checkpointing_mode(self, mode: CheckpointingMode | str) -> Self:
        """Set the guarantee for every row after a failure; the enum or its name.

        `EXACTLY_ONCE`, what holds unless set, counts it once. `AT_LEAST_ONCE` loses none, but rows that came from a
        fast input may count twice: no input waits for the barriers of the others.

        Raises:
            ProgramError: there is no such mode, or unaligned checkpoints are enabled and it is not EXACTLY_ONCE.
        """
        return self._set(checkpointing_mode=one_of(CheckpointingMode, mode, "checkpointing mode"))

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:
        """Let barriers overtake the batches that wait in channels, so that checkpoints are fast under back-pressure.

        What was overtaken becomes part of the checkpoint, and is on its way again in a job that starts from it, at
        another parallelism too. A savepoint, or the checkpoint of a job that was stopped, is always aligned.

        Raises:
            ProgramError: checkpoints may overlap (`max_concurrent`), or are not EXACTLY_ONCE.
        """
        return self._set(unaligned_checkpoints=enabled)

    def set_aligned_checkpoint_timeout(self, timeout: Duration) -> Self:
        """Let unaligned checkpoints begin aligned, and become unaligned when their barriers take longer than this.

        With 0, what holds unless set, they are unaligned from the start.

        Raises:
            DurationError: it is no length of time.
        """
        return self._set(aligned_checkpoint_timeout=duration_ms(timeout, "aligned checkpoint timeout"))

    def set_tolerable_checkpoint_failure_number(self, number: int, *causes: CheckpointFailureReason | str) -> Self:
        """Let so many checkpoints in a row fail before the job does: of each of these causes, or of all others.

        Without `causes` it is the number for all those that have none of their own (0 unless set). With them the
        failures of each cause are counted by themselves: they are values of `CheckpointFailureReason`, or their names.
        A checkpoint that completes ends the row. What a job gives up itself, as when it is restarted, never counts.

        Raises:
            ProgramError: it is below 0, or there is no such cause.
        """
        return self._tolerate(not_negative(number, "number of tolerable checkpoint failures"), causes)

    def set_fail_on_checkpointing_errors(self, fails: bool, *causes: CheckpointFailureReason | str) -> Self:
        """Have the first checkpoint that fails of one of these causes fail the job, or (False) never one of them.

        Without `causes` it holds for all those of which nothing is said. A job that is failed this way is restarted
        from its last checkpoint, as its restart strategy says.

        Raises:
            ProgramError: there is no such cause.
        """
        return self._tolerate(0 if fails else UNLIMITED_TOLERABLE_FAILURES, causes)

    def _tolerate(self, number: int, causes: tuple[CheckpointFailureReason | str, ...]) -> Self:
        if not causes:
            return self._set(tolerable_checkpoint_failures=number)
        chosen = [one_of(CheckpointFailureReason, _SHORT.get(cause, cause), "cause of failure") for cause in causes]
        numbers = {each.reason: each.number for each in self.checkpointing.tolerable_by_reason}
        numbers |= dict.fromkeys(chosen, number)
        tolerable = tuple(TolerableFailures(reason=reason, number=numbers[reason]) for reason in sorted(numbers))
        return self._set(tolerable_checkpoint_failures_by_cause=tolerable)

    # --- where the next job starts ------------------------------------------------------------------------------------

    def from_checkpoint(self, checkpoint: str | PathLike[str] | None) -> Self:
        """Say where the next job begins.

        "auto", what holds unless set: where the last run of the jobs of this name left off, as noted below a
        checkpoint directory that was named; with the input where there is none. A job that has come to its end, or
        whose rows are in the folder of a sink while there is nothing to continue from, is refused.

        "latest": the newest checkpoint that has completed below the checkpoint directory, of any job. Another text is
        the path of a checkpoint, its folder or its `_metadata` file. None: the input, from its beginning; refused where
        the folder of a sink holds rows of the job.

        A checkpoint is read when the job is executed, and stays: that job does not delete it, and its checkpoints may
        refer to files of it.

        Raises:
            ProgramError: it is empty.
        """
        if checkpoint is not None and not checkpoint:
            raise ProgramError(
                "the checkpoint to continue from must be a path, 'latest' or 'auto', not an empty text; None begins"
                " with the input"
            )
        return self._set(from_checkpoint=None if checkpoint is None else os.fspath(checkpoint))

    def from_savepoint(self, path: str | PathLike[str], allow_non_restored_state: bool = False) -> Self:
        """Let the next job that is executed start from a savepoint.

        `path` is its folder, wherever that was moved to, or its `_metadata` file; a checkpoint will do as well. It is
        read when the job is executed, and stays as it is: once the job has completed a checkpoint of its own, it may be
        deleted. Operators find their state by uid. State that no operator has is refused, unless
        `allow_non_restored_state` lets go of it; operators that are new begin without any.

        Raises:
            ProgramError: it is empty.
        """
        if not path:
            raise ProgramError("the savepoint to start from must be a path, not an empty text")
        return self._set(from_savepoint=os.fspath(path), allow_non_restored_state=allow_non_restored_state)

    def overwrite(self, *folders: str | PathLike[str]) -> Self:
        """Delete what the next job has published in these folders of its sinks, and begin with its input.

        Only the job's own files are deleted, when all that can be checked before a job runs was checked. It is refused
        where a folder is none of its sinks', or where another folder of a sink holds rows of the job.

        Raises:
            ProgramError: no folder is named, or an empty one.
        """
        if not folders or not all(folders):
            raise ProgramError("overwrite takes the folders of sinks, such as overwrite('errors')")
        return self._set(overwrite=tuple(os.fspath(folder) for folder in folders))

    # --- files and parameters for functions ---------------------------------------------------------------------------

    @property
    def _files(self) -> UserFiles:
        """Registers files: copies them at once, for every job that is executed from then on."""
        return UserFiles(self._registry.files, self.spark, self._options.overrides.get("global_job_parameters", {}))

    def add_python_file(self, path: str | PathLike[str]) -> Self:
        """Let functions import a `.py` file, the modules of a folder, or a package in a `.zip`, `.egg` or `.whl` file.

        They find it in Spark's Python workers and in the driver, before what is installed there.

        Raises:
            ProgramError: it is not there, or none of these.
        """
        self._files.add_python_file(path)
        return self

    def add_python_archive(self, path: str | PathLike[str], target_dir: str | None = None) -> Self:
        """Unpack a zip or tar file for functions, which find the folder by `ctx.get_cached_file(target_dir)`.

        Unless given, `target_dir` is the name of the file.

        Raises:
            ProgramError: it is not there or cannot be unpacked, or another file has the name.
        """
        self._files.add_python_archive(path, target_dir)
        return self

    def set_python_requirements(
        self, requirements_file_path: str | PathLike[str], requirements_cache_dir: str | PathLike[str] | None = None
    ) -> Self:
        """Install the packages of a requirements file for functions, which import them in workers and in the driver.

        They are installed by pip, here and now, into a folder that is sent to the workers. With
        `requirements_cache_dir` they come from this folder, as `pip download` fills it, and from nowhere else.

        Raises:
            ProgramError: the file or the folder is not there, or pip cannot install a requirement, which is named.
        """
        self._files.set_python_requirements(requirements_file_path, requirements_cache_dir)
        return self

    def register_cached_file(self, path: str | PathLike[str], name: str) -> Self:
        """Give functions a file, or a folder, whose path on their machine is `ctx.get_cached_file(name)`.

        It is a copy for the job, to be read only.

        Raises:
            ProgramError: it is not there, or another file has the name.
        """
        self._files.register_cached_file(path, name)
        return self

    def set_global_job_parameters(self, parameters: Mapping[str, str]) -> Self:
        """Give functions texts by name: `ctx.global_job_parameters`. They take the place of those that were set before.

        Those that the launch says (`--global-job-parameters`) stay, by their names.

        Raises:
            ProgramError: a name or a value is no text.
        """
        self._files.set_global_job_parameters(parameters)
        return self

    # --- hooks that run in the driver ---------------------------------------------------------------------------------

    def add_master_hook(self, hook: MasterTriggerRestoreHook) -> Self:
        """Have `hook` run in the driver before each checkpoint of a job, and before a job starts from one.

        What it wants back is kept in the checkpoint under its identifier. It is called for every job that is executed
        from here on.

        Raises:
            ProgramError: it is no hook, has no identifier, or another one has it.
        """
        try:
            added = self._registry.master_hooks.add(hook)
        except MasterHookError as refusal:
            raise ProgramError(str(refusal)) from None
        if not added:
            raise ProgramError(f"there is a master hook {hook.identifier!r} already; give each its own name")
        return self

    def add_failure_enricher(self, enricher: FailureEnricher | str) -> Self:
        """Have `enricher` label the failures of jobs that are executed from here on, or the one of that name.

        A name is that of an entry point of the group `flykka.failure_enrichers`. The labels are in the exception
        history. Enrichers run in the driver, off the actors: what one of them raises is logged, and hurts no job.

        Raises:
            ProgramError: it is no enricher, declares no keys or keys of another enricher, or cannot be loaded.
        """
        try:
            self._registry.failure_enrichers.add(enricher)
        except FailureEnricherError as refusal:
            raise ProgramError(str(refusal)) from None
        return self

    # --- views for others ---------------------------------------------------------------------------------------------

    def enable_rest(
        self,
        address: str | int = 0,
        *,
        token_file: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
        no_token: bool | None = None,
        connections_per_peer: int | None = None,
    ) -> Self:
        """Answer HTTP requests about the jobs at `PORT` or `HOST:PORT`, in the shape of Flink's REST API.

        Port 0 is any that is free; without a host only this machine is answered. Any other address needs a file with a
        token, which every request must bear. Without that file only requests that change something need a token:
        `rest_token`, or none with `no_token`. One address may have `connections_per_peer` connections at a time. It
        begins with the first job.

        Raises:
            MissingExtraError: the extra `web` is not installed.
            ProgramError: the address cannot be read, or needs a token; or the cluster runs already.
        """
        self._observation.enable_rest(
            rest=address,
            rest_token_file=token_file,
            rest_certificate=certificate,
            rest_key=key,
            rest_no_token=no_token,
            rest_connections_per_peer=connections_per_peer,
        )
        return self

    @property
    def rest_address(self) -> str | None:
        """The URL of the REST interface; None where there is none, or not yet."""
        return self._observation.rest_address

    @property
    def rest_token(self) -> str | None:
        """The token that requests which change something must bear; None where they need none, or not yet."""
        return self._observation.rest_token

    def enable_open_telemetry(self, endpoint: str, *, interval: Duration = "30s") -> Self:
        """Send metrics, and checkpoints and restarts as spans, to a receiver of OTLP by HTTP.

        `endpoint` is its URL, as in `http://localhost:4318`. It begins with the first job, on a thread of its own, and
        ends with the cluster. Where nobody answers there, that is logged once, and jobs go on.

        Raises:
            MissingExtraError: the extra `otel` is not installed.
            ProgramError: the endpoint is no URL, or the interval cannot be read; or the cluster runs already.
        """
        self._observation.report(otel=endpoint, otel_interval=interval)
        return self

    def enable_metric_log(self, interval: Duration = "60s") -> Self:
        """Log metrics with the logger `flykka.metrics`, at level INFO: a line for each subtask, and for each job.

        Raises:
            ProgramError: the interval cannot be read, or the cluster runs already.
        """
        self._observation.report(metric_log_interval=interval)
        return self

    @property
    def task_manager_budget(self) -> str:
        """The resources that each TaskManager has declared, in words; nothing where it has declared none."""
        return str(self._cluster_settings.resources)

    def __repr__(self) -> str:
        return str(self._summary())

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self) -> Summary:
        if self._closed:
            return Summary(title=f"{TITLE}, closed", facts=(("next", "get_execution_environment(...) makes another"),))
        running = [f"{client.job_name!r} {client.status}" for client in self._running]
        facts = (
            ("Spark", f"{self.spark.version} on {self.spark.sparkContext.master}"),
            ("checkpoints", _checkpoints(self.checkpointing)),
            *([("TaskManager", self.task_manager_budget)] if self.task_manager_budget else []),
            ("jobs", ", ".join(running) or "none is running"),
            *program_facts(self.program),
        )
        return Summary(title=TITLE, facts=facts)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def get_stream_graph(self) -> StreamGraph:
        """The operators written down since the last job that lead to a sink, as a graph; their code is bound by this.

        Raises:
            ProgramError: there are none, or they cannot be connected as written.
        """
        self._running.let_go()
        self._computed.free_finished()
        operators = self._program.leading_to_sinks()
        self._computed.compute_again(operators)
        return stream_graph(operators, self._registry, self.defaults, self._cluster_settings.all_slots)

    def get_job_graph(self, job_name: str = "flykka job") -> JobGraph:
        """The graph that `execute` submits: the stream graph, chained. Raises as `get_stream_graph` does."""
        settings, cluster = self.job_settings, self._cluster_settings
        try:
            graph = job_graph(
                self.get_stream_graph(),
                job_id=new_job_id(),
                name=job_name,
                checkpointing=self._checkpoint_folder.resolve(
                    settings.checkpointing, cluster.high_availability, is_retention_set=settings.is_retention_set
                ),
                restart_strategy=settings.resolved_restart_strategy(cluster.restart_strategy),
                failover_strategy=settings.failover_strategy or cluster.failover_strategy,
                input_dependency_constraint=settings.input_dependency_constraint,
                rescaling=settings.rescaling,
                task_cancellation=settings.task_cancellation,
                latency_tracking_interval_ms=settings.latency_tracking_interval_ms or None,
                stage_timeout_ms=settings.stage_timeout_ms or None,
                heartbeat_interval_ms=cluster.heartbeat_interval_ms,
                heartbeat_timeout_ms=cluster.heartbeat_timeout_ms,
            )
        except GraphError as impossible:
            raise ProgramError(str(impossible)) from impossible
        heartbeat, decisive = settings.attached_client_heartbeat, settings_of_results(self.spark)
        return replace(
            graph, rpc_timeout_ms=settings.rpc_timeout_ms, client_heartbeat=heartbeat, session_settings=decisive
        )

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
        self.job_settings = launch.overridden(self.job_settings, self._options.overrides)
        launch.program_written(self, job_name)
        # Before an earlier job is ended for it: a program that makes no job takes nobody's place.
        self._program.leading_to_sinks()
        self._take_place_of(end_earlier_job(job_name))
        graph = self.get_job_graph(job_name)
        has_store = self._cluster_settings.high_availability is not None
        survives = self._checkpoint_folder.outlives_environment(graph.checkpointing.directory)
        start = self._starts.prepare_start(
            self.job_settings,
            graph,
            self.spark,
            lambda: self._cluster_for(graph),
            has_store=has_store,
            was_named=survives,
        )
        self._registry.assign(start.job_graph)
        try:
            client = self._cluster_for(start.job_graph).submit(
                start.job_graph,
                start.restore_path,
                allow_non_restored_state=self.job_settings.start.allow_non_restored_state,
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
    def pending_uids(self) -> frozenset[str]:
        """The operators written down since the last job: what the next one is made of."""
        return frozenset(made.uid for made in self._program.transformations)

    def _take_place_of(self, earlier: StreamExecutionEnvironment | None) -> None:
        """Close the environment that this cell made when it ran before; take over its Spark session and checkpoints."""
        if earlier is None or earlier is self:
            return
        self._checkpoint_folder.share(earlier._checkpoint_folder)
        if not list(earlier._running):
            self._owns_session, earlier._owns_session = self._owns_session or earlier._owns_session, False
            earlier.close()

    # --- the cluster and the session ----------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The Spark session: another one than before where it was stopped during a job and started again."""
        return self._session if self._data_plane is None else self._data_plane.sessions.current

    @property
    def cluster(self) -> LocalCluster:
        """The local cluster, started now where no job has done so yet.

        Raises:
            ClusterError: the first job is to decide how many slots there are, and has not been executed.
        """
        if self._cluster is None:
            if self._cluster_settings.slots_per_task_manager is None:
                raise ClusterError("the first job decides how many slots there are: execute it, or give their number")
            self._data_plane = SparkDataPlane(
                self.spark, self._registry, owners=self._owners, owns_session=self._owns_session
            )
            self._cluster = self._observation.start_cluster(self._data_plane, self._cluster_settings, self._datasets)
            if self._cluster_settings.high_availability is not None:
                atexit.register(self._exit, EndOfScript())
        return self._cluster

    def _cluster_for(self, first: JobGraph) -> LocalCluster:
        self._cluster_settings = self._cluster_settings.with_slots_for(slots_needed(first))
        return self.cluster

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
            keeps_files = not concludes and self._cluster_settings.high_availability is not None
            last_first.callback(self._datasets.close, keeps_files=keeps_files)
            if self._data_plane is not None:
                last_first.callback(self._data_plane.close)
            last_first.callback(self._running.close)
            if self._cluster is not None:
                last_first.callback(self._observation.shut_down, self._cluster, concludes=concludes)
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


def _checkpoints(settings: CheckpointingSettings) -> str:
    where = f", in {settings.directory}" if settings.directory else ""
    if settings.interval_ms is None:
        return f"only a final one{where}; enable_checkpointing('10s') takes one every 10 s"
    return f"every {format_ms(settings.interval_ms)}{where}"
