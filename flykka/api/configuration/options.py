"""The table of options, which alone defines their names, Python types, formats and descriptions.

The command line, environment variables, the options file, `configuration={...}` and the arguments of
`get_execution_environment` are derived from it.
"""
# The annotations are evaluated at run time, so there is no `from __future__ import annotations`.

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from flykka.api.configuration.option import ConfigOption, Form, Meaning, OptionGroup, rows
from flykka.api.configuration.readers import (
    by_name,
    choice,
    cores,
    duration,
    duration_or,
    flag,
    memory_size,
    parallelism,
    path,
    paths,
    paths_by_name,
    permissions,
    positive_duration,
    stated,
    text,
    tolerable_failures,
    whole_number,
    word,
    words,
)
from flykka.client.directories import absolute_directory
from flykka.client.start_settings import StartSettings
from flykka.messages.graph.job_graph import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    FailoverStrategyKind,
    InputDependencyConstraint,
    RestartStrategyConfiguration,
    ScheduleMode,
    SchedulerType,
)
from flykka.metrics.endpoint import checked_endpoint
from flykka.runtime.durations import Duration
from flykka.runtime.errors import DurationError
from flykka.runtime.memory_size import MemorySize

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings
    from flykka.api.user_files import UserFiles
    from flykka.cluster.high_availability.settings import ZooKeeperSettings
    from flykka.runtime.trace.record.recorder import TraceRecorder


_SETTINGS: Mapping[str, Mapping[str, Callable[[str], object]]] = {
    "none": {},
    "fixed-delay": {"attempts": int, "delay": str},
    "failure-rate": {"failure_rate": int, "failure_interval": str, "delay": str},
    "exponential-delay": {
        "initial_backoff": str,
        "max_backoff": str,
        "backoff_multiplier": float,
        "reset_backoff_threshold": str,
        "jitter_factor": float,
        "max_same_failures": int,
    },
}


def restart_strategy(strategy: Any) -> RestartStrategyConfiguration:
    """Parse a text into a restart strategy, or check a strategy object. Raises `ValueError` or `ProgramError`."""
    if not isinstance(strategy, str):
        return _checked(strategy)
    name, *assignments = (word.strip() for word in strategy.split(","))
    if name not in _SETTINGS:
        raise ValueError(f"there is no restart strategy {name!r}; there are {', '.join(_SETTINGS)}")
    kinds = _SETTINGS[name]
    settings: dict[str, Any] = {}
    for each in assignments:
        setting, is_given, value = each.partition("=")
        if setting not in kinds or not is_given:
            names = ", ".join(f"{names}=..." for names in kinds) or "none"
            raise ValueError(f"{each!r} is not a setting of {name}; its settings: {names}")
        try:
            settings[setting] = kinds[setting](value)
        except ValueError:
            raise ValueError(f"{setting} of {name} must be a number, not {value!r}") from None
    if name == "failure-rate" and not {"failure_rate", "failure_interval"} <= settings.keys():
        raise ValueError("failure-rate needs failure_rate=... and failure_interval=...")
    try:
        return _create_strategy(name, settings)
    except DurationError as refused:
        raise ValueError(str(refused)) from refused


# Imported here because the imports take a second, which `--help` should not wait for.
def _checked(value: Any) -> RestartStrategyConfiguration:
    from flykka.api.configuration.restart_strategies import check_restart_strategy

    check_restart_strategy(value, is_default=True)
    strategy: RestartStrategyConfiguration = value
    return strategy


def _create_strategy(name: str, settings: dict[str, Any]) -> RestartStrategyConfiguration:
    from flykka.api.configuration.restart_strategies import RestartStrategies

    match name:
        case "none":
            return RestartStrategies.no_restart()
        case "fixed-delay":
            return RestartStrategies.fixed_delay_restart(**settings)
        case "failure-rate":
            return RestartStrategies.failure_rate_restart(**settings)
        case _:
            return RestartStrategies.exponential_delay_restart(**settings)


def _one_of(kind: type[StrEnum]) -> Form:
    return Form(words(kind), choice(kind))


def _store(value: Any) -> Any:
    # Imported here because `--help` needs no store.
    from flykka.cluster.high_availability.stores import store_settings

    return store_settings(value)


def _trace(value: Any) -> Any:
    return path(value) if isinstance(value, str) or hasattr(value, "__fspath__") else value


def _address(value: Any) -> str:
    return text(str(value) if type(value) is int else value)


def _directory(field: str) -> "Callable[[JobSettings, Any], JobSettings]":
    return lambda settings, directory: settings.with_field(f"checkpointing.{field}", absolute_directory(directory))


def _initial_delay(settings: "JobSettings", value: int | str) -> "JobSettings":
    delay_ms = None if isinstance(value, str) else value
    drawn = settings.with_field("checkpointing.has_random_initial_delay", delay_ms is None)
    return drawn.with_field("checkpointing.initial_delay_ms", delay_ms)


def _start(settings: "JobSettings", restore_from: str | None) -> "JobSettings":
    return settings.with_field("start", StartSettings(restore_from=restore_from))


def _overwrite(settings: "JobSettings", folders: tuple[str, ...]) -> "JobSettings":
    return settings.with_field("start", StartSettings(restore_from=None, overwritten=folders))


def _each(register: "Callable[[UserFiles, str], object]") -> "Callable[[UserFiles, Iterable[str]], None]":
    def register_all(files: "UserFiles", values: Iterable[str]) -> None:
        for value in values:
            register(files, value)

    return register_all


def _add_archive(files: "UserFiles", value: str) -> None:
    archive, _, target = value.partition("#")
    files.add_python_archive(archive, target or None)


def _register_cached_files(files: "UserFiles", paths: Mapping[str, str]) -> None:
    for name, file in paths.items():
        files.register_cached_file(file, name)


Count = Annotated[int | None, Form("N", whole_number(1))]
Number = Annotated[int | None, Form("N", whole_number(0))]
Switch = Annotated[bool | None, Form("BOOL", flag)]
Time = Annotated[Duration | None, Form("TIME", positive_duration)]
TimeOrZero = Annotated[Duration | None, Form("TIME", duration)]
Size = Annotated[MemorySize | None, Form("SIZE", memory_size)]
File = Annotated[str | PathLike[str] | None, Form("FILE", path, is_path=True)]
Directory = Annotated[str | PathLike[str] | None, Form("DIR", path, is_path=True)]
Paths = str | Sequence[str | PathLike[str]]


class PositionalOptions(TypedDict, total=False):
    """The options that `get_execution_environment` takes by position."""

    master: Annotated[str | None, Form("URL", text), Meaning("where Spark runs, such as local[4]", "local[*]")]
    task_managers: Annotated[Count, Meaning("number of TaskManagers", "1", field="task_managers")]
    slots_per_task_manager: Annotated[
        Count,
        Meaning(
            "number of slots of each TaskManager", "as many as the first job needs", field="slots_per_task_manager"
        ),
    ]


class ClusterOptions(TypedDict, total=False):
    max_task_managers: Annotated[
        Count,
        Meaning(
            "maximum number of TaskManagers while tasks wait for slots",
            "as task_managers",
            field="max_task_managers",
        ),
    ]
    slot_request_timeout: Annotated[
        Time, Meaning("maximum time that a task waits for its slot", "5min", field="slot_request_timeout_ms")
    ]
    heartbeat_interval: Annotated[
        Time, Meaning("interval between heartbeats of a TaskManager", "1s", field="heartbeat_interval_ms")
    ]
    heartbeat_timeout: Annotated[
        Time, Meaning("a TaskManager that is silent for this long is lost", "10s", field="heartbeat_timeout_ms")
    ]
    job_store_capacity: Annotated[
        Number, Meaning("number of finished jobs that can still be queried", "100", field="job_store_capacity")
    ]
    network_buffers: Annotated[
        Count,
        Meaning(
            "number of batches in flight that each TaskManager can hold",
            "as its tasks need",
            field="network_buffers",
        ),
    ]
    network_memory_bytes: Annotated[
        Count, Meaning("maximum total size of these batches in bytes", "unlimited", field="network_memory_bytes")
    ]
    buffers_per_channel: Annotated[
        Count,
        Meaning("batches that may be sent to a channel before any is processed", "2", field="buffers_per_channel"),
    ]
    floating_buffers_per_gate: Annotated[
        Number,
        Meaning(
            "additional batches that the channels of a task share when data is waiting",
            "2",
            field="floating_buffers_per_gate",
        ),
    ]
    task_manager_cpu: Annotated[
        float | None, Form("CORES", cores), Meaning("cores that each TaskManager has for its slots", "not declared")
    ]
    task_manager_memory: Annotated[Size, Meaning("memory of each TaskManager, such as 4gb", "not declared")]
    managed_memory: Annotated[Size, Meaning("the part of it that holds state", "40 % of the memory")]
    high_availability: Annotated[
        "str | PathLike[str] | ZooKeeperSettings | None",
        Form("DIR|ZOOKEEPER", stated(_store)),
        Meaning(
            "where jobs are stored, so that the same command resumes them if this process is killed: a"
            " local folder, or zookeeper://HOST:PORT/PATH?storage_dir=DIR",
            "in memory",
            field="high_availability",
        ),
    ]
    owner_lease: Annotated[
        Time,
        Meaning(
            "if locks do not work across machines, such as in an object store: how long the process that owns"
            " a checkpoint or output folder may be silent before another run of its job takes over",
            "15s",
            field="owner_lease_ms",
        ),
    ]


class JobOptions(TypedDict, total=False):
    restart_strategy: Annotated[
        RestartStrategyConfiguration | str | None,
        Form("STRATEGY", stated(restart_strategy)),
        Meaning(
            "reaction to a failure: none, fixed-delay, failure-rate or exponential-delay, with settings after"
            " commas, such as fixed-delay,attempts=3,delay=10s",
            "exponential-delay with checkpoints, otherwise none",
            sets="restart_strategy",
            field="restart_strategy",
        ),
    ]
    failover_strategy: Annotated[
        FailoverStrategyKind | str | None,
        _one_of(FailoverStrategyKind),
        Meaning(
            "tasks to restart after a failure: those of the failed task's region, or all",
            "region",
            sets="failover_strategy",
            field="failover_strategy",
        ),
    ]
    parallelism: Annotated[
        int | Literal["auto"] | None,
        Form("N|auto", parallelism),
        Meaning(
            "parallelism of operators that do not set it; auto: as many subtasks as the slots allow",
            "1",
            sets="defaults.parallelism",
        ),
    ]
    max_parallelism: Annotated[
        Count,
        Meaning(
            "number of key groups of operators that do not set it",
            "derived from the parallelism",
            sets="defaults.max_parallelism",
        ),
    ]
    runtime_mode: Annotated[
        str | None,
        Form("streaming|batch|automatic", word("streaming", "batch", "automatic")),
        Meaning(
            "run programs as streams, or as batch jobs if their sources are bounded",
            "streaming",
            sets=lambda settings, mode: settings.with_runtime_mode(mode),
        ),
    ]
    schedule_mode: Annotated[
        ScheduleMode | str | None,
        _one_of(ScheduleMode),
        Meaning(
            "when to deploy the tasks of a job: all together, those that are connected, or each when it has input",
            "eager",
            sets="defaults.schedule_mode",
        ),
    ]
    scheduler: Annotated[
        SchedulerType | str | None,
        _one_of(SchedulerType),
        Meaning(
            "wait until a streaming job has all its slots, or run it with the available ones",
            "default",
            sets="rescaling.scheduler_type",
        ),
    ]
    resource_wait_timeout: Annotated[
        TimeOrZero,
        Meaning(
            "adaptive scheduler: how long to wait for all slots before a job starts with fewer",
            "10s",
            sets="rescaling.resource_wait_timeout_ms",
        ),
    ]
    rescale_cooldown: Annotated[
        TimeOrZero,
        Meaning(
            "adaptive scheduler: minimum time between rescales to use additional slots",
            "30s",
            sets="rescaling.rescale_cooldown_ms",
        ),
    ]
    input_dependency_constraint: Annotated[
        InputDependencyConstraint | str | None,
        _one_of(InputDependencyConstraint),
        Meaning(
            "with lazy-from-sources: a task starts when any of its inputs can be read, or all",
            "any",
            sets="input_dependency_constraint",
        ),
    ]
    operator_chaining: Annotated[
        Switch,
        Meaning("run operators without an exchange between them in one task", "true", sets="defaults.chaining_enabled"),
    ]
    batch_coalescing: Annotated[
        Switch, Meaning("process small waiting batches in one stage", "true", sets="defaults.coalesces_batches")
    ]
    auto_generated_uids: Annotated[
        Switch,
        Meaning(
            "generate the uids of operators that have none; if false, such a program is refused",
            "true",
            sets="defaults.auto_generated_uids",
        ),
    ]
    approximate_local_recovery: Annotated[
        Switch,
        Meaning(
            "restart only the failed task and those downstream of it; rows in flight to them are lost",
            "false",
            sets="defaults.approximate_local_recovery",
        ),
    ]
    stage_timeout: Annotated[
        TimeOrZero,
        Meaning(
            "fail a task whose stage makes no progress for this long; 0: never",
            "0",
            sets="stage_timeout_ms",
        ),
    ]
    task_cancellation_interval: Annotated[
        Time,
        Meaning("how often a cancelled task's stage is asked to stop", "30s", sets="task_cancellation.interval_ms"),
    ]
    task_cancellation_timeout: Annotated[
        TimeOrZero,
        Meaning(
            "replace a TaskManager whose cancelled task has not ended after this long; 0: never",
            "3min",
            sets="task_cancellation.timeout_ms",
        ),
    ]
    rpc_timeout: Annotated[
        Time,
        Meaning("fail a task whose deployment is not acknowledged within this time", "10s", sets="rpc_timeout_ms"),
    ]
    shutdown_on_attached_exit: Annotated[
        Switch, Meaning("cancel a job whose client dies", "false", sets="shuts_down_on_attached_exit")
    ]
    client_heartbeat_interval: Annotated[
        Time,
        Meaning(
            "how often a client sends a heartbeat if its job is to end with it",
            "30s",
            sets="client_heartbeats.interval_ms",
        ),
    ]
    client_heartbeat_timeout: Annotated[
        Time, Meaning("a client without a heartbeat for this long is dead", "3min", sets="client_heartbeats.timeout_ms")
    ]
    latency_tracking_interval: Annotated[
        TimeOrZero,
        Meaning(
            "how often each source subtask sends a latency marker; 0: never",
            "0",
            sets="latency_tracking_interval_ms",
        ),
    ]
    sql_mini_batch_latency: Annotated[
        TimeOrZero,
        Meaning(
            "how long operators over changing rows wait for more rows before a barrier; 0: not at all",
            "1s",
            sets="defaults.mini_batch_latency_ms",
        ),
    ]
    sql_state_ttl: Annotated[
        Time,
        Meaning("how long joins and recomputed results in SQL keep rows", "for ever", sets="sql_state_ttl_ms"),
    ]


class FunctionOptions(TypedDict, total=False):
    python_files: Annotated[
        Paths | None,
        Form("PATH,...", paths, is_path=True),
        Meaning(
            "modules, folders of modules and packages for functions, in addition to the app's",
            "none",
            register=_each(lambda files, file: files.add_python_file(file)),
        ),
    ]
    python_archives: Annotated[
        Paths | None,
        Form("FILE[#DIR],...", paths, is_path=True),
        Meaning(
            "archives to unpack for functions, under the file's name or DIR",
            "none",
            register=_each(_add_archive),
        ),
    ]
    python_requirements: Annotated[
        File,
        Meaning(
            "packages to install for functions",
            "none",
            register=lambda files, requirements: files.set_python_requirements(requirements),
        ),
    ]
    cached_files: Annotated[
        Mapping[str, str] | str | None,
        Form("NAME=PATH,...", paths_by_name, is_path=True),
        Meaning("files and folders that functions look up by name", "none", register=_register_cached_files),
    ]
    global_job_parameters: Annotated[
        Mapping[str, str] | str | None,
        Form("NAME=TEXT,...", by_name),
        Meaning(
            "texts by name that every function can read; these override the app's",
            "none",
            register=lambda files, parameters: files.set_global_job_parameters(parameters),
        ),
    ]


class CheckpointOptions(TypedDict, total=False):
    checkpoint_dir: Annotated[
        Directory,
        Meaning(
            "folder of the checkpoints, or an address such as s3://bucket/dir",
            "a temporary folder",
            sets=_directory("directory"),
        ),
    ]
    checkpoint_interval: Annotated[
        Time,
        Meaning(
            "how often to take a checkpoint: 10s, 500ms, 5min", "only at the end", sets="checkpointing.interval_ms"
        ),
    ]
    checkpoint_timeout: Annotated[
        Time, Meaning("abort a checkpoint that takes longer", "10min", sets="checkpointing.timeout_ms")
    ]
    checkpoint_min_pause: Annotated[
        TimeOrZero,
        Meaning(
            "minimum time between the end of a checkpoint and the beginning of the next",
            "0",
            sets="checkpointing.min_pause_ms",
        ),
    ]
    checkpoint_initial_delay: Annotated[
        Duration | None,
        Form("TIME|random", duration_or("random")),
        Meaning(
            "time from the start of the job, and of each restart, to its first checkpoint; random: between"
            " checkpoint_min_pause and the interval",
            "1s, or checkpoint_min_pause if that is longer",
            sets=_initial_delay,
        ),
    ]
    max_concurrent_checkpoints: Annotated[
        Count, Meaning("maximum number of checkpoints in progress", "1", sets="checkpointing.max_concurrent")
    ]
    tolerable_checkpoint_failures: Annotated[
        Number,
        Meaning(
            "number of consecutive checkpoints that may fail before the job fails",
            "0",
            sets="checkpointing.tolerable_failures",
        ),
    ]
    tolerable_checkpoint_failures_by_cause: Annotated[
        Mapping[str, int | str] | str | None,
        Form("CAUSE=N|unlimited,...", tolerable_failures),
        Meaning(
            "the same for causes that are counted separately, such as checkpoint-expired=3",
            "none: counted together",
            sets="checkpointing.tolerable_by_reason",
        ),
    ]
    max_concurrent_checkpoint_deletions: Annotated[
        Count,
        Meaning(
            "number of obsolete checkpoints that are deleted at a time",
            "4",
            sets="checkpointing.max_concurrent_deletions",
        ),
    ]
    retained_checkpoints: Annotated[
        Count,
        Meaning("number of completed checkpoints to retain while the job runs", "1", sets="checkpointing.retained"),
    ]
    checkpoint_fsync: Annotated[
        Switch,
        Meaning(
            "sync files of checkpoints and file sinks to disk before they count, so that they survive a loss of power",
            "true",
            sets="checkpointing.fsync",
        ),
    ]
    checkpointing_mode: Annotated[
        CheckpointingMode | str | None,
        _one_of(CheckpointingMode),
        Meaning("guarantee for every row after a failure", "exactly-once", sets="checkpointing.mode"),
    ]
    unaligned_checkpoints: Annotated[
        Switch, Meaning("let barriers overtake waiting batches", "false", sets="checkpointing.unaligned")
    ]
    aligned_checkpoint_timeout: Annotated[
        TimeOrZero,
        Meaning("unaligned checkpoints start aligned for this long", "0", sets="checkpointing.aligned_timeout_ms"),
    ]
    retention: Annotated[
        ExternalizedCheckpointRetention | str | None,
        _one_of(ExternalizedCheckpointRetention),
        Meaning(
            "jobs that retain their last checkpoint, in addition to stopped ones: no-externalized-checkpoints: none;"
            " delete-on-cancellation: failed ones; retain-on-cancellation: failed and cancelled ones",
            "retain-on-cancellation",
            sets=lambda settings, retention: settings.with_retention(retention),
        ),
    ]
    checkpoint_permissions: Annotated[
        int | str | None,
        Form("OCTAL", permissions),
        Meaning(
            "permissions of new folders of checkpoints, savepoints and archives on a file system of this machine,"
            " whatever the umask; files have the same without the right to execute: 0750 lets the group read",
            "0700: the user only",
            sets="checkpointing.permissions",
        ),
    ]
    savepoint_dir: Annotated[
        Directory,
        Meaning(
            "folder or address of savepoints; if set, Ctrl-C stops with a savepoint there",
            "none: Ctrl-C stops with a checkpoint",
            sets=_directory("savepoint_directory"),
        ),
    ]
    archive_dir: Annotated[
        Directory,
        Meaning(
            "where a finished job stores the archive that `flykka history` shows",
            "archives/ in a configured checkpoint folder",
            sets=_directory("archive_directory"),
        ),
    ]


class StartOptions(TypedDict, total=False):
    """Options for the start of jobs; at most one may be set. All except `fresh` apply to the first job only."""

    from_checkpoint: Annotated[
        str | None,
        Form("auto|latest|PATH", text),
        Meaning(
            "start of the first job: where its last run ended (auto), the newest checkpoint of any job in the"
            " checkpoint folder (latest), or this one",
            "auto",
            sets=_start,
        ),
    ]
    from_savepoint: Annotated[
        str | PathLike[str] | None,
        Form("PATH", path, is_path=True),
        Meaning(
            "start the first job from this savepoint, wherever its folder was moved to",
            "see from_checkpoint",
            sets=_start,
            flags=("-s",),
        ),
    ]
    allow_non_restored_state: Annotated[
        Switch,
        Meaning(
            "drop a savepoint's state of operators that the job does not have",
            "the job is refused",
            sets="start.allow_non_restored_state",
            flags=("-n",),
        ),
    ]
    fresh: Annotated[
        Switch,
        Meaning(
            "start all jobs at the beginning of their input, even if there is a checkpoint; refused if the folder of a"
            " sink contains rows of the job",
            "they continue",
            sets=lambda settings, fresh: _start(settings, None) if fresh else settings,
        ),
    ]
    overwrite: Annotated[
        Paths | None,
        Form("FOLDER", paths, is_path=True),
        Meaning(
            "delete the rows that the first job has published in this folder of a sink, and start it at the"
            " beginning of its input; repeatable",
            "nothing is deleted",
            sets=_overwrite,
        ),
    ]


class RecordingOptions(TypedDict, total=False):
    record: Annotated[
        "str | PathLike[str] | TraceRecorder | None",
        Form("FILE", _trace, is_path=True),
        Meaning(
            "record every turn of every actor, for `flykka trace`; a second environment of the app has FILE-2"
            " and so on",
            "only the last turns before a failure",
            field="record",
        ),
    ]
    ring: Annotated[
        Count,
        Meaning(
            "of a recording: write only the last turns, at least N, when the app ends or a job fails; the"
            " file can be replayed from its beginning",
            "every turn, immediately",
        ),
    ]
    max_bytes: Annotated[
        Count,
        Meaning(
            "of a recording: maximum file size; recording stops there, with a note in the file, and the jobs continue",
            "unlimited",
        ),
    ]
    flight_recorder_turns: Annotated[
        Number,
        Meaning(
            "turns to keep in memory without a recording, to be written when a job fails",
            "50000",
            field="flight_recorder_turns",
        ),
    ]


class RestOptions(TypedDict, total=False):
    rest: Annotated[
        str | int | None,
        Form("[HOST:]PORT", _address),
        Meaning(
            "address of the REST interface; port 0 is any free port, and without a host only this machine is answered",
            "0 for `flykka run`, otherwise none",
        ),
    ]
    rest_token_file: Annotated[
        File,
        Meaning("file with the token that every request must have; required for any host but this machine", "none"),
    ]
    rest_no_token: Annotated[
        Switch,
        Meaning(
            "accept requests that change something from this machine without a token, as Flink's command line"
            " and dashboard need",
            "false",
        ),
    ]
    rest_connections_per_peer: Annotated[
        Count,
        Meaning(
            "maximum number of connections of one address",
            "64, or unlimited if only this machine is answered",
        ),
    ]
    rest_certificate: Annotated[File, Meaning("certificate for TLS (PEM)", "none")]
    rest_key: Annotated[File, Meaning("its private key", "none")]


class ReportingOptions(TypedDict, total=False):
    otel: Annotated[
        str | None,
        Form("ENDPOINT", checked_endpoint),
        Meaning(
            "export metrics, checkpoints and restarts to this OTLP receiver over HTTP, such as"
            " http://localhost:4318 (the extra `otel`)",
            "none",
        ),
    ]
    otel_interval: Annotated[Time, Meaning("how often metrics are exported", "30s")]
    metric_log_interval: Annotated[Time, Meaning("how often metrics are logged", "never")]


class Options(
    ClusterOptions,
    JobOptions,
    FunctionOptions,
    CheckpointOptions,
    StartOptions,
    RecordingOptions,
    RestOptions,
    ReportingOptions,
    total=False,
):
    """The options that `get_execution_environment` takes by name. None means not set."""


OPTIONS: Mapping[str, ConfigOption] = {
    option.name: option
    for group, table in (
        (OptionGroup.CLUSTER, PositionalOptions),
        (OptionGroup.CLUSTER, ClusterOptions),
        (OptionGroup.JOBS, JobOptions),
        (OptionGroup.FUNCTIONS, FunctionOptions),
        (OptionGroup.CHECKPOINTS, CheckpointOptions),
        (OptionGroup.START, StartOptions),
        (OptionGroup.RECORDING, RecordingOptions),
        (OptionGroup.REST, RestOptions),
        (OptionGroup.REPORTING, ReportingOptions),
    )
    for option in rows(group, table)
}
