"""Options of the jobs of an environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flykka.api.configuration.checkpoint_options import CHECKPOINT_OPTIONS
from flykka.api.configuration.option import ConfigOption, OptionGroup
from flykka.api.configuration.readers import (
    choice,
    duration,
    flag,
    parallelism,
    path,
    paths,
    positive_duration,
    text,
    whole_number,
    word,
    words,
)
from flykka.messages.graph.job_graph import InputDependencyConstraint, ScheduleMode, SchedulerType

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings

Apply = Callable[["JobSettings", Any], object]


def _defaults(field: str) -> Apply:
    def apply(settings: JobSettings, value: Any) -> None:
        settings.defaults = replace(settings.defaults, **{field: value})

    return apply


def _task_cancellation(field: str) -> Apply:
    def apply(settings: JobSettings, value: Any) -> None:
        settings.task_cancellation = replace(settings.task_cancellation, **{field: value})

    return apply


def _client_heartbeats(field: str) -> Apply:
    def apply(settings: JobSettings, value: Any) -> None:
        settings.client_heartbeats = replace(settings.client_heartbeats, **{field: value})

    return apply


def _fresh(settings: JobSettings, value: bool) -> None:
    if value:
        settings.from_checkpoint(None)


def _allow_non_restored_state(settings: JobSettings, value: bool) -> None:
    settings.allow_non_restored_state = value


_OF_JOBS = (
    ConfigOption(
        name="parallelism",
        shape="N|auto",
        read=parallelism,
        description="of every operator that has none of its own; auto: what the slots give",
        default="1",
        group=OptionGroup.JOBS,
        apply=lambda settings, number: settings.set_parallelism(number),
    ),
    ConfigOption(
        name="max_parallelism",
        shape="N",
        read=whole_number(1),
        description="the number of key groups of operators that set none",
        default="derived from the parallelism",
        group=OptionGroup.JOBS,
        apply=lambda settings, number: settings.set_max_parallelism(number),
    ),
    ConfigOption(
        name="runtime_mode",
        shape="streaming|batch|automatic",
        read=word("streaming", "batch", "automatic"),
        description="run programs as streams, or as batch jobs where their sources end",
        default="streaming",
        group=OptionGroup.JOBS,
        apply=lambda settings, mode: settings.set_runtime_mode(mode),
    ),
    ConfigOption(
        name="schedule_mode",
        shape=words(ScheduleMode),
        read=choice(ScheduleMode),
        description="when the tasks of a job are deployed: all together, those that are connected, or each when there"
        " is something to read for it",
        default="eager",
        group=OptionGroup.JOBS,
        apply=lambda settings, mode: settings.set_schedule_mode(mode),
    ),
    ConfigOption(
        name="scheduler",
        shape=words(SchedulerType),
        read=choice(SchedulerType),
        description="wait until a streaming job has all its slots, or run it with those that there are",
        default="default",
        group=OptionGroup.JOBS,
        apply=lambda settings, scheduler: settings.set_scheduler(scheduler),
    ),
    ConfigOption(
        name="resource_wait_timeout",
        shape="TIME",
        read=duration,
        description="with the adaptive scheduler: wait so long for all slots before a job begins with fewer",
        default="10s",
        group=OptionGroup.JOBS,
        apply=lambda settings, timeout: settings.set_resource_wait_timeout(timeout),
    ),
    ConfigOption(
        name="rescale_cooldown",
        shape="TIME",
        read=duration,
        description="with the adaptive scheduler: go on so long before slots that have come are taken",
        default="30s",
        group=OptionGroup.JOBS,
        apply=lambda settings, pause: settings.set_rescale_cooldown(pause),
    ),
    ConfigOption(
        name="input_dependency_constraint",
        shape=words(InputDependencyConstraint),
        read=choice(InputDependencyConstraint),
        description="with lazy-from-sources: a task begins when any of its inputs can be read, or all",
        default="any",
        group=OptionGroup.JOBS,
        apply=lambda settings, constraint: settings.set_default_input_dependency_constraint(constraint),
    ),
    ConfigOption(
        name="operator_chaining",
        shape="BOOL",
        read=flag,
        description="run operators that need no exchange between them in one task",
        default="true",
        group=OptionGroup.JOBS,
        apply=_defaults("chaining_enabled"),
    ),
    ConfigOption(
        name="batch_coalescing",
        shape="BOOL",
        read=flag,
        description="take little batches that wait through one stage",
        default="true",
        group=OptionGroup.JOBS,
        apply=_defaults("coalesces_batches"),
    ),
    ConfigOption(
        name="auto_generated_uids",
        shape="BOOL",
        read=flag,
        description="make up the uids of operators that have none; else such a program is refused",
        default="true",
        group=OptionGroup.JOBS,
        apply=_defaults("auto_generated_uids"),
    ),
    ConfigOption(
        name="approximate_local_recovery",
        shape="BOOL",
        read=flag,
        description="restart a task that has failed with those behind it alone: rows that were in flight to them are"
        " lost",
        default="false",
        group=OptionGroup.JOBS,
        apply=lambda settings, enabled: settings.enable_approximate_local_recovery(enabled),
    ),
    ConfigOption(
        name="stage_timeout",
        shape="TIME",
        read=duration,
        description="fail a task whose stage makes no progress for so long; 0: it may stand for ever",
        default="0",
        group=OptionGroup.JOBS,
        apply=lambda settings, ms: settings.set_stage_timeout(ms),
    ),
    ConfigOption(
        name="task_cancellation_interval",
        shape="TIME",
        read=positive_duration,
        description="how often the stage of a cancelled task is told to stop",
        default="30s",
        group=OptionGroup.JOBS,
        apply=_task_cancellation("interval_ms"),
    ),
    ConfigOption(
        name="task_cancellation_timeout",
        shape="TIME",
        read=duration,
        description="a TaskManager whose cancelled task has not ended after so long is replaced; 0: never",
        default="3min",
        group=OptionGroup.JOBS,
        apply=_task_cancellation("timeout_ms"),
    ),
    ConfigOption(
        name="rpc_timeout",
        shape="TIME",
        read=positive_duration,
        description="a task whose deployment is not acknowledged after so long has failed",
        default="10s",
        group=OptionGroup.JOBS,
        apply=lambda settings, ms: settings.set_rpc_timeout(ms),
    ),
    ConfigOption(
        name="shutdown_on_attached_exit",
        shape="BOOL",
        read=flag,
        description="cancel a job whose client dies",
        default="false",
        group=OptionGroup.JOBS,
        apply=lambda settings, enabled: settings.set_shutdown_on_attached_exit(enabled),
    ),
    ConfigOption(
        name="client_heartbeat_interval",
        shape="TIME",
        read=positive_duration,
        description="how often a client gives a sign of life where its job is to end with it",
        default="30s",
        group=OptionGroup.JOBS,
        apply=_client_heartbeats("interval_ms"),
    ),
    ConfigOption(
        name="client_heartbeat_timeout",
        shape="TIME",
        read=positive_duration,
        description="a client that has given none for so long is dead",
        default="3min",
        group=OptionGroup.JOBS,
        apply=_client_heartbeats("timeout_ms"),
    ),
    ConfigOption(
        name="latency_tracking_interval",
        shape="TIME",
        read=duration,
        description="how often each subtask of a source sends a latency marker; 0: never",
        default="0",
        group=OptionGroup.JOBS,
        apply=lambda settings, ms: settings.set_latency_tracking_interval(ms),
    ),
    ConfigOption(
        name="sql_state_ttl",
        shape="TIME",
        read=positive_duration,
        description="how long joins of streams in SQL keep rows that nothing else lets go",
        default="for ever",
        group=OptionGroup.JOBS,
        apply=lambda settings, ms: settings.set_sql_state_ttl(ms),
    ),
)

START_OPTIONS = (
    ConfigOption(
        name="from_checkpoint",
        shape="auto|latest|PATH",
        read=text,
        description="let the first job continue where its last run left off (auto), from the newest checkpoint of any"
        " job in the checkpoint folder (latest), or from this one",
        default="auto",
        group=OptionGroup.START,
        apply=lambda settings, checkpoint: settings.from_checkpoint(checkpoint),
    ),
    ConfigOption(
        name="from_savepoint",
        shape="PATH",
        read=path,
        description="let the first job start from this savepoint, wherever its folder was moved to",
        default="as from_checkpoint says",
        group=OptionGroup.START,
        apply=lambda settings, savepoint: settings.from_savepoint(savepoint),
        is_path=True,
    ),
    ConfigOption(
        name="allow_non_restored_state",
        shape="BOOL",
        read=flag,
        description="of a savepoint: drop state of operators that the job does not have",
        default="the job is refused",
        group=OptionGroup.START,
        apply=_allow_non_restored_state,
    ),
    ConfigOption(
        name="fresh",
        shape="BOOL",
        read=flag,
        description="let all jobs begin with their input, whatever was kept; refused where the folder of a sink holds"
        " rows of the job",
        default="they continue",
        group=OptionGroup.START,
        apply=_fresh,
    ),
    ConfigOption(
        name="overwrite",
        shape="FOLDER",
        read=paths,
        description="delete what the first job has published in this folder of a sink, and let it begin with its input;"
        " may be given several times",
        default="nothing is deleted",
        group=OptionGroup.START,
        apply=lambda settings, folders: settings.overwrite(*folders),
        is_path=True,
    ),
)
"""Options of which one at most says where a job starts; all but `fresh` are for the first job."""

JOB_OPTIONS = (*_OF_JOBS, *CHECKPOINT_OPTIONS, *START_OPTIONS)
