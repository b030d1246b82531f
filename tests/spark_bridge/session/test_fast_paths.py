"""Tests that fast paths are enabled by default, can be disabled in the session, and lead to the same state."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.errors import SessionError
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.session.fast_paths import BACKGROUND_MERGES, LAZY_READING, LOCAL_RECOVERY, WARM_UP, FastPaths

pytestmark = [pytest.mark.spark]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


def test_fast_paths_are_enabled_by_default(session: SparkSession) -> None:
    assert FastPaths.of(session) == FastPaths(
        local_recovery=True, background_merges=True, warm_up=True, lazy_reading=True
    )


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        (LOCAL_RECOVERY, FastPaths(local_recovery=False)),
        (BACKGROUND_MERGES, FastPaths(background_merges=False)),
        (WARM_UP, FastPaths(warm_up=False)),
        (LAZY_READING, FastPaths(lazy_reading=False)),
    ],
)
def test_each_fast_path_can_be_disabled_by_a_setting(session: SparkSession, setting: str, left: FastPaths) -> None:
    session.conf.set(setting, "False")

    assert FastPaths.of(session) == left


def test_a_non_boolean_setting_is_refused_before_a_job_runs(session: SparkSession) -> None:
    session.conf.set(LOCAL_RECOVERY, "of")

    with pytest.raises(SessionError, match=r"^spark\.flykka\.localRecovery is 'of': it must be true or false$"):
        SparkDataPlane(session, CodeRegistry())
