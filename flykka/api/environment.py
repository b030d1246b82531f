"""StreamExecutionEnvironment, the entry point of programs, with method names from Flink and PyFlink."""

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
from flykka.api.job_settings import JobSettings, check_heartbeats
from flykka.api.job_start import JobStarts
from flykka.api.launch import current_launch
from flykka.api.migration_hints import MigrationHints
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
from flykka.api.streams.stream_type import ChangelogMode
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
"""Intervals below this many milliseconds, passed as a number, may have been meant as seconds."""

_SHORT = {"EXPIRED": CheckpointFailureReason.CHECKPOINT_EXPIRED}
"""Failure reasons under their names in the log and in the checkpoint statistics."""


class StreamExecutionEnvironment(MigrationHints):
    """Builds a program and runs it on a local cluster; a Spark session processes the rows.

    Created by `get_execution_environment`. Use it in a `with` statement, or call `close`. Setters return the
    environment.
    """

    _hint_tables = ("environment",)

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
        """Return an environment that uses the active Spark session, or a new session at `master`.

        Each argument is an option of docs/options.md, for example `checkpoint_interval="10s"`; `configuration` takes
        further options by name, for example `{"checkpoint_interval": "10s"}`. Other options come from the options file,
        or have the default on that page. Environment variables and `flykka run` override all of them.

        The cluster of `task_managers` starts with the first job. Without `slots_per_task_manager` it gets as many slots
        as that job needs. With `record`, every turn of every actor is written to that file (see `TraceRecorder`).
        Otherwise the last `flight_recorder_turns` are kept in memory (0: no turns), and written next to the checkpoints
        of a job that fails. Details of the last `job_store_capacity` ended jobs remain available.

        Each TaskManager has `network_buffers`, which share `network_memory_bytes`. Each buffer has room for one batch
        in flight; by default there are as many as the tasks need. Each channel has `buffers_per_channel` exclusive
        buffers.

        `task_manager_cpu` and `task_manager_memory` are divided evenly among the slots of a TaskManager, unless
        operators request other amounts (`set_resources`). `managed_memory` is the share of the memory for state.

        `restart_strategy` and `failover_strategy` (`region` or `full`) apply to jobs without their own. With
        `high_availability`, a local folder or an address of ZooKeeper, the application may be killed and run again: its
        jobs continue (docs/high_availability.md).

        Raises:
            ConfigurationError: an option has an invalid value, here, in the file or in an environment variable.
            SessionError: no Spark session can be started.
        """
        arguments: Values = {
            "master": master,
            "task_managers": task_managers,
            "slots_per_task_manager": slots_per_task_manager,
            **options,
        }
        launch = current_launch()
        resolved = launch.environment_options()
        resolved.set_options(configuration or {}, "configuration")
        resolved.set_options(
            {name: each for name, each in arguments.items() if each is not None}, "get_execution_environment"
        )
        adopted, address, settings = session_is_there(), resolved.master(), resolved.cluster_settings()
        with nullcontext() if adopted else launch.starting_spark(address):
            session = spark_session(address, short_lived=launch.only_plans)
        environment = cls(session, settings, resolved, owns_session=not adopted)
        launch.environment_created(environment)
        keep_checkpoints(environment)
        environment.job_settings = resolved.with_defaults(environment.job_settings)
        resolved.register_files(environment._files)
        follow_cells(environment)
        return environment

    # --- sources ------------------------------------------------------------------------------------------------------

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Add a source to the program and return the stream of its rows.

        `name` defaults to a name derived from the source. Without a strategy the stream has no watermarks. If no schema
        is declared, it is inferred now from the existing data, and does not change later.

        Raises:
            ProgramError: an argument has the wrong type, the uid is empty, or the environment is closed.
            StreamTypeError: the event-time column is missing or is not a timestamp; or a field cannot be computed.
            DuplicateUidError: another operator has the uid.
            SourceError: no schema can be read from the source.
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
        """Return a stream of the rows of a DataFrame, which is computed now and retained until the job has ended.

        So a job that restarts reads the same rows again. A batch consists of `partitions_per_batch` Spark partitions of
        the DataFrame, by default as many as there are cores. Checkpoints record which partitions were read. To continue
        from a checkpoint in another process, the DataFrame must have the same rows in the same partitions there. That
        holds for a sorted DataFrame and for files that do not change, but not always after a shuffle.

        Raises:
            ProgramError: `frame` is streaming or not a DataFrame of this Spark session, or the number is below 1.
            StreamTypeError: the event-time column is missing or is not a timestamp.
            DuplicateUidError: another operator has the uid.
        """
        program = self._program_for_source()
        limit = at_least_one_if_any(partitions_per_batch, "partitions per batch")
        source = DataFrameSource(computed=self._computed.keep(self.spark, frame), partitions_limit=limit)
        return source_stream(program, self.spark, source, watermark_strategy, name, uid)

    @property
    def program(self) -> Program:
        """The operators defined since the last job."""
        return self._program

    def _program_for_source(self) -> Program:
        self._check_open()
        self._program = self._program.for_source()
        return self._program

    # --- SQL ----------------------------------------------------------------------------------------------------------

    def create_temporary_view(
        self,
        name: str,
        stream: DataStream,
        *,
        primary_key: str | Sequence[str] | None = None,
        changelog_mode: ChangelogMode | str = ChangelogMode.UPSERT,
    ) -> None:
        """Register a stream as a view that `sql` can read, replacing any earlier view with this name.

        With a primary key the stream is a changelog of upserts: a row replaces the previous row with its key. The event
        time of such a view is used only by temporal joins (FOR SYSTEM_TIME AS OF), as the time from which a row is
        valid. A column `row_kind` is Flink's RowKind and not part of the view: `-D` deletes the row.

        With the changelog mode "all" (Flink's `ChangelogMode.all()`) rows of kind `-U` and `-D` contain all values of
        the replaced or deleted row, as in Debezium's `before`. Queries then need no state to look them up.

        Spark's own tables and views are not changed; the stream hides a Spark table or view with the same name.

        Raises:
            ProgramError: the name or the mode is invalid, `stream` is not a DataStream, or a column is missing.
        """
        self.statement_executor.create_temporary_view(name, stream, primary_key, changelog_mode)

    def sql(self, query: str) -> DataStream:
        """Return the stream of the rows of a query in Spark SQL.

        The query may use all functions of Spark and of the session, views of streams, and tables of the Spark session.
        Tables are read again for every batch. Running aggregates (GROUP BY without a window) produce upserts by their
        keys; see `changelog` of the stream.

        Raises:
            SqlError: the query is invalid or cannot run on a stream; the error contains the line and column.
        """
        return self.statement_executor.sql(query)

    def explain_sql(self, query: str) -> str:
        """Return a text that lists the operators of a query and their state, without adding them to the program.

        The last lines state whether the result is append-only, and warn of unbounded state. Raises the errors of `sql`.
        """
        return self.statement_executor.explain_sql(query)

    def execute_sql(self, statement: str) -> StatementResult:
        """Run a statement; the type of the result depends on the statement.

        `INSERT INTO` and `EXECUTE STATEMENT SET BEGIN ... END` submit a job and return its `JobClient`; the job also
        contains all other operators defined since the last job that lead to a sink. `SHOW` and `DESCRIBE` return a
        pandas DataFrame, `EXPLAIN` returns a text, declarations and settings return None.

        Raises:
            SqlError: the statement is invalid or cannot be run, or is a query, which `sql` runs.
        """
        return self.statement_executor.execute_sql(statement)

    def create_statement_set(self) -> StatementSet:
        """Return an empty set of INSERTs that are executed as one job."""
        return StatementSet(self.statement_executor)

    def set_sql_mini_batch_latency(self, latency: Duration) -> Self:
        """Set how long operators over changing rows of later jobs wait for more rows, at most until the next barrier.

        Corresponds to Flink's `table.exec.mini-batch.allow-latency`. With 0 each batch is processed when it arrives.

        Raises:
            DurationError: `latency` cannot be parsed.
        """
        return self._set(sql_mini_batch_latency=duration_ms(latency, "latency of mini-batches"))

    def set_sql_state_ttl(self, ttl: Duration) -> Self:
        """Limit how long operators in later SQL queries retain rows in state, in processing time.

        Corresponds to Flink's `table.exec.state.ttl`. The limit applies to joins whose condition does not bound the
        event times, and to results that are computed again when rows of their key change; without a limit these
        retain rows forever. `explain_sql` shows the limit of each operator.

        Raises:
            DurationError: `ttl` cannot be parsed.
        """
        return self._set(sql_state_ttl=duration_ms(ttl, "time-to-live"))

    @property
    def sql_state_ttl_ms(self) -> int | None:
        """Milliseconds for which operators in SQL retain rows; None: forever. The launcher's value takes precedence."""
        ttl_ms: int | None = self._options.overrides.get("sql_state_ttl", self.job_settings.sql_state_ttl_ms)
        return ttl_ms

    # --- settings of jobs ---------------------------------------------------------------------------------------------

    @property
    def defaults(self) -> Defaults:
        """The default settings of operators."""
        return self.job_settings.defaults

    @property
    def checkpointing(self) -> CheckpointingSettings:
        """The settings of checkpoints."""
        return self.job_settings.checkpointing

    def _set(self, **values: Any) -> Self:
        """Set options of jobs by name, with values that are already parsed."""
        self.job_settings = applied(self.job_settings, values)
        return self

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """Set the default parallelism of operators, initially 1; `"auto"` means the number of slots.

        Raises:
            ProgramError: the parallelism is below 1.
        """
        return self._set(parallelism=parallelism_or_auto(parallelism, "parallelism"))

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the default number of key groups of operators; by default it is derived from their parallelism.

        Raises:
            ProgramError: the number is below 1.
        """
        return self._set(max_parallelism=at_least_one(max_parallelism, "maximum parallelism"))

    def disable_operator_chaining(self) -> Self:
        """Run every operator in its own tasks: slower, but metrics and traces show each operator separately."""
        return self._set(operator_chaining=False)

    def disable_batch_coalescing(self) -> Self:
        """Run one stage per batch even if several batches are queued: more Spark jobs, but no earlier results."""
        return self._set(batch_coalescing=False)

    def disable_auto_generated_uids(self) -> Self:
        """Refuse programs with operators without a uid, because a change of the program would lose their state."""
        return self._set(auto_generated_uids=False)

    def set_runtime_mode(self, mode: RuntimeExecutionMode | str) -> Self:
        """Set whether programs run as streaming jobs (`STREAMING`, the default) or as batch jobs.

        In `BATCH` mode a task starts when all of its input is complete. Intermediate results are retained until no
        consumer needs them, so that only unfinished tasks restart after a failure. Windows fire at the end of the
        input, no row is late, and the only checkpoint is the final one, with which the sinks commit. All sources must
        be bounded. `AUTOMATIC` selects `BATCH` if all sources are bounded, else `STREAMING`.

        Raises:
            ProgramError: there is no such mode.
        """
        return self._set(runtime_mode=mode)

    def set_schedule_mode(self, mode: ScheduleMode | str) -> Self:
        """Set when the tasks of a job are deployed: together when all have slots (`EAGER`, the default), or later.

        With `PIPELINED_REGION` each region of tasks that exchange rows is deployed when it has its slots and the
        results that it reads from other regions are complete. With `LAZY_FROM_SOURCES` each task is deployed when there
        is input for it. No checkpoint is taken before all tasks are running or have finished.

        Raises:
            ProgramError: there is no such mode.
        """
        return self._set(schedule_mode=one_of(ScheduleMode, mode, "schedule mode"))

    def set_default_input_dependency_constraint(self, constraint: InputDependencyConstraint | str) -> Self:
        """Set whether, with `LAZY_FROM_SOURCES`, a task starts when `ANY` (default) or `ALL` inputs can be read.

        Raises:
            ProgramError: there is no such constraint.
        """
        chosen = one_of(InputDependencyConstraint, constraint, "input constraint")
        return self._set(input_dependency_constraint=chosen)

    def set_scheduler(self, scheduler: SchedulerType | str) -> Self:
        """Set the scheduler of streaming jobs (Flink's jobmanager.scheduler); the enum or its name, in either case.

        `default` waits until a job has all its slots. `adaptive` runs the job with the available slots, at any
        parallelism from 1 to that of the program. It starts with fewer slots if no more arrive in time, scales up when
        more arrive, and scales down when a TaskManager is lost for good. Every failure restarts all tasks of such a
        job. Batch jobs always use `default`.

        Raises:
            ProgramError: there is no such scheduler.
        """
        chosen = scheduler.upper() if isinstance(scheduler, str) else scheduler
        return self._set(scheduler=one_of(SchedulerType, chosen, "scheduler"))

    def set_resource_wait_timeout(self, timeout: Duration) -> Self:
        """Set how long the adaptive scheduler waits for all slots before it starts a job with fewer; 10 s by default.

        Raises:
            DurationError: `timeout` cannot be parsed.
        """
        return self._set(resource_wait_timeout=duration_ms(timeout, "resource wait timeout"))

    def set_rescale_cooldown(self, pause: Duration) -> Self:
        """Set how long the adaptive scheduler waits after a rescale before it uses new slots; 30 s by default.

        Raises:
            DurationError: `pause` cannot be parsed.
        """
        return self._set(rescale_cooldown=duration_ms(pause, "rescale cooldown"))

    def set_task_cancellation(self, interval: Duration = "30s", timeout: Duration = "3min") -> Self:
        """Set how long a cancelled task may take to terminate.

        Every `interval` the task's bridge to Spark is asked again to stop. If the task has not terminated after
        `timeout`, its TaskManager terminates and is replaced; 0 means no limit. The bridge waits at most 30 s for code
        that blocks in the driver, and then abandons it. The parameter defaults are the defaults of the cluster.

        Raises:
            DurationError: a duration cannot be parsed, or the interval is 0.
        """
        return self._set(
            task_cancellation_interval=positive_duration_ms(interval, "task cancellation interval"),
            task_cancellation_timeout=duration_ms(timeout, "task cancellation timeout"),
        )

    def set_stage_timeout(self, timeout: Duration) -> Self:
        """Fail a task whose stage makes no progress for `timeout`; 0, the default, means no limit.

        Progress is a Spark task that ends or a Spark job that starts: the timeout must be longer than the longest Spark
        task. The task restarts as after any other failure, and the hanging Spark job is cancelled.

        Raises:
            DurationError: `timeout` cannot be parsed.
        """
        return self._set(stage_timeout=duration_ms(timeout, "stage timeout"))

    def set_latency_tracking_interval(self, interval: Duration) -> Self:
        """Make every source subtask send a latency marker each `interval`; 0, the default, disables markers.

        A marker travels through the channels after the rows before it, and each vertex reports how long it took to
        arrive: in `details.vertices` of the client and in the display of `flykka run`. Markers do not wait in windows.

        Raises:
            DurationError: `interval` cannot be parsed.
        """
        return self._set(latency_tracking_interval=duration_ms(interval, "latency tracking interval"))

    def set_rpc_timeout(self, timeout: Duration) -> Self:
        """Set how long a TaskManager may take to acknowledge a deployment (`pekko.ask.timeout`); 10 s by default.

        A task that is not acknowledged in time fails and restarts as after any other failure. If many tasks are
        deployed together, the timeout starts at the last acknowledgement.

        Raises:
            DurationError: `timeout` cannot be parsed, or is 0.
        """
        return self._set(rpc_timeout=positive_duration_ms(timeout, "RPC timeout"))

    def set_shutdown_on_attached_exit(
        self,
        enabled: bool = True,
        *,
        heartbeat_interval: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
    ) -> Self:
        """Cancel a job if its client dies (`execution.shutdown-on-attached-exit`); by default the job continues.

        The client sends a heartbeat every `heartbeat_interval` (default 30 s). If no heartbeat arrives for
        `heartbeat_timeout` (default 3 min), the job is cancelled and its exception history contains the reason. Jobs
        executed with `attached=False` are not affected.

        Raises:
            DurationError: a duration cannot be parsed, or is 0.
            ProgramError: the timeout is not longer than the interval.
        """
        values: dict[str, int] = {}
        if heartbeat_interval is not None:
            values["client_heartbeat_interval"] = positive_duration_ms(
                heartbeat_interval, "interval of client heartbeats"
            )
        if heartbeat_timeout is not None:
            values["client_heartbeat_timeout"] = positive_duration_ms(heartbeat_timeout, "timeout of client heartbeats")
        check_heartbeats(applied(self.job_settings, values).client_heartbeats)
        return self._set(shutdown_on_attached_exit=enabled, **values)

    # --- restarts -----------------------------------------------------------------------------------------------------

    def set_restart_strategy(
        self, strategy: RestartStrategyConfiguration | FallbackRestartStrategyConfiguration
    ) -> Self:
        """Set how a job restarts after a failure: see `RestartStrategies`.

        The default is the cluster's strategy (`restart_strategy` of `get_execution_environment`), else the default of
        Flink 2: `RestartStrategies.exponential_delay_restart()` with checkpoints, no restart without checkpoints.

        Raises:
            ProgramError: `strategy` is not a restart strategy.
        """
        check_restart_strategy(strategy)
        return self._set(restart_strategy=strategy)

    def set_failover_strategy(self, strategy: FailoverStrategyKind | str) -> Self:
        """Set which tasks restart when a task fails: the tasks of its `region`, or all of them (`full`).

        A region is a set of tasks that exchange rows while they run. Regions that consume the results of the failed
        region restart too. If results that it reads are lost, the regions that produce them also restart. The default
        is the cluster's strategy (`failover_strategy` of `get_execution_environment`), else `region`.

        Raises:
            ProgramError: there is no such strategy.
        """
        return self._set(failover_strategy=one_of(FailoverStrategyKind, strategy, "failover strategy"))

    def enable_approximate_local_recovery(self, enabled: bool = True) -> Self:
        """Keep the tasks upstream of a failed task running, and ACCEPT THAT ROWS ARE LOST with each failure.

        Only the failed task and its downstream tasks restart, from the last checkpoint. They lose the rows that are in
        flight to them, and the rows that they have received since that checkpoint from tasks that keep running. No row
        is published twice. As running tasks need not read their input again, a failure far downstream costs a few
        seconds instead of the time since the checkpoint. Use this if results may be too small, as on a dashboard.

        The job must be a streaming job with aligned checkpoints, the failover strategy `region` and the schedule mode
        `EAGER`; other jobs are refused when they are executed.
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
        """Take a checkpoint every `interval`. Without this, only a final checkpoint is taken, at the end of the input.

        Arguments that are not passed keep their values; the initial values are documented in docs/options.md or set in
        an options file. Numbers are milliseconds; an interval below 100 emits a warning, because seconds may have been
        meant.

        A checkpoint that takes longer than `timeout` is aborted. `min_pause` is the time between the end of one
        checkpoint and the start of the next. `tolerable_failures` consecutive checkpoints may fail before the job does
        (`set_tolerable_checkpoint_failure_number`). The last `retained` completed checkpoints are retained. Older
        checkpoints are deleted in the background, at most `max_concurrent_deletions` at a time, and no checkpoint
        starts while more than `max_concurrent` wait to be deleted.

        The first checkpoint is taken `initial_delay` after the job starts and after each restart; `"random"` draws it
        for each job between `min_pause` and `interval`. By default it is early, because nothing is published before.

        Raises:
            DurationError: a duration cannot be parsed, or is 0 and must not be.
            ProgramError: `tolerable_failures` is below 0, another number is below 1, or unaligned checkpoints may
                overlap.
        """
        if type(interval) is int and 0 < interval < _SHORT_MS:
            warnings.warn(
                f"enable_checkpointing({interval}) takes a checkpoint every {interval} ms: a number is milliseconds."
                f" Write '{interval}s' for seconds, or '{interval}ms' if this is meant",
                stacklevel=2,
            )
        values: dict[str, Any] = {"checkpoint_interval": positive_duration_ms(interval, "checkpoint interval")}
        if timeout is not None:
            values["checkpoint_timeout"] = positive_duration_ms(timeout, "checkpoint timeout")
        if min_pause is not None:
            values["checkpoint_min_pause"] = duration_ms(min_pause, "pause between checkpoints")
        if max_concurrent is not None:
            values["max_concurrent_checkpoints"] = at_least_one(max_concurrent, "number of concurrent checkpoints")
        if retained is not None:
            values["retained_checkpoints"] = at_least_one(retained, "number of retained checkpoints")
        if initial_delay is not None:
            is_drawn = initial_delay == "random"
            values["checkpoint_initial_delay"] = (
                initial_delay if is_drawn else duration_ms(initial_delay, "initial delay")
            )
        if max_concurrent_deletions is not None:
            number = at_least_one(max_concurrent_deletions, "number of concurrent deletions")
            values["max_concurrent_checkpoint_deletions"] = number
        if tolerable_failures is not None:
            self.set_tolerable_checkpoint_failure_number(tolerable_failures)
        return self._set(**values)

    def set_checkpoint_dir(self, directory: str | PathLike[str]) -> Self:
        """Set where checkpoints are stored: a path or fsspec address that the driver and the executors can reach.

        The default is a temporary folder, which `close` deletes.
        """
        return self._set(checkpoint_dir=directory)

    def set_default_savepoint_directory(self, directory: str | PathLike[str]) -> Self:
        """Set where savepoints go that are triggered without a directory: a path or an fsspec address.

        Each savepoint gets its own folder, `savepoint-<job>-<...>`, which no job deletes and which may be moved.

        Raises:
            ProgramError: `directory` is empty.
        """
        if not directory:
            raise ProgramError("the default savepoint directory must be a path, not an empty text")
        return self._set(savepoint_dir=directory)

    def set_archive_dir(self, directory: str | PathLike[str]) -> Self:
        """Set where an ended job writes its archive for `flykka history`: a path or an fsspec address.

        The default is `archives` in the checkpoint directory; a job without a checkpoint directory writes no archive.

        Raises:
            ProgramError: `directory` is empty.
        """
        if not directory:
            raise ProgramError("the archive directory must be a path, not an empty text")
        return self._set(archive_dir=directory)

    def set_checkpoint_fsync(self, enabled: bool) -> Self:
        """Set whether files are synced to disk before a checkpoint or published output refers to them; True by default.

        With False, a job still survives killed processes, but a power failure may leave files empty.
        """
        return self._set(checkpoint_fsync=enabled)

    def set_externalized_checkpoint_retention(self, retention: ExternalizedCheckpointRetention | str) -> Self:
        """Set whether the last checkpoints are retained when a job ends without being FINISHED; the enum or its name.

        `RETAIN_ON_CANCELLATION` (the default) retains them if the job is cancelled or fails, `DELETE_ON_CANCELLATION`
        only if it fails, `NO_EXTERNALIZED_CHECKPOINTS` never. A stopped job always retains its last checkpoint, a
        finished job never does. In the temporary folder of an environment without `set_checkpoint_dir`, checkpoints are
        retained only if `RETAIN_ON_CANCELLATION` is set explicitly.

        Raises:
            ProgramError: there is no such retention.
        """
        return self._set(retention=retention)

    def set_checkpoint_permissions(self, octal: int | str) -> Self:
        """Set the permissions of new folders of checkpoints, savepoints and archives, for example `0o750` or `"0750"`.

        Files in these folders get the same permissions without the execute bits. The default is `0o700`, independent of
        the umask. Existing folders keep their permissions. Object stores are not affected.

        Raises:
            ProgramError: the value is not a set of permissions.
        """
        try:
            return self._set(checkpoint_permissions=permissions(octal))
        except ValueError as wrong:
            raise ProgramError(f"checkpoint permissions: {wrong}") from None

    def set_checkpointing_mode(self, mode: CheckpointingMode | str) -> Self:
        """Set the consistency guarantee after a failure; the enum or its name.

        With `EXACTLY_ONCE`, the default, each row is counted once. With `AT_LEAST_ONCE` no row is lost, but rows of a
        fast input may be counted twice, because no input waits for the barriers of the others.

        Raises:
            ProgramError: there is no such mode, or unaligned checkpoints are enabled and the mode is not EXACTLY_ONCE.
        """
        return self._set(checkpointing_mode=one_of(CheckpointingMode, mode, "checkpointing mode"))

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:
        """Let barriers overtake the batches queued in channels, so that checkpoints are fast under back-pressure.

        The overtaken batches become part of the checkpoint, and a job that restores it replays them, even at another
        parallelism. Savepoints and the checkpoint of a stopped job are always aligned.

        Raises:
            ProgramError: checkpoints may overlap (`max_concurrent`), or the mode is not EXACTLY_ONCE.
        """
        return self._set(unaligned_checkpoints=enabled)

    def set_aligned_checkpoint_timeout(self, timeout: Duration) -> Self:
        """Start unaligned checkpoints as aligned checkpoints, and switch if the alignment takes longer than `timeout`.

        With 0, the default, checkpoints are unaligned from the start.

        Raises:
            DurationError: `timeout` cannot be parsed.
        """
        return self._set(aligned_checkpoint_timeout=duration_ms(timeout, "aligned checkpoint timeout"))

    def set_tolerable_checkpoint_failure_number(self, number: int, *causes: CheckpointFailureReason | str) -> Self:
        """Set how many consecutive checkpoints may fail before the job fails, by cause or in general.

        Without `causes` the number applies to all causes without a number of their own (0 by default). With `causes`,
        failures of each cause are counted separately; causes are values of `CheckpointFailureReason` or their names. A
        completed checkpoint resets the count. Checkpoints aborted by the job never count.

        Raises:
            ProgramError: the number is below 0, or there is no such cause.
        """
        return self._tolerate(not_negative(number, "number of tolerable checkpoint failures"), causes)

    def set_fail_on_checkpointing_errors(self, fails: bool, *causes: CheckpointFailureReason | str) -> Self:
        """Set whether one checkpoint failure with these causes fails the job; with False, no number of failures does.

        Without `causes` the setting applies to all causes that are not set otherwise. A job that fails this way
        restarts from its last checkpoint if its restart strategy allows that.

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
        """Set the checkpoint from which the next job starts.

        "auto", the default: the checkpoint of the last run of a job with this name, as recorded in a checkpoint
        directory that was set explicitly; the beginning of the input if there is no such run. A job that has finished
        is refused, and so is a job whose output exists in a sink's folder without a checkpoint to continue from.

        "latest": the newest completed checkpoint of any job in the checkpoint directory. Any other text is the path of
        a checkpoint: its folder or its `_metadata` file. None: the beginning of the input; refused if the folder of a
        sink contains output of the job.

        The checkpoint is read when the job is executed. The job does not delete it, but may refer to its files.

        Raises:
            ProgramError: `checkpoint` is empty.
        """
        if checkpoint is not None and not checkpoint:
            raise ProgramError(
                "the checkpoint to continue from must be a path, 'latest' or 'auto', not an empty text; None starts"
                " at the beginning of the input"
            )
        return self._set(from_checkpoint=None if checkpoint is None else os.fspath(checkpoint))

    def from_savepoint(self, path: str | PathLike[str], allow_non_restored_state: bool = False) -> Self:
        """Start the next job from a savepoint.

        `path` is the savepoint's folder, which may have been moved, or its `_metadata` file; a checkpoint works too.
        The savepoint is read when the job is executed, and does not change. It may be deleted once the job has
        completed a checkpoint of its own. Operators find their state by uid. State without an operator is refused
        unless `allow_non_restored_state` discards it; new operators start without state.

        Raises:
            ProgramError: `path` is empty.
        """
        if not path:
            raise ProgramError("the savepoint to start from must be a path, not an empty text")
        return self._set(from_savepoint=os.fspath(path), allow_non_restored_state=allow_non_restored_state)

    def overwrite(self, *folders: str | PathLike[str]) -> Self:
        """Delete the output of the next job in these folders of its sinks, and start at the beginning of its input.

        Only files of the job itself are deleted, after all checks that are possible before a job runs. The job is
        refused if a folder does not belong to one of its sinks, or if a folder that is not listed contains its output.

        Raises:
            ProgramError: no folder is passed, or a folder is an empty text.
        """
        if not folders or not all(folders):
            raise ProgramError("overwrite takes the folders of sinks, such as overwrite('errors')")
        return self._set(overwrite=tuple(os.fspath(folder) for folder in folders))

    # --- files and parameters for functions ---------------------------------------------------------------------------

    @property
    def _files(self) -> UserFiles:
        """The registered files, which are copied at once, for all jobs executed later."""
        return UserFiles(self._registry.files, self.spark, self._options.overrides.get("global_job_parameters", {}))

    def add_python_file(self, path: str | PathLike[str]) -> Self:
        """Let functions import a `.py` file, the modules of a folder, or a `.zip`, `.egg` or `.whl` file.

        They are importable in Spark's Python workers and in the driver, and take precedence over installed packages.

        Raises:
            ProgramError: the file does not exist, or has another type.
        """
        self._files.add_python_file(path)
        return self

    def add_python_archive(self, path: str | PathLike[str], target_dir: str | None = None) -> Self:
        """Unpack a zip or tar file for functions, which get the folder from `ctx.get_cached_file(target_dir)`.

        `target_dir` defaults to the name of the file.

        Raises:
            ProgramError: the file does not exist or cannot be unpacked, or another file has the name.
        """
        self._files.add_python_archive(path, target_dir)
        return self

    def set_python_requirements(
        self, requirements_file_path: str | PathLike[str], requirements_cache_dir: str | PathLike[str] | None = None
    ) -> Self:
        """Install the packages of a requirements file for functions, in workers and in the driver.

        pip installs them immediately, into a folder that is sent to the workers. With `requirements_cache_dir`,
        packages come only from this folder, which `pip download` can fill.

        Raises:
            ProgramError: the file or the folder does not exist, or pip cannot install a requirement.
        """
        self._files.set_python_requirements(requirements_file_path, requirements_cache_dir)
        return self

    def register_cached_file(self, path: str | PathLike[str], name: str) -> Self:
        """Make a file or folder available to functions, which get its local path from `ctx.get_cached_file(name)`.

        The local path is a copy for the job and must not be changed.

        Raises:
            ProgramError: the path does not exist, or another file has the name.
        """
        self._files.register_cached_file(path, name)
        return self

    def set_global_job_parameters(self, parameters: Mapping[str, str]) -> Self:
        """Set strings that functions read by name from `ctx.global_job_parameters`, replacing earlier parameters.

        Parameters of the launcher (`--global-job-parameters`) take precedence.

        Raises:
            ProgramError: a name or a value is not a string.
        """
        self._files.set_global_job_parameters(parameters)
        return self

    # --- hooks that run in the driver ---------------------------------------------------------------------------------

    def add_master_hook(self, hook: MasterTriggerRestoreHook) -> Self:
        """Run `hook` in the driver before each checkpoint of a job, and before a job starts from a checkpoint.

        Its state is stored in the checkpoint under its identifier. It is called for every job executed later.

        Raises:
            ProgramError: this is not a hook, has no identifier, or another hook has the same identifier.
        """
        try:
            added = self._registry.master_hooks.add(hook)
        except MasterHookError as refusal:
            raise ProgramError(str(refusal)) from None
        if not added:
            raise ProgramError(f"a master hook {hook.identifier!r} exists already; give each its own name")
        return self

    def add_failure_enricher(self, enricher: FailureEnricher | str) -> Self:
        """Let `enricher`, or the installed enricher with that name, label the failures of jobs that are executed later.

        A name is the name of an entry point in the group `flykka.failure_enrichers`. The labels appear in the exception
        history. Enrichers run in the driver, outside the actors: their errors are logged and do not affect jobs.

        Raises:
            ProgramError: this is not an enricher, declares no keys or keys of another enricher, or cannot be loaded.
        """
        try:
            self._registry.failure_enrichers.add(enricher)
        except FailureEnricherError as refusal:
            raise ProgramError(str(refusal)) from None
        return self

    # --- observation --------------------------------------------------------------------------------------------------

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
        """Serve HTTP requests about the jobs at `PORT` or `HOST:PORT`, in the format of Flink's REST API.

        Port 0 selects a free port; without a host only this machine can connect. Any other host requires a token file,
        whose token every request must carry. Without a token file, only requests that change something need a token,
        which is in `rest_token`; with `no_token=True` no request needs one. `connections_per_peer` limits the
        connections from one address. The server starts with the first job.

        Raises:
            MissingExtraError: the extra `web` is not installed.
            ProgramError: the address cannot be parsed, or requires a token file; or the cluster is already running.
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
        """The URL of the REST interface; None if REST is not enabled or not started yet."""
        return self._observation.rest_address

    @property
    def rest_token(self) -> str | None:
        """The token for requests that change something; None if REST needs no token, or is not started yet."""
        return self._observation.rest_token

    def enable_open_telemetry(self, endpoint: str, *, interval: Duration = "30s") -> Self:
        """Export metrics, and checkpoints and restarts as spans, to an OTLP receiver over HTTP.

        `endpoint` is the receiver's URL, for example `http://localhost:4318`. The export starts with the first job, on
        its own thread, and ends with the cluster. An unreachable receiver is logged once and does not affect jobs.

        Raises:
            MissingExtraError: the extra `otel` is not installed.
            ProgramError: `endpoint` is not a URL, or the interval cannot be parsed; or the cluster is running already.
        """
        self._observation.report(otel=endpoint, otel_interval=interval)
        return self

    def enable_metric_log(self, interval: Duration = "60s") -> Self:
        """Log metrics with the logger `flykka.metrics` at level INFO: one line per subtask and per job.

        Raises:
            ProgramError: the interval cannot be parsed, or the cluster is running already.
        """
        self._observation.report(metric_log_interval=interval)
        return self

    @property
    def task_manager_budget(self) -> str:
        """A description of the resources declared for each TaskManager; empty without declared resources."""
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
        """Return the graph of the operators defined since the last job that lead to a sink, and fix their code.

        Raises:
            ProgramError: there are no such operators, or they cannot be connected as defined.
        """
        self._running.forget_ended()
        self._computed.free_finished()
        operators = self._program.leading_to_sinks()
        self._computed.compute_again(operators)
        return stream_graph(operators, self._registry, self.defaults, self._cluster_settings.all_slots)

    def get_job_graph(self, job_name: str = "flykka job") -> JobGraph:
        """Return the graph that `execute` submits, with chained operators. Raises the errors of `get_stream_graph`."""
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
        """Run the operators defined since the last job, and wait until the job has ended.

        Raises the errors of `execute_async`, and `JobExecutionError` if the job fails.
        """
        __tracebackhide__ = True
        return self.execute_async(job_name).wait()

    def execute_async(self, job_name: str = "flykka job", *, attached: Attached = True) -> JobClient:
        """Submit the operators defined since the last job, and return a client of the job.

        With `attached=False` the client receives no updates and requests the state of the job only on demand, which
        suits jobs with very many tasks. With `ListeningBehaviour.EXECUTION_RESULT` it only receives the result.

        Raises:
            ProgramError: there are no operators, or they cannot be connected as defined.
            InsufficientSlotsError: the cluster has fewer slots than the job needs.
            CheckpointError: the job cannot continue from its checkpoint.
            JobSubmissionError: the job was refused; `DuplicateJobSubmissionError` if it would publish rows twice.
        """
        self._check_open()
        self._program.submit()
        launch = current_launch()
        self.job_settings = launch.overridden(self.job_settings, self._options.overrides)
        launch.before_execute(self, job_name)
        # Checked before an earlier job is ended, because a program without operators must not replace a job.
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
        client: JobClient | None = None
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
        except BaseException as failed:
            # After a JobExecutionError the job had been accepted. After an interrupt a submitted job keeps running,
            # and releases its folders when it ends.
            if client is None or isinstance(failed, Exception):
                self._owners.release(start.job_graph.job_id, unused=not isinstance(failed, JobExecutionError))
            raise
        start.note()
        self._starts.remember(client)
        self.from_checkpoint(AUTO)
        self._computed.belong_to(client)
        self._datasets.belong_to(client)
        self._program = self._program.close(job_name)
        assert self._data_plane is not None, "the cluster has a job but no data plane"
        look = partial(self._data_plane.long_work, client.job_id)
        launch.job_submitted(
            client, keeps_checkpoints=survives, look=look, rest_address=self.rest_address, rest_token=self.rest_token
        )
        return client

    @property
    def pending_uids(self) -> frozenset[str]:
        """The uids of the operators defined since the last job."""
        return frozenset(operator.uid for operator in self._program.transformations)

    def _take_place_of(self, earlier: StreamExecutionEnvironment | None) -> None:
        """Close the environment of the cell's earlier run; take over its Spark session and checkpoint folder."""
        if earlier is None or earlier is self:
            return
        self._checkpoint_folder.share(earlier._checkpoint_folder)
        if not list(earlier._running):
            self._owns_session, earlier._owns_session = self._owns_session or earlier._owns_session, False
            earlier.close()

    # --- the cluster and the session ----------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The Spark session; a new session if it was stopped and restarted during a job."""
        return self._session if self._data_plane is None else self._data_plane.sessions.current

    @property
    def cluster(self) -> LocalCluster:
        """The local cluster, which is started now unless a job has already started it.

        Raises:
            ClusterError: the number of slots depends on the first job, which has not been executed yet.
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
        """Shut down the cluster, its running jobs, and the Spark session if this environment has started it.

        With high availability this ends the application: the next run starts from the beginning.

        Raises:
            TerminationTimeoutError: actors did not terminate in time; everything else is closed anyway.
        """
        self._close(concludes=True)

    def abandon(self) -> None:
        """Close without ending the application: with high availability, the next run continues the jobs."""
        self._close(concludes=False)

    def _exit(self, end: EndOfScript) -> None:
        """Close the environment at interpreter exit; this ends the application only if the script ran to its end."""
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
