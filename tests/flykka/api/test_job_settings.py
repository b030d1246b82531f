"""Settings that apply to every job of an environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flykka.api.configuration.restart_strategies import RestartStrategies
from flykka.api.environment import StreamExecutionEnvironment
from flykka.api.job_settings import JobSettings
from flykka.api.streams.stream_graph_generator import Defaults
from flykka.client.start_settings import StartSettings
from flykka.errors import DurationError, ProgramError
from flykka.messages.graph.job_graph import (
    UNLIMITED_TOLERABLE_FAILURES,
    CheckpointFailureReason,
    CheckpointingMode,
    CheckpointingSettings,
    ClientHeartbeatSettings,
    ExponentialDelayRestartStrategyConfiguration,
    ExternalizedCheckpointRetention,
    NoRestartStrategyConfiguration,
)
from tests.flykka.api.without_spark import without_spark


def test_settings_can_be_chained() -> None:
    env = without_spark()

    chained = env.set_parallelism(2).set_max_parallelism(8).enable_checkpointing("1s", retained=2)

    assert chained is env
    assert env.defaults == Defaults(parallelism=2, max_parallelism=8)
    assert env.checkpointing == CheckpointingSettings(directory="", interval_ms=1_000, retained=2)


def test_jobs_with_checkpoints_restart_with_growing_delays_by_default() -> None:
    without, with_checkpoints = without_spark(), without_spark().enable_checkpointing("1s")

    growing = ExponentialDelayRestartStrategyConfiguration(
        initial_backoff_ms=1_000,
        max_backoff_ms=60_000,
        backoff_multiplier=1.5,
        reset_backoff_threshold_ms=3_600_000,
        jitter_factor=0.1,
        max_same_failures=10,
    )
    assert without.job_settings.resolved_restart_strategy(None) == NoRestartStrategyConfiguration()
    assert with_checkpoints.job_settings.resolved_restart_strategy(None) == growing


def test_settings_of_the_cluster_apply_to_jobs_without_their_own() -> None:
    cluster, own = RestartStrategies.failure_rate_restart(3, "5min"), RestartStrategies.no_restart()

    assert without_spark().enable_checkpointing("1s").job_settings.resolved_restart_strategy(cluster) == cluster
    assert without_spark().set_restart_strategy(own).job_settings.resolved_restart_strategy(cluster) == own
    fallback = without_spark().set_restart_strategy(RestartStrategies.fallback_restart())
    assert fallback.job_settings.resolved_restart_strategy(cluster) == cluster


def test_an_explicit_restart_strategy_applies_with_and_without_checkpoints() -> None:
    chosen = RestartStrategies.fixed_delay_restart(attempts=2)

    assert without_spark().set_restart_strategy(chosen).job_settings.restart_strategy == chosen
    assert (
        without_spark().set_restart_strategy(chosen).enable_checkpointing("1s").job_settings.restart_strategy == chosen
    )


@pytest.mark.parametrize("wrong", ["fixed-delay", 3, None, RestartStrategies.no_restart])
def test_an_invalid_restart_strategy_is_refused_with_an_example(wrong: Any) -> None:
    env = without_spark()

    with pytest.raises(
        ProgramError, match=r"such as RestartStrategies\.fixed_delay_restart\(3, '10s'\).*, not "
    ) as raised:
        env.set_restart_strategy(wrong)

    assert str(raised.value).endswith(f"not {wrong!r}")
    assert env.job_settings.restart_strategy == RestartStrategies.fallback_restart()


@pytest.mark.parametrize("wrong", ["often", RestartStrategies.fallback_restart()])
def test_an_invalid_default_restart_strategy_is_refused_before_the_cluster_starts(wrong: Any) -> None:
    with pytest.raises(ProgramError, match="restart_strategy: "):
        StreamExecutionEnvironment.get_execution_environment(restart_strategy=wrong)


def test_an_unknown_option_is_refused_before_the_cluster_starts() -> None:
    with pytest.raises(ProgramError, match=r"unknown option \(did you mean checkpoint_interval\?\)"):
        StreamExecutionEnvironment.get_execution_environment(checkpoint_intervall="1s")  # type: ignore[call-arg]


def test_a_client_heartbeat_interval_above_the_timeout_is_refused() -> None:
    heartbeats = ClientHeartbeatSettings(interval_ms=2_000, timeout_ms=1_000)
    settings = JobSettings(client_heartbeats=heartbeats)

    assert settings.attached_client_heartbeat is None
    with pytest.raises(ProgramError, match=r"\(1000 ms\) must be longer than their interval \(2000 ms\)"):
        replace(settings, shuts_down_on_attached_exit=True).attached_client_heartbeat  # noqa: B018


def test_the_checkpoint_directory_is_an_absolute_path_or_uri(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert without_spark().set_checkpoint_dir("here").checkpointing.directory == str(tmp_path / "here")
    assert without_spark().set_checkpoint_dir("s3://bucket/here").checkpointing.directory == "s3://bucket/here"


def test_invalid_settings_are_refused() -> None:
    env = without_spark()

    with pytest.raises(ProgramError, match="parallelism must be a whole number from 1, not 0"):
        env.set_parallelism(0)
    with pytest.raises(DurationError, match="checkpoint interval '0s'"):
        env.enable_checkpointing("0s")
    with pytest.raises(ProgramError, match="number of retained checkpoints"):
        env.enable_checkpointing("1s", retained=0)
    with pytest.raises(DurationError, match="initial delay 'soon'"):
        env.enable_checkpointing("1s", initial_delay="soon")
    with pytest.raises(ProgramError, match="number of concurrent deletions"):
        env.enable_checkpointing("1s", max_concurrent_deletions=0)
    with pytest.raises(ProgramError, match="number of tolerable checkpoint failures must be a whole number from 0"):
        env.enable_checkpointing("1s", tolerable_failures=-1)


def test_a_short_interval_without_a_unit_warns_on_its_line() -> None:
    with pytest.warns(UserWarning, match=r"every 10 ms: a number is milliseconds. Write '10s' for seconds") as warned:
        env = without_spark().enable_checkpointing(10)

    assert (env.checkpointing.interval_ms, warned[0].filename) == (10, __file__)


def test_intervals_with_a_unit_and_long_ones_do_not_warn() -> None:
    # Warnings are errors in the tests.
    assert without_spark().enable_checkpointing("10ms").checkpointing.interval_ms == 10
    assert without_spark().enable_checkpointing(100).checkpointing.interval_ms == 100


def test_tolerable_checkpoint_failures_are_set_by_number_and_by_cause() -> None:
    env = without_spark().set_tolerable_checkpoint_failure_number(3)

    env.set_tolerable_checkpoint_failure_number(5, "EXPIRED", "CHECKPOINT_ASYNC_EXCEPTION")
    env.set_fail_on_checkpointing_errors(False, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE)
    env.set_fail_on_checkpointing_errors(True, "CHECKPOINT_EXPIRED").enable_checkpointing("1s")

    assert env.checkpointing.tolerable_failures == 3
    assert {str(each.reason): each.number for each in env.checkpointing.tolerable_by_reason} == {
        "CHECKPOINT_ASYNC_EXCEPTION": 5,
        "CHECKPOINT_EXPIRED": 0,
        "FINALIZE_CHECKPOINT_FAILURE": UNLIMITED_TOLERABLE_FAILURES,
    }
    assert env.set_fail_on_checkpointing_errors(False).checkpointing.tolerable_failures == 2**31 - 1


def test_a_cause_that_never_fails_checkpoints_is_refused_with_valid_ones() -> None:
    with pytest.raises(ProgramError, match=r"cause of failure must be one of .*CHECKPOINT_EXPIRED.* not 'SUBSUMED'"):
        without_spark().set_tolerable_checkpoint_failure_number(1, "SUBSUMED")


@pytest.mark.parametrize(
    ("said", "delay_ms", "is_random"),
    [(None, None, False), ("0s", 0, False), ("3s", 3_000, False), ("random", None, True)],
)
def test_the_initial_checkpoint_delay_is_configured_or_random(
    said: str | None, delay_ms: int | None, is_random: bool
) -> None:
    checkpointing = without_spark().enable_checkpointing("10s", initial_delay=said).checkpointing

    assert (checkpointing.initial_delay_ms, checkpointing.has_random_initial_delay) == (delay_ms, is_random)


def test_a_job_can_tolerate_no_failed_checkpoint() -> None:
    env = without_spark().enable_checkpointing("1s", tolerable_failures=0)

    assert env.checkpointing.tolerable_failures == 0


@pytest.mark.parametrize(
    "retention", [ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, "RETAIN_ON_CANCELLATION"]
)
def test_checkpoint_retention_is_an_enum_or_its_name(
    retention: ExternalizedCheckpointRetention | str,
) -> None:
    env = without_spark().enable_checkpointing("1s").set_externalized_checkpoint_retention(retention)

    assert env.checkpointing.retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION


def test_the_error_for_an_unknown_retention_lists_the_valid_ones() -> None:
    with pytest.raises(ProgramError, match=r"one of NO_EXTERNALIZED_CHECKPOINTS, .*, not 'KEEP'"):
        without_spark().set_externalized_checkpoint_retention("KEEP")


def test_the_checkpoint_to_continue_from_is_a_path_or_latest() -> None:
    assert without_spark().from_checkpoint("latest").job_settings.start.restore_from == "latest"
    with pytest.raises(ProgramError, match="must be a path, 'latest' or 'auto'"):
        without_spark().from_checkpoint("")


def test_a_job_can_start_from_a_savepoint_or_checkpoint() -> None:
    env = without_spark().from_savepoint("/savepoints/s", allow_non_restored_state=True)
    first = env.job_settings.start

    env.from_checkpoint("latest")

    assert first == StartSettings(restore_from="/savepoints/s", allow_non_restored_state=True)
    assert env.job_settings.start == StartSettings(restore_from="latest")
    with pytest.raises(ProgramError, match="the savepoint to start from must be a path"):
        without_spark().from_savepoint("")


def test_a_start_location_may_be_a_path_object(tmp_path: Path) -> None:
    env = without_spark().set_checkpoint_dir(tmp_path / "c").set_default_savepoint_directory(tmp_path / "s")

    assert env.checkpointing.directory == str(tmp_path / "c")
    assert env.checkpointing.savepoint_directory == str(tmp_path / "s")
    assert env.from_checkpoint(tmp_path / "chk-1").job_settings.start.restore_from == str(tmp_path / "chk-1")
    assert env.from_savepoint(tmp_path / "savepoint-1").job_settings.start.restore_from == str(tmp_path / "savepoint-1")


def test_a_relative_savepoint_directory_is_resolved_against_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    here = without_spark().set_default_savepoint_directory("savepoints")
    elsewhere = without_spark().set_default_savepoint_directory("s3://bucket/savepoints")

    assert here.checkpointing.savepoint_directory == str(tmp_path / "savepoints")
    assert elsewhere.checkpointing.savepoint_directory == "s3://bucket/savepoints"
    with pytest.raises(ProgramError, match="the default savepoint directory must be a path"):
        without_spark().set_default_savepoint_directory("")


def test_a_relative_archive_directory_is_resolved_against_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert without_spark().set_archive_dir("archives").checkpointing.archive_directory == str(tmp_path / "archives")
    with pytest.raises(ProgramError, match="the archive directory must be a path"):
        without_spark().set_archive_dir("")


def test_unaligned_checkpoints_follow_the_settings() -> None:
    env = without_spark().enable_checkpointing("1s").enable_unaligned_checkpoints()

    env.set_aligned_checkpoint_timeout("3s")

    assert env.checkpointing.unaligned
    assert env.checkpointing.aligned_timeout_ms == 3_000
    assert not env.enable_unaligned_checkpoints(False).checkpointing.unaligned


def test_unaligned_checkpoints_do_not_overlap_whichever_option_is_set_first() -> None:
    with pytest.raises(ProgramError, match=r"cannot overlap: .* max_concurrent=1, not 2"):
        without_spark().enable_unaligned_checkpoints().enable_checkpointing("1s", max_concurrent=2)
    with pytest.raises(ProgramError, match=r"cannot overlap: .* max_concurrent=1, not 2"):
        without_spark().enable_checkpointing("1s", max_concurrent=2).enable_unaligned_checkpoints()


@pytest.mark.parametrize("mode", [CheckpointingMode.AT_LEAST_ONCE, "AT_LEAST_ONCE"])
def test_unaligned_checkpoints_are_exactly_once(mode: CheckpointingMode | str) -> None:
    with pytest.raises(ProgramError, match="need the checkpointing mode EXACTLY_ONCE, not AT_LEAST_ONCE"):
        without_spark().enable_unaligned_checkpoints().set_checkpointing_mode(mode)


def test_an_unknown_checkpointing_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProgramError, match="must be one of EXACTLY_ONCE, AT_LEAST_ONCE, not 'ONCE'"):
        without_spark().set_checkpointing_mode("ONCE")
