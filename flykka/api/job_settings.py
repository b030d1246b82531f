"""Settings of every job of an environment: parallelism, checkpoints, restarts. Flink's and PyFlink's names."""

from __future__ import annotations

import warnings
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

from flykka.actors.machines.job_graph.job_graph_generator import RescalingSettings
from flykka.api.alignment_settings import AlignmentSettings
from flykka.api.checkpoint_failure_settings import CheckpointFailureSettings
from flykka.api.configuration.readers import permissions
from flykka.api.configuration.restart_strategies import (
    FallbackRestartStrategyConfiguration,
    RestartStrategies,
    check_restart_strategy,
    resolve_restart_strategy,
)
from flykka.api.local_recovery_settings import LocalRecoverySettings
from flykka.api.runtime_mode import RuntimeExecutionMode
from flykka.api.scheduler_settings import SchedulerSettings
from flykka.api.streams.program import at_least_one, one_of, parallelism_or_auto
from flykka.api.streams.stream_graph_generator import Defaults
from flykka.api.submission_settings import SubmissionSettings
from flykka.client.directories import absolute_directory
from flykka.client.start_settings import StartSettings
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    ExternalizedCheckpointRetention,
    FailoverStrategyKind,
    InputDependencyConstraint,
    ScheduleMode,
    TaskCancellationSettings,
)
from flykka.messages.graph.restart_strategies import RestartStrategyConfiguration
from flykka.runtime.durations import Duration, duration_ms, positive_duration_ms

RANDOM = "random"
"""An initial delay that is drawn for each job."""

_SHORT_MS = 100
"""An interval below this that is given as a number may have been meant in seconds."""


class JobSettings(
    AlignmentSettings,
    CheckpointFailureSettings,
    LocalRecoverySettings,
    SchedulerSettings,
    SubmissionSettings,
    StartSettings,
):
    """Setters that return the environment, as Flink's do."""

    def __init__(self) -> None:
        super().__init__()
        self.defaults = Defaults()
        self.checkpointing = CheckpointingSettings(directory="")
        self.is_retention_set = False
        """True if the retention is one that was asked for, and not the default."""
        self.task_cancellation = TaskCancellationSettings()
        self.latency_tracking_interval_ms: int | None = None
        self.stage_timeout_ms: int | None = None
        self._sql_state_ttl_ms: int | None = None
        self.input_dependency_constraint = InputDependencyConstraint.ANY
        self.failover_strategy: FailoverStrategyKind | None = None
        self.rescaling = RescalingSettings()
        self._restart_strategy: RestartStrategyConfiguration | FallbackRestartStrategyConfiguration = (
            RestartStrategies.fallback_restart()
        )

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """The parallelism of operators that have none of their own; 1 unless set. `"auto"` is what the slots give.

        Raises:
            ProgramError: it is below 1.
        """
        self.defaults = replace(self.defaults, parallelism=parallelism_or_auto(parallelism, "parallelism"))
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """The number of key groups of operators that set none; derived from their parallelism unless set.

        Raises:
            ProgramError: it is below 1.
        """
        number = at_least_one(max_parallelism, "maximum parallelism")
        self.defaults = replace(self.defaults, max_parallelism=number)
        return self

    def disable_operator_chaining(self) -> Self:
        """Run every operator in tasks of its own: slower, and each is seen by itself in metrics and traces."""
        self.defaults = replace(self.defaults, chaining_enabled=False)
        return self

    def disable_batch_coalescing(self) -> Self:
        """Run a stage for every batch, even where several wait: more Spark jobs, and rows do not come out earlier."""
        self.defaults = replace(self.defaults, coalesces_batches=False)
        return self

    def disable_auto_generated_uids(self) -> Self:
        """Refuse programs in which an operator has no uid: its state would be lost when the program is changed."""
        self.defaults = replace(self.defaults, auto_generated_uids=False)
        return self

    def set_runtime_mode(self, mode: RuntimeExecutionMode | str) -> Self:
        """Run programs as streams (`STREAMING`, the default), or as batch jobs where their sources end.

        In `BATCH` mode each part of a program begins when all that it reads is finished, which is kept until nobody
        needs it: after a failure only the parts restart that have not finished. Windows fire at the end, the only
        checkpoint is the one that the sinks commit with, and no row is late. All sources must come to an end. With
        `AUTOMATIC` programs of such sources run in `BATCH` mode, all others as streams.

        Raises:
            ProgramError: there is no such mode.
        """
        chosen = one_of(RuntimeExecutionMode, mode, "runtime mode")
        self.defaults = replace(self.defaults, runtime_mode=chosen)
        return self

    def set_schedule_mode(self, mode: ScheduleMode | str) -> Self:
        """Set when the tasks of a job are deployed: all at once when there are slots (`EAGER`, the default), or later.

        With `PIPELINED_REGION` tasks that exchange rows with each other are deployed when these have their slots, and
        when what they read from others is whole. With `LAZY_FROM_SOURCES` each task is deployed when there is something
        for it to read. There is no checkpoint before all run or have finished.

        Raises:
            ProgramError: there is no such mode.
        """
        chosen = one_of(ScheduleMode, mode, "schedule mode")
        self.defaults = replace(self.defaults, schedule_mode=chosen)
        return self

    def set_default_input_dependency_constraint(self, constraint: InputDependencyConstraint | str) -> Self:
        """With `LAZY_FROM_SOURCES`: whether a task begins when `ANY` of its inputs can be read (unless set), or `ALL`.

        Raises:
            ProgramError: there is no such constraint.
        """
        self.input_dependency_constraint = one_of(InputDependencyConstraint, constraint, "input constraint")
        return self

    def set_task_cancellation(self, interval: Duration = "30s", timeout: Duration = "3min") -> Self:
        """Set how long a cancelled task may take to end. The defaults are the cluster's, shown here.

        Its bridge to Spark is told again to stop every `interval`. Where that has not ended after `timeout`, its
        TaskManager gives up, and another one takes its place; with 0 it waits without end. The bridge waits 30 s at
        most for code that blocks in the driver, and then leaves it behind.

        Raises:
            DurationError: a length of time cannot be read, or the interval is none.
        """
        self.task_cancellation = TaskCancellationSettings(
            interval_ms=positive_duration_ms(interval, "task cancellation interval"),
            timeout_ms=duration_ms(timeout, "task cancellation timeout"),
        )
        return self

    def set_stage_timeout(self, timeout: Duration) -> Self:
        """Fail a task whose stage makes no progress for `timeout`; 0, or nothing set: it may stand for ever.

        Progress is a task of Spark's that ends, or a Spark job that begins: the time must be longer than the longest
        Spark task takes. The task is restarted as after any other failure, and what hangs is cancelled.

        Raises:
            DurationError: the length of time cannot be read.
        """
        self.stage_timeout_ms = duration_ms(timeout, "stage timeout") or None
        return self

    def set_latency_tracking_interval(self, interval: Duration) -> Self:
        """Let every source subtask send a latency marker each `interval`; 0, or nothing set: none are sent.

        A marker takes the way of the rows, behind those before it, and each vertex tells how long it took to get there:
        `details.vertices` of the client, and the picture of `flykka run`. It does not wait in windows.

        Raises:
            DurationError: the interval cannot be read.
        """
        self.latency_tracking_interval_ms = duration_ms(interval, "latency tracking interval") or None
        return self

    def set_sql_state_ttl(self, ttl: Duration) -> Self:
        """Let joins of streams in queries that are written behind this keep rows no longer than `ttl`.

        That is as Flink's `table.exec.state.ttl`: it is of processing time, and holds for joins whose condition does
        not bound the event times, which keep rows for ever without it. `explain_sql` tells it.

        Raises:
            DurationError: it cannot be read.
        """
        self._sql_state_ttl_ms = duration_ms(ttl, "time-to-live")
        return self

    @property
    def sql_state_ttl_ms(self) -> int | None:
        """The time that joins of streams in SQL keep rows for; None: for ever."""
        return self._sql_state_ttl_ms

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
        said: dict[str, Any] = {"interval_ms": positive_duration_ms(interval, "checkpoint interval")}
        if timeout is not None:
            said["timeout_ms"] = positive_duration_ms(timeout, "checkpoint timeout")
        if min_pause is not None:
            said["min_pause_ms"] = duration_ms(min_pause, "pause between checkpoints")
        if max_concurrent is not None:
            said["max_concurrent"] = at_least_one(max_concurrent, "number of concurrent checkpoints")
        if retained is not None:
            said["retained"] = at_least_one(retained, "number of retained checkpoints")
        if initial_delay is not None:
            is_random = initial_delay == RANDOM
            said["has_random_initial_delay"] = is_random
            said["initial_delay_ms"] = None if is_random else duration_ms(initial_delay, "initial delay")
        if max_concurrent_deletions is not None:
            said["max_concurrent_deletions"] = at_least_one(max_concurrent_deletions, "number of concurrent deletions")
        if tolerable_failures is not None:
            self.set_tolerable_checkpoint_failure_number(tolerable_failures)
        return self._set_checkpointing(**said)

    def set_checkpoint_dir(self, directory: str | PathLike[str]) -> Self:
        """Set where checkpoints are kept: a path or an fsspec address that the driver and the executors reach.

        Unless set it is a temporary folder, which `close` removes with all that is in it.
        """
        self.checkpointing = replace(self.checkpointing, directory=absolute_directory(directory))
        return self

    def set_default_savepoint_directory(self, directory: str | PathLike[str]) -> Self:
        """Set where savepoints go that are triggered without a directory; a path or an fsspec address, as above.

        Each has a folder of its own there, `savepoint-<job>-<...>`, that no job deletes and that may be moved.

        Raises:
            ProgramError: it is empty.
        """
        if not directory:
            raise ProgramError("the default savepoint directory must be a path, not an empty text")
        self.checkpointing = replace(self.checkpointing, savepoint_directory=absolute_directory(directory))
        return self

    def set_archive_dir(self, directory: str | PathLike[str]) -> Self:
        """Set where a job leaves an archive when it has ended, for `flykka history`; a path or an fsspec address.

        Unless set it is `archives` in the checkpoint directory; a job without one of these leaves none.

        Raises:
            ProgramError: it is empty.
        """
        if not directory:
            raise ProgramError("the archive directory must be a path, not an empty text")
        self.checkpointing = replace(self.checkpointing, archive_directory=absolute_directory(directory))
        return self

    def set_checkpoint_fsync(self, enabled: bool) -> Self:
        """Set whether files are synced to the disk before a checkpoint, or what a sink publishes, refers to them.

        They are unless this is False. Without it a job still survives killed processes, but a machine that loses its
        power may leave checkpoints and published files that are empty.
        """
        return self._set_checkpointing(fsync=enabled)

    def set_externalized_checkpoint_retention(self, retention: ExternalizedCheckpointRetention | str) -> Self:
        """Set whether the last checkpoints stay when a job ends without being FINISHED; the enum or its name.

        `RETAIN_ON_CANCELLATION` (the default) keeps them when it is cancelled and when it fails,
        `DELETE_ON_CANCELLATION` when it fails, `NO_EXTERNALIZED_CHECKPOINTS` never. A job that is stopped always keeps
        its last one, one that comes to the end of its input none. In the temporary folder of an environment without
        `set_checkpoint_dir` none is kept unless `RETAIN_ON_CANCELLATION` is set.

        Raises:
            ProgramError: there is no such retention.
        """
        chosen = one_of(ExternalizedCheckpointRetention, retention, "retention of checkpoints")
        self.checkpointing = replace(self.checkpointing, retention=chosen)
        self.is_retention_set = True
        return self

    def set_checkpoint_permissions(self, octal: int | str) -> Self:
        """Set the permissions of new folders of checkpoints, savepoints and archives: `0o750`, or `"0750"`.

        Files in them have the same without the right to execute. Unless set they are of the user alone, `0o700`,
        whatever the umask. Folders that exist keep theirs. Object stores have rules of their own.

        Raises:
            ProgramError: they are no such permissions.
        """
        try:
            return self._set_checkpointing(permissions=permissions(octal))
        except ValueError as wrong:
            raise ProgramError(f"checkpoint permissions: {wrong}") from None

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
        self._restart_strategy = strategy
        return self

    @property
    def restart_strategy(self) -> RestartStrategyConfiguration | FallbackRestartStrategyConfiguration:
        """The strategy of the job itself, as the client of Flink hands it to the cluster."""
        return self._restart_strategy

    def resolved_restart_strategy(self, cluster: RestartStrategyConfiguration | None) -> RestartStrategyConfiguration:
        """The strategy that holds on a cluster whose default is `cluster`."""
        enabled = self.checkpointing.interval_ms is not None
        return resolve_restart_strategy(self.restart_strategy, cluster, is_checkpointing_enabled=enabled)

    def set_failover_strategy(self, strategy: FailoverStrategyKind | str) -> Self:
        """Set which tasks are restarted when one has failed: those of its `region`, or all of them (`full`).

        A region are tasks that exchange rows while these are made; with it those start again that read what it makes,
        and those that made what it reads where that is lost. Unless set it is what the cluster says
        (`failover_strategy` of `get_execution_environment`), and where that says nothing, `region`.

        Raises:
            ProgramError: there is no such strategy.
        """
        self.failover_strategy = one_of(FailoverStrategyKind, strategy, "failover strategy")
        return self
