"""Precedence of each option: a command-line option overrides a variable, which overrides the program, which overrides
the options file.
"""

from __future__ import annotations

import argparse
import inspect
import json
from dataclasses import fields
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.api.configuration.options import OPTIONS, Options
from flykka.api.configuration.resolved_options import EnvironmentOptions
from flykka.api.environment import StreamExecutionEnvironment
from flykka.api.job_settings import JobSettings
from flykka.api.launch import Launch, LaunchOptions
from flykka.cli.launch_options import option_values
from flykka.cli.run.command import add_run_options
from flykka.client.start_settings import StartSettings
from tests.flykka.api.without_spark import without_spark

pytestmark = pytest.mark.slow

Level = str
COMMAND_LINE, VARIABLE, PROGRAM, FILE = LEVELS = ("command line", "variable", "program", "file")

SAMPLES: dict[str, tuple[str, str, str, str]] = {
    "master": ("local[1]", "local[2]", "local[3]", "local[4]"),
    "task_managers": ("2", "3", "4", "5"),
    "slots_per_task_manager": ("2", "3", "4", "5"),
    "max_task_managers": ("2", "3", "4", "5"),
    "slot_request_timeout": ("1s", "2s", "3s", "4s"),
    "heartbeat_interval": ("2s", "3s", "4s", "5s"),
    "heartbeat_timeout": ("1s", "2s", "3s", "4s"),
    "owner_lease": ("1s", "2s", "3s", "4s"),
    "job_store_capacity": ("0", "1", "2", "3"),
    "network_buffers": ("1", "2", "3", "4"),
    "network_memory_bytes": ("1", "2", "3", "4"),
    "buffers_per_channel": ("1", "3", "4", "5"),
    "floating_buffers_per_gate": ("0", "1", "3", "4"),
    "task_manager_cpu": ("0.5", "1", "2", "4"),
    "task_manager_memory": ("1gb", "2gb", "3gb", "4gb"),
    "managed_memory": ("1mb", "2mb", "3mb", "4mb"),
    "high_availability": ("/a", "/b", "/c", "zookeeper://zk:2181/d?storage_dir=/d"),
    "restart_strategy": ("none", "fixed-delay,attempts=1", "none", "fixed-delay,attempts=2"),
    "failover_strategy": ("full", "region", "full", "region"),
    "record": ("/a.trace", "/b.trace", "/c.trace", "/d.trace"),
    "ring": ("1", "2", "3", "4"),
    "max_bytes": ("1", "2", "3", "4"),
    "flight_recorder_turns": ("0", "1", "2", "3"),
    "rest": ("1", "2", "3", "4"),
    "rest_token_file": ("/a", "/b", "/c", "/d"),
    "rest_no_token": ("true", "false", "true", "false"),
    "rest_connections_per_peer": ("1", "2", "3", "4"),
    "rest_certificate": ("/a", "/b", "/c", "/d"),
    "rest_key": ("/a", "/b", "/c", "/d"),
    "otel": ("http://a:1", "http://b:1", "http://c:1", "http://d:1"),
    "otel_interval": ("1s", "2s", "3s", "4s"),
    "metric_log_interval": ("1s", "2s", "3s", "4s"),
    "parallelism": ("2", "3", "auto", "5"),
    "max_parallelism": ("128", "256", "512", "1024"),
    "runtime_mode": ("batch", "automatic", "BATCH", "automatic"),
    "schedule_mode": ("pipelined-region", "lazy-from-sources", "PIPELINED_REGION", "lazy_from_sources"),
    "scheduler": ("adaptive", "default", "ADAPTIVE", "default"),
    "resource_wait_timeout": ("1s", "2s", "3s", "4s"),
    "rescale_cooldown": ("1s", "2s", "3s", "4s"),
    "input_dependency_constraint": ("all", "any", "all", "any"),
    "operator_chaining": ("false", "true", "false", "true"),
    "batch_coalescing": ("false", "true", "false", "true"),
    "auto_generated_uids": ("false", "true", "false", "true"),
    "approximate_local_recovery": ("true", "false", "true", "false"),
    "stage_timeout": ("1s", "2s", "3s", "4s"),
    "task_cancellation_interval": ("1s", "2s", "3s", "4s"),
    "task_cancellation_timeout": ("1s", "2s", "3s", "4s"),
    "rpc_timeout": ("1s", "2s", "3s", "4s"),
    "shutdown_on_attached_exit": ("true", "false", "true", "false"),
    "client_heartbeat_interval": ("1s", "2s", "3s", "4s"),
    "client_heartbeat_timeout": ("31s", "32s", "33s", "34s"),
    "python_files": ("/a.py", "/b,/bb", "/c", "/d"),
    "python_archives": ("/a.zip#a", "/b.zip", "/c.zip", "/d.zip"),
    "python_requirements": ("/a.txt", "/b.txt", "/c.txt", "/d.txt"),
    "cached_files": ("a=/a", "b=/b,c=/c", "c=/c", "d=/d"),
    "global_job_parameters": ("a=1", "a=2", "a=3,b=4", "a=5"),
    "latency_tracking_interval": ("1s", "2s", "3s", "4s"),
    "sql_mini_batch_latency": ("2s", "0", "3s", "4s"),
    "sql_state_ttl": ("1s", "2s", "3s", "4s"),
    "checkpoint_dir": ("/a", "s3://b", "/c", "s3://d"),
    "checkpoint_interval": ("1s", "2s", "3s", "4s"),
    "checkpoint_timeout": ("1s", "2s", "3s", "4s"),
    "checkpoint_min_pause": ("1s", "2s", "3s", "4s"),
    "checkpoint_initial_delay": ("2s", "random", "3s", "0"),
    "tolerable_checkpoint_failures_by_cause": (
        "checkpoint-expired=1",
        "checkpoint-expired=unlimited",
        "CHECKPOINT_EXPIRED=3",
        "checkpoint-declined=4",
    ),
    "max_concurrent_checkpoint_deletions": ("1", "2", "3", "5"),
    "max_concurrent_checkpoints": ("2", "3", "4", "5"),
    "tolerable_checkpoint_failures": ("1", "2", "3", "4"),
    "retained_checkpoints": ("2", "3", "4", "5"),
    "checkpoint_fsync": ("false", "true", "false", "true"),
    "checkpointing_mode": ("at-least-once", "exactly-once", "AT_LEAST_ONCE", "EXACTLY_ONCE"),
    "unaligned_checkpoints": ("true", "false", "true", "false"),
    "aligned_checkpoint_timeout": ("1s", "2s", "3s", "4s"),
    "retention": (
        "retain-on-cancellation",
        "no-externalized-checkpoints",
        "RETAIN_ON_CANCELLATION",
        "no_externalized_checkpoints",
    ),
    "checkpoint_permissions": ("0750", "0770", "750", "0755"),
    "savepoint_dir": ("/a", "/b", "/c", "/d"),
    "archive_dir": ("/a", "/b", "/c", "/d"),
    "from_checkpoint": ("latest", "/b", "latest", "/d"),
    "from_savepoint": ("/a", "/b", "/c", "/d"),
    "allow_non_restored_state": ("true", "false", "true", "false"),
    "fresh": ("true", "true", "true", "true"),
    "overwrite": ("/a", "/b,/bb", "/c", "/d"),
}
"""A value of each option for each level; adjacent levels have different values."""

NEEDED = {
    "ring": {"record": "/r"},
    "max_bytes": {"record": "/r"},
    "network_memory_bytes": {"network_buffers": "9"},
    "rest_token_file": {"rest": "1"},
    "rest_no_token": {"rest": "1"},
    "rest_connections_per_peer": {"rest": "1"},
    "rest_certificate": {"rest": "1"},
    "rest_key": {"rest": "1"},
    "allow_non_restored_state": {"from_savepoint": "/s"},
}
"""Options that require another option, which the file sets."""

FIELDS = {
    "runtime_mode": "defaults.runtime_mode",
    "checkpoint_dir": "checkpointing.directory",
    "savepoint_dir": "checkpointing.savepoint_directory",
    "archive_dir": "checkpointing.archive_directory",
    "retention": "checkpointing.retention",
    "from_checkpoint": "start.restore_from",
    "from_savepoint": "start.restore_from",
    "fresh": "start.restore_from",
    "overwrite": "start.overwritten",
}
"""Fields of `JobSettings` for the options that are set by a function instead of the path of a field."""

NETWORK = frozenset(field.name for field in fields(NetworkSettings))

SETTERS = {
    "set_checkpoint_permissions": ("checkpoint_permissions",),
    "set_parallelism": ("parallelism",),
    "set_max_parallelism": ("max_parallelism",),
    "set_runtime_mode": ("runtime_mode",),
    "set_schedule_mode": ("schedule_mode",),
    "set_scheduler": ("scheduler",),
    "set_resource_wait_timeout": ("resource_wait_timeout",),
    "set_rescale_cooldown": ("rescale_cooldown",),
    "set_default_input_dependency_constraint": ("input_dependency_constraint",),
    "disable_operator_chaining": ("operator_chaining",),
    "disable_batch_coalescing": ("batch_coalescing",),
    "disable_auto_generated_uids": ("auto_generated_uids",),
    "set_stage_timeout": ("stage_timeout",),
    "set_task_cancellation": ("task_cancellation_interval", "task_cancellation_timeout"),
    "set_latency_tracking_interval": ("latency_tracking_interval",),
    "set_rpc_timeout": ("rpc_timeout",),
    "set_shutdown_on_attached_exit": (
        "shutdown_on_attached_exit",
        "client_heartbeat_interval",
        "client_heartbeat_timeout",
    ),
    "set_python_requirements": ("python_requirements",),
    "set_global_job_parameters": ("global_job_parameters",),
    "set_sql_mini_batch_latency": ("sql_mini_batch_latency",),
    "set_sql_state_ttl": ("sql_state_ttl",),
    "set_restart_strategy": ("restart_strategy",),
    "set_failover_strategy": ("failover_strategy",),
    "enable_checkpointing": (
        "checkpoint_interval",
        "checkpoint_timeout",
        "checkpoint_min_pause",
        "max_concurrent_checkpoints",
        "tolerable_checkpoint_failures",
        "retained_checkpoints",
        "checkpoint_initial_delay",
        "max_concurrent_checkpoint_deletions",
    ),
    "set_tolerable_checkpoint_failure_number": (
        "tolerable_checkpoint_failures",
        "tolerable_checkpoint_failures_by_cause",
    ),
    "set_fail_on_checkpointing_errors": ("tolerable_checkpoint_failures", "tolerable_checkpoint_failures_by_cause"),
    "enable_approximate_local_recovery": ("approximate_local_recovery",),
    "set_checkpoint_dir": ("checkpoint_dir",),
    "set_checkpoint_fsync": ("checkpoint_fsync",),
    "set_checkpointing_mode": ("checkpointing_mode",),
    "enable_unaligned_checkpoints": ("unaligned_checkpoints",),
    "set_aligned_checkpoint_timeout": ("aligned_checkpoint_timeout",),
    "set_externalized_checkpoint_retention": ("retention",),
    "set_default_savepoint_directory": ("savepoint_dir",),
    "set_archive_dir": ("archive_dir",),
    "enable_rest": (
        "rest",
        "rest_token_file",
        "rest_certificate",
        "rest_key",
        "rest_no_token",
        "rest_connections_per_peer",
    ),
    "enable_open_telemetry": ("otel", "otel_interval"),
    "enable_metric_log": ("metric_log_interval",),
    "from_checkpoint": ("from_checkpoint", "fresh"),
    "from_savepoint": ("from_savepoint", "allow_non_restored_state"),
    "overwrite": ("overwrite",),
}
"""Methods of an environment, with the option that each parameter sets."""


def parsed(arguments: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    return option_values(parser.parse_args(arguments))


def effective(name: str, levels: tuple[Level, ...], monkeypatch: pytest.MonkeyPatch, folder: Path) -> object:
    said = dict(zip(LEVELS, SAMPLES[name], strict=True))
    in_file = dict(NEEDED.get(name, {})) | ({name: said[FILE]} if FILE in levels else {})
    (folder / "flykka.yaml").write_text(json.dumps(in_file))
    monkeypatch.chdir(folder)
    monkeypatch.delenv(OPTIONS[name].variable, raising=False)
    if VARIABLE in levels:
        monkeypatch.setenv(OPTIONS[name].variable, said[VARIABLE])
    arguments: list[str] = []
    if COMMAND_LINE in levels:
        value = said[COMMAND_LINE]
        is_switch = value == "true" or value == "false"
        off = OPTIONS[name].flag.replace("--", "--no-", 1)
        arguments = [OPTIONS[name].flag if value == "true" else off] if is_switch else [OPTIONS[name].flag, value]
    launch = Launch(LaunchOptions(values=parsed(arguments)))
    options = launch.environment_options()
    options.set_options({name: said[PROGRAM]} if PROGRAM in levels else {}, "configuration")
    return observed_value(name, launch, options)


def observed_value(name: str, launch: Launch, options: EnvironmentOptions) -> object:
    if (sets := OPTIONS[name].meaning.sets) is not None:
        settings = launch.overridden(options.with_defaults(JobSettings()), options.overrides)
        checkpointing = settings.checkpointing
        drawn = (checkpointing.initial_delay_ms, checkpointing.has_random_initial_delay)
        path = sets if isinstance(sets, str) else FIELDS.get(name)
        of_jobs = drawn if path is None else attrgetter(path)(settings)
        field = OPTIONS[name].meaning.field
        # The cluster's default applies if the job sets no value.
        of_cluster = getattr(options.cluster_settings(), field) if field else None
        return (of_jobs, of_cluster)
    if (field := OPTIONS[name].meaning.field) is None:
        return options.values.get(name)
    cluster = options.cluster_settings()
    return getattr(cluster.network if field in NETWORK else cluster, field)


def test_every_option_has_samples() -> None:
    assert set(SAMPLES) == set(OPTIONS)


def test_no_two_options_set_one_field_by_its_path() -> None:
    paths = [option.meaning.sets for option in OPTIONS.values() if isinstance(option.meaning.sets, str)]

    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_level_nearest_to_the_run_takes_precedence(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Each level has its own value, alone or with the levels below it; without any level the default applies.
    alone = [effective(name, (level,), monkeypatch, tmp_path) for level in LEVELS]
    together = [effective(name, LEVELS[place:], monkeypatch, tmp_path) for place in range(len(LEVELS))]

    assert together == alone
    assert name == "fresh" or all(nearer != further for nearer, further in pairwise(alone))
    default = effective(name, (), monkeypatch, tmp_path)
    assert any(value != default for value in alone)


def test_every_option_is_an_argument_of_get_execution_environment() -> None:
    arguments = inspect.signature(StreamExecutionEnvironment.get_execution_environment).parameters
    named = set(Options.__annotations__)

    assert set(arguments) - {"configuration", "options"} == set(OPTIONS) - named


def test_every_setter_of_an_environment_sets_options() -> None:
    begins = ("set_", "enable_", "disable_", "from_checkpoint", "from_savepoint", "overwrite")
    setters = {name for name in dir(StreamExecutionEnvironment) if name.startswith(begins)}

    assert setters == set(SETTERS)
    assert {option for options in SETTERS.values() for option in options} <= set(OPTIONS)
    for name, options in SETTERS.items():
        parameters = list(inspect.signature(getattr(StreamExecutionEnvironment, name)).parameters)[1:]
        assert len(options) == max(len(parameters), 1) or name in ("from_checkpoint", "set_python_requirements"), name


def test_the_file_applies_if_a_setter_leaves_an_option_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "flykka.yaml").write_text("checkpoint_timeout: 7s\nretained_checkpoints: 3\nparallelism: 2\n")
    monkeypatch.chdir(tmp_path)
    env = without_spark()
    env.job_settings = Launch().environment_options().with_defaults(env.job_settings)

    env.enable_checkpointing("1s", retained=5)

    assert env.checkpointing.timeout_ms == 7_000
    assert (env.checkpointing.retained, env.defaults.parallelism) == (5, 2)


def test_a_start_location_at_a_nearer_level_replaces_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "flykka.yaml").write_text("from_savepoint: /s\nallow_non_restored_state: true\n")
    monkeypatch.chdir(tmp_path)
    launch = Launch(LaunchOptions(values={"fresh": True}))
    options = launch.environment_options()
    settings = options.with_defaults(JobSettings())
    assert settings.start == StartSettings(restore_from="/s", allow_non_restored_state=True)

    settings = launch.overridden(settings, options.overrides)

    assert settings.start == StartSettings(restore_from=None)
