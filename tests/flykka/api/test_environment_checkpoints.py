"""Environment settings for checkpoints and idle sources, tested without running a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka import (
    ExternalizedCheckpointRetention,
    FileSink,
    FileSource,
    MasterTriggerRestoreHook,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.errors import CheckpointNotFoundError, ClusterError, ProgramError
from tests.flykka.programs import BIDS

pytestmark = pytest.mark.spark


WATERMARKS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")


@pytest.fixture
def bids(tmp_path: Path) -> FileSource:
    (tmp_path / "bids").mkdir()
    return FileSource.parquet(str(tmp_path / "bids"), schema=BIDS).monitor_continuously("1s")


def copy_bids(env: StreamExecutionEnvironment, bids: FileSource, strategy: WatermarkStrategy = WATERMARKS) -> None:
    copied = env.from_source(bids, strategy, "bids", uid="bids")
    copied.sink_to(FileSink.parquet(f"{bids.path}-copy")).uid("copy")


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        (None, ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS),
        ("RETAIN_ON_CANCELLATION", ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION),
    ],
)
def test_checkpoints_in_a_temporary_folder_are_retained_only_on_request(
    said: str | None, holds: ExternalizedCheckpointRetention, env: StreamExecutionEnvironment, bids: FileSource
) -> None:
    if said is not None:
        env.set_externalized_checkpoint_retention(said)
    copy_bids(env, bids)

    assert env.get_job_graph().checkpointing.retention is holds


def test_failed_or_cancelled_jobs_retain_their_checkpoints_in_a_named_folder(
    env: StreamExecutionEnvironment, bids: FileSource, tmp_path: Path
) -> None:
    copy_bids(env.set_checkpoint_dir(str(tmp_path)), bids)

    settings = env.get_job_graph().checkpointing

    assert settings.directory == str(tmp_path)
    assert settings.retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION


def test_a_job_that_cannot_continue_is_refused_before_anything_starts(
    env: StreamExecutionEnvironment, bids: FileSource, tmp_path: Path
) -> None:
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    copy_bids(env.set_checkpoint_dir(str(directory)).from_checkpoint("latest"), bids)

    with pytest.raises(CheckpointNotFoundError, match="no checkpoint has completed"):
        env.execute("copy")
    with pytest.raises(ClusterError, match="the first job decides"):
        env.cluster.task_managers()
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(
    ("strategy", "idle_timeout_ms", "quiet_period_ms"),
    [
        (WATERMARKS.with_idleness("30s"), 30_000, None),
        (WATERMARKS.with_quiet_period("40s"), None, 40_000),
        (WATERMARKS.with_quiet_period("40s").with_idleness("30s"), 30_000, 40_000),
    ],
)
def test_the_idle_timeout_of_a_source_is_in_the_job_graph(
    env: StreamExecutionEnvironment,
    bids: FileSource,
    strategy: WatermarkStrategy,
    idle_timeout_ms: int | None,
    quiet_period_ms: int | None,
) -> None:
    copy_bids(env, bids, strategy)

    [vertex] = env.get_job_graph().vertices

    assert (vertex.idle_timeout_ms, vertex.quiet_period_ms) == (idle_timeout_ms, quiet_period_ms)


class Counter(MasterTriggerRestoreHook):
    def __init__(self, identifier: str) -> None:
        self._identifier = identifier

    @property
    def identifier(self) -> str:
        return self._identifier

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> bytes | None:
        return None

    def restore_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        return


def test_master_hook_names_must_be_unique(env: StreamExecutionEnvironment) -> None:
    env.add_master_hook(Counter("counter"))

    with pytest.raises(ProgramError, match="a master hook 'counter' exists already"):
        env.add_master_hook(Counter("counter"))
    with pytest.raises(ProgramError, match="has the identifier ' '"):
        env.add_master_hook(Counter(" "))
