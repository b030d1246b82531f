"""Options of the jobs of an environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flykka.api.configuration.option import ConfigOption, OptionGroup
from flykka.api.configuration.readers import (
    choice,
    duration,
    flag,
    path,
    paths,
    positive_duration,
    text,
    whole_number,
    word,
    words,
)
from flykka.messages.graph.job_graph import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    InputDependencyConstraint,
    ScheduleMode,
)

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings

Apply = Callable[["JobSettings", Any], object]


def _checkpointing(field: str) -> Apply:
    return lambda settings, value: settings._set_checkpointing(**{field: value})


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
        shape="N",
        read=whole_number(1),
        description="of every operator that has none of its own",
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

_OF_CHECKPOINTS = (
    ConfigOption(
        name="checkpoint_dir",
        shape="DIR",
        read=path,
        description="where checkpoints are kept, a folder or an address such as s3://bucket/dir",
        default="a temporary folder",
        group=OptionGroup.CHECKPOINTS,
        apply=lambda settings, directory: settings.set_checkpoint_dir(directory),
        is_path=True,
    ),
    ConfigOption(
        name="checkpoint_interval",
        shape="TIME",
        read=positive_duration,
        description="take a checkpoint so often: 10s, 500ms, 5min",
        default="only at the end",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("interval_ms"),
    ),
    ConfigOption(
        name="checkpoint_timeout",
        shape="TIME",
        read=positive_duration,
        description="a checkpoint that takes longer is given up",
        default="10min",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("timeout_ms"),
    ),
    ConfigOption(
        name="checkpoint_min_pause",
        shape="TIME",
        read=duration,
        description="the least time between the end of a checkpoint and the begin of the next",
        default="0",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("min_pause_ms"),
    ),
    ConfigOption(
        name="max_concurrent_checkpoints",
        shape="N",
        read=whole_number(1),
        description="how many may be under way at once",
        default="1",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("max_concurrent"),
    ),
    ConfigOption(
        name="tolerable_checkpoint_failures",
        shape="N",
        read=whole_number(0),
        description="how many checkpoints may fail one after the other before the job fails",
        default="0",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("tolerable_failures"),
    ),
    ConfigOption(
        name="retained_checkpoints",
        shape="N",
        read=whole_number(1),
        description="how many of the completed checkpoints are kept while the job runs",
        default="1",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("retained"),
    ),
    ConfigOption(
        name="checkpointing_mode",
        shape=words(CheckpointingMode),
        read=choice(CheckpointingMode),
        description="what holds for every row after a failure",
        default="exactly-once",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("mode"),
    ),
    ConfigOption(
        name="unaligned_checkpoints",
        shape="BOOL",
        read=flag,
        description="let barriers overtake the batches that wait",
        default="false",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("unaligned"),
    ),
    ConfigOption(
        name="aligned_checkpoint_timeout",
        shape="TIME",
        read=duration,
        description="unaligned checkpoints begin aligned for so long",
        default="0",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("aligned_timeout_ms"),
    ),
    ConfigOption(
        name="retention",
        shape=words(ExternalizedCheckpointRetention),
        read=choice(ExternalizedCheckpointRetention),
        description="which jobs keep their last checkpoint, besides those that are stopped:"
        " no-externalized-checkpoints: none; delete-on-cancellation: those that fail;"
        " retain-on-cancellation: those that are cancelled too",
        default="delete-on-cancellation",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("retention"),
    ),
    ConfigOption(
        name="savepoint_dir",
        shape="DIR",
        read=path,
        description="where savepoints go, a folder or an address; with it Ctrl-C stops with a savepoint there",
        default="none: Ctrl-C stops with a checkpoint",
        group=OptionGroup.CHECKPOINTS,
        apply=lambda settings, directory: settings.set_default_savepoint_directory(directory),
        is_path=True,
    ),
    ConfigOption(
        name="archive_dir",
        shape="DIR",
        read=path,
        description="where a job that has ended leaves what `flykka history` shows",
        default="archives/ in a checkpoint folder that was named",
        group=OptionGroup.CHECKPOINTS,
        apply=lambda settings, directory: settings.set_archive_dir(directory),
        is_path=True,
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

JOB_OPTIONS = (*_OF_JOBS, *_OF_CHECKPOINTS, *START_OPTIONS)
