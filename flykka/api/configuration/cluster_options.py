"""Options of an environment's cluster, and of how it is watched."""

from __future__ import annotations

from typing import Any

from flykka.api.configuration.option import ConfigOption, OptionGroup
from flykka.api.configuration.readers import (
    choice,
    cores,
    flag,
    memory_size,
    path,
    positive_duration,
    stated,
    text,
    whole_number,
    words,
)
from flykka.api.configuration.restart_strategy_text import restart_strategy
from flykka.messages.graph.job_graph import FailoverStrategyKind
from flykka.metrics.endpoint import checked_endpoint


def _store(said: Any) -> Any:
    # The help of a command needs no store.
    from flykka.cluster.high_availability.stores import store_settings

    return store_settings(said)


def _trace(said: Any) -> Any:
    return path(said) if isinstance(said, str) or hasattr(said, "__fspath__") else said


def _address(said: Any) -> str:
    return text(str(said) if type(said) is int else said)


CLUSTER_OPTIONS = (
    ConfigOption(
        name="master",
        shape="URL",
        read=text,
        description="where Spark runs, such as local[4]",
        default="local[*]",
        group=OptionGroup.CLUSTER,
    ),
    ConfigOption(
        name="task_managers",
        shape="N",
        read=whole_number(1),
        description="how many TaskManagers",
        default="1",
        group=OptionGroup.CLUSTER,
        field="task_managers",
    ),
    ConfigOption(
        name="slots_per_task_manager",
        shape="N",
        read=whole_number(1),
        description="how many slots each TaskManager has",
        default="as many as the first job needs",
        group=OptionGroup.CLUSTER,
        field="slots_per_task_manager",
    ),
    ConfigOption(
        name="max_task_managers",
        shape="N",
        read=whole_number(1),
        description="how many TaskManagers there may be while tasks wait for slots",
        default="no more than the others",
        group=OptionGroup.CLUSTER,
        field="max_task_managers",
    ),
    ConfigOption(
        name="slot_request_timeout",
        shape="TIME",
        read=positive_duration,
        description="how long a task may wait for its slot",
        default="5min",
        group=OptionGroup.CLUSTER,
        field="slot_request_timeout_ms",
    ),
    ConfigOption(
        name="heartbeat_interval",
        shape="TIME",
        read=positive_duration,
        description="how often a TaskManager is asked for a sign of life",
        default="1s",
        group=OptionGroup.CLUSTER,
        field="heartbeat_interval_ms",
    ),
    ConfigOption(
        name="heartbeat_timeout",
        shape="TIME",
        read=positive_duration,
        description="a TaskManager that is silent for so long is lost",
        default="10s",
        group=OptionGroup.CLUSTER,
        field="heartbeat_timeout_ms",
    ),
    ConfigOption(
        name="job_store_capacity",
        shape="N",
        read=whole_number(0),
        description="how many jobs that have ended can be asked about",
        default="100",
        group=OptionGroup.CLUSTER,
        field="job_store_capacity",
    ),
    ConfigOption(
        name="network_buffers",
        shape="N",
        read=whole_number(1),
        description="how many batches on their way each TaskManager has room for",
        default="what its tasks need",
        group=OptionGroup.CLUSTER,
        field="network_buffers",
    ),
    ConfigOption(
        name="network_memory_bytes",
        shape="N",
        read=whole_number(1),
        description="how many bytes these batches may have together",
        default="unlimited",
        group=OptionGroup.CLUSTER,
        field="network_memory_bytes",
    ),
    ConfigOption(
        name="buffers_per_channel",
        shape="N",
        read=whole_number(1),
        description="how many batches may be sent to a channel before any was processed",
        default="2",
        group=OptionGroup.CLUSTER,
        field="buffers_per_channel",
    ),
    ConfigOption(
        name="floating_buffers_per_gate",
        shape="N",
        read=whole_number(0),
        description="how many more the channels of a task may have where data waits behind them, together",
        default="2",
        group=OptionGroup.CLUSTER,
        field="floating_buffers_per_gate",
    ),
    ConfigOption(
        name="task_manager_cpu",
        shape="CORES",
        read=cores,
        description="how many cores each TaskManager has for its slots",
        default="not declared",
        group=OptionGroup.CLUSTER,
    ),
    ConfigOption(
        name="task_manager_memory",
        shape="SIZE",
        read=memory_size,
        description="how much memory each TaskManager has, as in 4gb",
        default="not declared",
        group=OptionGroup.CLUSTER,
    ),
    ConfigOption(
        name="managed_memory",
        shape="SIZE",
        read=memory_size,
        description="the part of it that keeps state",
        default="40 % of the memory",
        group=OptionGroup.CLUSTER,
    ),
    ConfigOption(
        name="high_availability",
        shape="DIR|ZOOKEEPER",
        read=stated(_store),
        description="where the jobs are kept, so that the same command goes on with them after this process was killed:"
        " a folder of this machine, or zookeeper://HOST:PORT/PATH?storage_dir=DIR",
        default="in memory",
        group=OptionGroup.CLUSTER,
        field="high_availability",
    ),
    ConfigOption(
        name="owner_lease",
        shape="TIME",
        read=positive_duration,
        description="where locks hold for one machine only, such as in an object store: how long a process that owns a"
        " checkpoint folder or an output folder may be silent before another run of its job takes over",
        default="15s",
        group=OptionGroup.CLUSTER,
        field="owner_lease_ms",
    ),
    ConfigOption(
        name="restart_strategy",
        shape="STRATEGY",
        read=stated(restart_strategy),
        description="what is done after a failure: none, fixed-delay, failure-rate or exponential-delay, with their"
        " settings behind commas, such as fixed-delay,attempts=3,delay=10s",
        default="with checkpoints exponential-delay, and without them none",
        group=OptionGroup.JOBS,
        field="restart_strategy",
        apply=lambda settings, strategy: settings.set_restart_strategy(strategy),
    ),
    ConfigOption(
        name="failover_strategy",
        shape=words(FailoverStrategyKind),
        read=choice(FailoverStrategyKind),
        description="which tasks are restarted: those of the region of the one that failed, or all of them",
        default="region",
        group=OptionGroup.JOBS,
        field="failover_strategy",
        apply=lambda settings, strategy: settings.set_failover_strategy(strategy),
    ),
    ConfigOption(
        name="record",
        shape="FILE",
        read=_trace,
        description="write down what every actor does, for `flykka trace`; a second environment of the app has FILE-2"
        " and so on",
        default="only the last turns before a failure",
        group=OptionGroup.RECORDING,
        field="record",
        is_path=True,
    ),
    ConfigOption(
        name="ring",
        shape="N",
        read=whole_number(1),
        description="of a recording: write the last turns only, at least N of them, when the app ends or a job fails;"
        " the file replays from where it begins",
        default="every turn, as it happens",
        group=OptionGroup.RECORDING,
    ),
    ConfigOption(
        name="max_bytes",
        shape="N",
        read=whole_number(1),
        description="of a recording: the file grows no further; the recording ends there, which it says, and the jobs"
        " go on",
        default="without end",
        group=OptionGroup.RECORDING,
    ),
    ConfigOption(
        name="flight_recorder_turns",
        shape="N",
        read=whole_number(0),
        description="how many turns are kept in memory without a recording, to be written when a job fails",
        default="50000",
        group=OptionGroup.RECORDING,
        field="flight_recorder_turns",
    ),
    ConfigOption(
        name="rest",
        shape="[HOST:]PORT",
        read=_address,
        description="where requests are answered; port 0 is any that is free, and without a host only this machine is"
        " answered",
        default="0 for `flykka run`, else none",
        group=OptionGroup.REST,
    ),
    ConfigOption(
        name="rest_token_file",
        shape="FILE",
        read=path,
        description="the file with the token that every request must bear; needed for any host but this machine",
        default="none",
        group=OptionGroup.REST,
        is_path=True,
    ),
    ConfigOption(
        name="rest_no_token",
        shape="BOOL",
        read=flag,
        description="let requests that change something, from this machine, do without a token, as Flink's command line"
        " and dashboard do",
        default="false",
        group=OptionGroup.REST,
    ),
    ConfigOption(
        name="rest_connections_per_peer",
        shape="N",
        read=whole_number(1),
        description="how many connections one address may have at a time",
        default="64, without a bound if only this machine is answered",
        group=OptionGroup.REST,
    ),
    ConfigOption(
        name="rest_certificate",
        shape="FILE",
        read=path,
        description="TLS by this certificate (PEM)",
        default="none",
        group=OptionGroup.REST,
        is_path=True,
    ),
    ConfigOption(
        name="rest_key",
        shape="FILE",
        read=path,
        description="its key",
        default="none",
        group=OptionGroup.REST,
        is_path=True,
    ),
    ConfigOption(
        name="otel",
        shape="ENDPOINT",
        read=checked_endpoint,
        description="send metrics, checkpoints and restarts to this receiver of OpenTelemetry's protocol by HTTP, as in"
        " http://localhost:4318 (the extra `otel`)",
        default="nowhere",
        group=OptionGroup.REPORTING,
    ),
    ConfigOption(
        name="otel_interval",
        shape="TIME",
        read=positive_duration,
        description="how often metrics are sent there",
        default="30s",
        group=OptionGroup.REPORTING,
    ),
    ConfigOption(
        name="metric_log_interval",
        shape="TIME",
        read=positive_duration,
        description="how often metrics are logged",
        default="never",
        group=OptionGroup.REPORTING,
    ),
)
