"""The table of options: each has its name, its type in Python, its form and its meaning here and nowhere else.

The command line, environment variables, the file of options, `configuration={...}` and the arguments of
`get_execution_environment` all have these.
"""
# The annotations are values here: no `from __future__ import annotations`.

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


def restart_strategy(said: Any) -> RestartStrategyConfiguration:
    """The strategy of a text, or the one that it is already. Raises `ValueError` or `ProgramError`."""
    if not isinstance(said, str):
        return _checked(said)
    name, *told = (word.strip() for word in said.split(","))
    if name not in _SETTINGS:
        raise ValueError(f"there is no restart strategy {name!r}; there are {', '.join(_SETTINGS)}")
    kinds = _SETTINGS[name]
    settings: dict[str, Any] = {}
    for each in told:
        setting, is_given, value = each.partition("=")
        if setting not in kinds or not is_given:
            known = ", ".join(f"{known}=..." for known in kinds) or "none"
            raise ValueError(f"{each!r} is no setting of {name}; its settings: {known}")
        try:
            settings[setting] = kinds[setting](value)
        except ValueError:
            raise ValueError(f"{setting} of {name} must be a number, not {value!r}") from None
    if name == "failure-rate" and not {"failure_rate", "failure_interval"} <= settings.keys():
        raise ValueError("failure-rate needs failure_rate=... and failure_interval=...")
    try:
        return _made(name, settings)
    except DurationError as refused:
        raise ValueError(str(refused)) from refused


# What follows takes a second to load, and `--help` should not have to wait for it.
def _checked(said: Any) -> RestartStrategyConfiguration:
    from flykka.api.configuration.restart_strategies import check_restart_strategy

    check_restart_strategy(said, is_default=True)
    strategy: RestartStrategyConfiguration = said
    return strategy


def _made(name: str, settings: dict[str, Any]) -> RestartStrategyConfiguration:
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


def _store(said: Any) -> Any:
    # The help of a command needs no store.
    from flykka.cluster.high_availability.stores import store_settings

    return store_settings(said)


def _trace(said: Any) -> Any:
    return path(said) if isinstance(said, str) or hasattr(said, "__fspath__") else said


def _address(said: Any) -> str:
    return text(str(said) if type(said) is int else said)


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


def _add_archive(files: "UserFiles", said: str) -> None:
    archive, _, target = said.partition("#")
    files.add_python_archive(archive, target or None)


def _register_cached_files(files: "UserFiles", said: Mapping[str, str]) -> None:
    for name, file in said.items():
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
    task_managers: Annotated[Count, Meaning("how many TaskManagers", "1", field="task_managers")]
    slots_per_task_manager: Annotated[
        Count,
        Meaning(
            "how many slots each TaskManager has", "as many as the first job needs", field="slots_per_task_manager"
        ),
    ]


class ClusterOptions(TypedDict, total=False):
    """An environment's cluster."""

    max_task_managers: Annotated[
        Count,
        Meaning(
            "how many TaskManagers there may be while tasks wait for slots",
            "no more than the others",
            field="max_task_managers",
        ),
    ]
    slot_request_timeout: Annotated[
        Time, Meaning("how long a task may wait for its slot", "5min", field="slot_request_timeout_ms")
    ]
    heartbeat_interval: Annotated[
        Time, Meaning("how often a TaskManager is asked for a sign of life", "1s", field="heartbeat_interval_ms")
    ]
    heartbeat_timeout: Annotated[
        Time, Meaning("a TaskManager that is silent for so long is lost", "10s", field="heartbeat_timeout_ms")
    ]
    job_store_capacity: Annotated[
        Number, Meaning("how many jobs that have ended can be asked about", "100", field="job_store_capacity")
    ]
    network_buffers: Annotated[
        Count,
        Meaning(
            "how many batches on their way each TaskManager has room for",
            "what its tasks need",
            field="network_buffers",
        ),
    ]
    network_memory_bytes: Annotated[
        Count, Meaning("how many bytes these batches may have together", "unlimited", field="network_memory_bytes")
    ]
    buffers_per_channel: Annotated[
        Count,
        Meaning("how many batches may be sent to a channel before any was processed", "2", field="buffers_per_channel"),
    ]
    floating_buffers_per_gate: Annotated[
        Number,
        Meaning(
            "how many more the channels of a task may have where data waits behind them, together",
            "2",
            field="floating_buffers_per_gate",
        ),
    ]
    task_manager_cpu: Annotated[
        float | None, Form("CORES", cores), Meaning("how many cores each TaskManager has for its slots", "not declared")
    ]
    task_manager_memory: Annotated[Size, Meaning("how much memory each TaskManager has, as in 4gb", "not declared")]
    managed_memory: Annotated[Size, Meaning("the part of it that keeps state", "40 % of the memory")]
    high_availability: Annotated[
        "str | PathLike[str] | ZooKeeperSettings | None",
        Form("DIR|ZOOKEEPER", stated(_store)),
        Meaning(
            "where the jobs are kept, so that the same command goes on with them after this process was killed: a"
            " folder of this machine, or zookeeper://HOST:PORT/PATH?storage_dir=DIR",
            "in memory",
            field="high_availability",
        ),
    ]
    owner_lease: Annotated[
        Time,
        Meaning(
            "where locks hold for one machine only, such as in an object store: how long a process that owns a"
            " checkpoint folder or an output folder may be silent before another run of its job takes over",
            "15s",
            field="owner_lease_ms",
        ),
    ]


class JobOptions(TypedDict, total=False):
    """The jobs of an environment."""

    restart_strategy: Annotated[
        RestartStrategyConfiguration | str | None,
        Form("STRATEGY", stated(restart_strategy)),
        Meaning(
            "what is done after a failure: none, fixed-delay, failure-rate or exponential-delay, with their settings"
            " behind commas, such as fixed-delay,attempts=3,delay=10s",
            "with checkpoints exponential-delay, and without them none",
            sets="restart_strategy",
            field="restart_strategy",
        ),
    ]
    failover_strategy: Annotated[
        FailoverStrategyKind | str | None,
        _one_of(FailoverStrategyKind),
        Meaning(
            "which tasks are restarted: those of the region of the one that failed, or all of them",
            "region",
            sets="failover_strategy",
            field="failover_strategy",
        ),
    ]
    parallelism: Annotated[
        int | Literal["auto"] | None,
        Form("N|auto", parallelism),
        Meaning(
            "of every operator that has none of its own; auto: what the slots give", "1", sets="defaults.parallelism"
        ),
    ]
    max_parallelism: Annotated[
        Count,
        Meaning(
            "the number of key groups of operators that set none",
            "derived from the parallelism",
            sets="defaults.max_parallelism",
        ),
    ]
    runtime_mode: Annotated[
        str | None,
        Form("streaming|batch|automatic", word("streaming", "batch", "automatic")),
        Meaning(
            "run programs as streams, or as batch jobs where their sources end",
            "streaming",
            sets=lambda settings, mode: settings.with_runtime_mode(mode),
        ),
    ]
    schedule_mode: Annotated[
        ScheduleMode | str | None,
        _one_of(ScheduleMode),
        Meaning(
            "when the tasks of a job are deployed: all together, those that are connected, or each when there is"
            " something to read for it",
            "eager",
            sets="defaults.schedule_mode",
        ),
    ]
    scheduler: Annotated[
        SchedulerType | str | None,
        _one_of(SchedulerType),
        Meaning(
            "wait until a streaming job has all its slots, or run it with those that there are",
            "default",
            sets="rescaling.scheduler_type",
        ),
    ]
    resource_wait_timeout: Annotated[
        TimeOrZero,
        Meaning(
            "with the adaptive scheduler: wait so long for all slots before a job begins with fewer",
            "10s",
            sets="rescaling.resource_wait_timeout_ms",
        ),
    ]
    rescale_cooldown: Annotated[
        TimeOrZero,
        Meaning(
            "with the adaptive scheduler: go on so long before slots that have come are taken",
            "30s",
            sets="rescaling.rescale_cooldown_ms",
        ),
    ]
    input_dependency_constraint: Annotated[
        InputDependencyConstraint | str | None,
        _one_of(InputDependencyConstraint),
        Meaning(
            "with lazy-from-sources: a task begins when any of its inputs can be read, or all",
            "any",
            sets="input_dependency_constraint",
        ),
    ]
    operator_chaining: Annotated[
        Switch,
        Meaning(
            "run operators that need no exchange between them in one task", "true", sets="defaults.chaining_enabled"
        ),
    ]
    batch_coalescing: Annotated[
        Switch, Meaning("take little batches that wait through one stage", "true", sets="defaults.coalesces_batches")
    ]
    auto_generated_uids: Annotated[
        Switch,
        Meaning(
            "make up the uids of operators that have none; else such a program is refused",
            "true",
            sets="defaults.auto_generated_uids",
        ),
    ]
    approximate_local_recovery: Annotated[
        Switch,
        Meaning(
            "restart a task that has failed with those behind it alone: rows that were in flight to them are lost",
            "false",
            sets="defaults.approximate_local_recovery",
        ),
    ]
    stage_timeout: Annotated[
        TimeOrZero,
        Meaning(
            "fail a task whose stage makes no progress for so long; 0: it may stand for ever",
            "0",
            sets="stage_timeout_ms",
        ),
    ]
    task_cancellation_interval: Annotated[
        Time,
        Meaning("how often the stage of a cancelled task is told to stop", "30s", sets="task_cancellation.interval_ms"),
    ]
    task_cancellation_timeout: Annotated[
        TimeOrZero,
        Meaning(
            "a TaskManager whose cancelled task has not ended after so long is replaced; 0: never",
            "3min",
            sets="task_cancellation.timeout_ms",
        ),
    ]
    rpc_timeout: Annotated[
        Time,
        Meaning("a task whose deployment is not acknowledged after so long has failed", "10s", sets="rpc_timeout_ms"),
    ]
    shutdown_on_attached_exit: Annotated[
        Switch, Meaning("cancel a job whose client dies", "false", sets="shuts_down_on_attached_exit")
    ]
    client_heartbeat_interval: Annotated[
        Time,
        Meaning(
            "how often a client gives a sign of life where its job is to end with it",
            "30s",
            sets="client_heartbeats.interval_ms",
        ),
    ]
    client_heartbeat_timeout: Annotated[
        Time, Meaning("a client that has given none for so long is dead", "3min", sets="client_heartbeats.timeout_ms")
    ]
    latency_tracking_interval: Annotated[
        TimeOrZero,
        Meaning(
            "how often each subtask of a source sends a latency marker; 0: never",
            "0",
            sets="latency_tracking_interval_ms",
        ),
    ]
    sql_state_ttl: Annotated[
        Time,
        Meaning(
            "how long joins of streams in SQL keep rows that nothing else lets go", "for ever", sets="sql_state_ttl_ms"
        ),
    ]


class FunctionOptions(TypedDict, total=False):
    """Files, Python packages and parameters that functions find."""

    python_files: Annotated[
        Paths | None,
        Form("PATH,...", paths, is_path=True),
        Meaning(
            "modules, folders of modules and packages that functions import, beside those that the app adds",
            "none",
            register=_each(lambda files, file: files.add_python_file(file)),
        ),
    ]
    python_archives: Annotated[
        Paths | None,
        Form("FILE[#DIR],...", paths, is_path=True),
        Meaning(
            "archives that are unpacked for functions, under the name of the file or this one",
            "none",
            register=_each(_add_archive),
        ),
    ]
    python_requirements: Annotated[
        File,
        Meaning(
            "packages that are installed for functions",
            "none",
            register=lambda files, requirements: files.set_python_requirements(requirements),
        ),
    ]
    cached_files: Annotated[
        Mapping[str, str] | str | None,
        Form("NAME=PATH,...", paths_by_name, is_path=True),
        Meaning("files and folders that functions find by their names", "none", register=_register_cached_files),
    ]
    global_job_parameters: Annotated[
        Mapping[str, str] | str | None,
        Form("NAME=TEXT,...", by_name),
        Meaning(
            "texts by name that every function reads; one that is said for the run wins over that of the app",
            "none",
            register=lambda files, parameters: files.set_global_job_parameters(parameters),
        ),
    ]


class CheckpointOptions(TypedDict, total=False):
    """Checkpoints and savepoints."""

    checkpoint_dir: Annotated[
        Directory,
        Meaning(
            "where checkpoints are kept, a folder or an address such as s3://bucket/dir",
            "a temporary folder",
            sets=_directory("directory"),
        ),
    ]
    checkpoint_interval: Annotated[
        Time,
        Meaning("take a checkpoint so often: 10s, 500ms, 5min", "only at the end", sets="checkpointing.interval_ms"),
    ]
    checkpoint_timeout: Annotated[
        Time, Meaning("a checkpoint that takes longer is given up", "10min", sets="checkpointing.timeout_ms")
    ]
    checkpoint_min_pause: Annotated[
        TimeOrZero,
        Meaning(
            "the least time between the end of a checkpoint and the begin of the next",
            "0",
            sets="checkpointing.min_pause_ms",
        ),
    ]
    checkpoint_initial_delay: Annotated[
        Duration | None,
        Form("TIME|random", duration_or("random")),
        Meaning(
            "when the first checkpoint begins, behind the start of the job and each of its restarts; random: at a"
            " time between checkpoint_min_pause and the interval",
            "1s, or checkpoint_min_pause where that is longer",
            sets=_initial_delay,
        ),
    ]
    max_concurrent_checkpoints: Annotated[
        Count, Meaning("how many may be under way at once", "1", sets="checkpointing.max_concurrent")
    ]
    tolerable_checkpoint_failures: Annotated[
        Number,
        Meaning(
            "how many checkpoints may fail one after the other before the job fails",
            "0",
            sets="checkpointing.tolerable_failures",
        ),
    ]
    tolerable_checkpoint_failures_by_cause: Annotated[
        Mapping[str, int | str] | str | None,
        Form("CAUSE=N|unlimited,...", tolerable_failures),
        Meaning(
            "the same for causes that are counted by themselves, as in checkpoint-expired=3",
            "none: they count together",
            sets="checkpointing.tolerable_by_reason",
        ),
    ]
    max_concurrent_checkpoint_deletions: Annotated[
        Count,
        Meaning(
            "how many checkpoints that are needed no more are deleted at a time",
            "4",
            sets="checkpointing.max_concurrent_deletions",
        ),
    ]
    retained_checkpoints: Annotated[
        Count,
        Meaning(
            "how many of the completed checkpoints are kept while the job runs", "1", sets="checkpointing.retained"
        ),
    ]
    checkpoint_fsync: Annotated[
        Switch,
        Meaning(
            "sync the files of checkpoints and of file sinks to the disk before they count, so that they survive a"
            " loss of power",
            "true",
            sets="checkpointing.fsync",
        ),
    ]
    checkpointing_mode: Annotated[
        CheckpointingMode | str | None,
        _one_of(CheckpointingMode),
        Meaning("what holds for every row after a failure", "exactly-once", sets="checkpointing.mode"),
    ]
    unaligned_checkpoints: Annotated[
        Switch, Meaning("let barriers overtake the batches that wait", "false", sets="checkpointing.unaligned")
    ]
    aligned_checkpoint_timeout: Annotated[
        TimeOrZero,
        Meaning("unaligned checkpoints begin aligned for so long", "0", sets="checkpointing.aligned_timeout_ms"),
    ]
    retention: Annotated[
        ExternalizedCheckpointRetention | str | None,
        _one_of(ExternalizedCheckpointRetention),
        Meaning(
            "which jobs keep their last checkpoint, besides those that are stopped: no-externalized-checkpoints:"
            " none; delete-on-cancellation: those that fail; retain-on-cancellation: those that are cancelled too",
            "retain-on-cancellation",
            sets=lambda settings, retention: settings.with_retention(retention),
        ),
    ]
    checkpoint_permissions: Annotated[
        int | str | None,
        Form("OCTAL", permissions),
        Meaning(
            "the permissions of new folders of checkpoints, savepoints and archives on a file system of this"
            " machine, whatever the umask; files in them have the same without the right to execute: 0750 lets the"
            " group read",
            "0700: of the user alone",
            sets="checkpointing.permissions",
        ),
    ]
    savepoint_dir: Annotated[
        Directory,
        Meaning(
            "where savepoints go, a folder or an address; with it Ctrl-C stops with a savepoint there",
            "none: Ctrl-C stops with a checkpoint",
            sets=_directory("savepoint_directory"),
        ),
    ]
    archive_dir: Annotated[
        Directory,
        Meaning(
            "where a job that has ended leaves what `flykka history` shows",
            "archives/ in a checkpoint folder that was named",
            sets=_directory("archive_directory"),
        ),
    ]


class StartOptions(TypedDict, total=False):
    """The start of jobs, which one of them at most says; all but `fresh` are for the first job."""

    from_checkpoint: Annotated[
        str | None,
        Form("auto|latest|PATH", text),
        Meaning(
            "let the first job continue where its last run left off (auto), from the newest checkpoint of any job in"
            " the checkpoint folder (latest), or from this one",
            "auto",
            sets=_start,
        ),
    ]
    from_savepoint: Annotated[
        str | PathLike[str] | None,
        Form("PATH", path, is_path=True),
        Meaning(
            "let the first job start from this savepoint, wherever its folder was moved to",
            "as from_checkpoint says",
            sets=_start,
            flags=("-s",),
        ),
    ]
    allow_non_restored_state: Annotated[
        Switch,
        Meaning(
            "of a savepoint: drop state of operators that the job does not have",
            "the job is refused",
            sets="start.allow_non_restored_state",
            flags=("-n",),
        ),
    ]
    fresh: Annotated[
        Switch,
        Meaning(
            "let all jobs begin with their input, whatever was kept; refused where the folder of a sink holds rows"
            " of the job",
            "they continue",
            sets=lambda settings, fresh: _start(settings, None) if fresh else settings,
        ),
    ]
    overwrite: Annotated[
        Paths | None,
        Form("FOLDER", paths, is_path=True),
        Meaning(
            "delete what the first job has published in this folder of a sink, and let it begin with its input; may"
            " be given several times",
            "nothing is deleted",
            sets=_overwrite,
        ),
    ]


class RecordingOptions(TypedDict, total=False):
    """Recordings of a cluster."""

    record: Annotated[
        "str | PathLike[str] | TraceRecorder | None",
        Form("FILE", _trace, is_path=True),
        Meaning(
            "write down what every actor does, for `flykka trace`; a second environment of the app has FILE-2 and so"
            " on",
            "only the last turns before a failure",
            field="record",
        ),
    ]
    ring: Annotated[
        Count,
        Meaning(
            "of a recording: write the last turns only, at least N of them, when the app ends or a job fails; the"
            " file replays from where it begins",
            "every turn, as it happens",
        ),
    ]
    max_bytes: Annotated[
        Count,
        Meaning(
            "of a recording: the file grows no further; the recording ends there, which it says, and the jobs go on",
            "without end",
        ),
    ]
    flight_recorder_turns: Annotated[
        Number,
        Meaning(
            "how many turns are kept in memory without a recording, to be written when a job fails",
            "50000",
            field="flight_recorder_turns",
        ),
    ]


class RestOptions(TypedDict, total=False):
    """The web page and the REST interface."""

    rest: Annotated[
        str | int | None,
        Form("[HOST:]PORT", _address),
        Meaning(
            "where requests are answered; port 0 is any that is free, and without a host only this machine is answered",
            "0 for `flykka run`, else none",
        ),
    ]
    rest_token_file: Annotated[
        File,
        Meaning("the file with the token that every request must bear; needed for any host but this machine", "none"),
    ]
    rest_no_token: Annotated[
        Switch,
        Meaning(
            "let requests that change something, from this machine, do without a token, as Flink's command line and"
            " dashboard do",
            "false",
        ),
    ]
    rest_connections_per_peer: Annotated[
        Count,
        Meaning(
            "how many connections one address may have at a time",
            "64, without a bound if only this machine is answered",
        ),
    ]
    rest_certificate: Annotated[File, Meaning("TLS by this certificate (PEM)", "none")]
    rest_key: Annotated[File, Meaning("its key", "none")]


class ReportingOptions(TypedDict, total=False):
    """Receivers of metrics."""

    otel: Annotated[
        str | None,
        Form("ENDPOINT", checked_endpoint),
        Meaning(
            "send metrics, checkpoints and restarts to this receiver of OpenTelemetry's protocol by HTTP, as in"
            " http://localhost:4318 (the extra `otel`)",
            "nowhere",
        ),
    ]
    otel_interval: Annotated[Time, Meaning("how often metrics are sent there", "30s")]
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
    """The options that `get_execution_environment` takes by name. None is as if it were not given."""


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
