"""Tests that `flykka savepoint verify` and a restore detect a flipped bit in any file of a checkpoint or savepoint."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import flykka.state
from flykka import StreamExecutionEnvironment
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.checkpoint_storage.verification import state_handles
from flykka.actors.machines.state.handles import with_operators
from flykka.cli.main import main
from flykka.errors import CheckpointError, JobCancelledError, JobRestoreError
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.state.handles import OperatorSubtaskState
from tests.integration import state_program
from tests.integration.arrivals import END
from tests.integration.state_program import sorted_rows
from tests.integration.test_savepoints import wait_for, wait_read
from tests.syncs import watched_syncs

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

Environment = Callable[..., StreamExecutionEnvironment]


def cancelled_job(folder: Path, *, fsync: bool = True) -> None:
    """Run a job, take a savepoint and a checkpoint of it, and cancel it."""
    state_program.write_orders(folder / "orders", "first", state_program.FIRST)
    with StreamExecutionEnvironment.get_execution_environment(task_managers=1, slots_per_task_manager=1) as env:
        env.set_externalized_checkpoint_retention("RETAIN_ON_CANCELLATION").set_checkpoint_fsync(fsync)
        client = state_program.start_orders(env, folder, parallelism=1)
        wait_read(client, rows=len(state_program.FIRST))
        client.trigger_savepoint()
        for _ in range(2):
            wait_for(client, lambda said: isinstance(said, CheckpointCompleted))
        client.cancel()
        with pytest.raises(JobCancelledError):
            client.wait(timeout=60)


@pytest.fixture(scope="module")
def synced(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder of a cancelled job, and the files that the driver synced during the run."""
    folder = tmp_path_factory.mktemp("job")
    with watched_syncs() as syncs:
        cancelled_job(folder)
    return folder, syncs.paths


@pytest.fixture(scope="module")
def job_folder(synced: tuple[Path, list[str]]) -> Path:
    """The folder of that job, with a savepoint and a checkpoint of keyed state, windows and staged rows."""
    return synced[0]


@pytest.fixture(scope="module")
def right(spark: SparkSession, job_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> set[tuple[object, ...]]:
    """The rows that a job publishes if it starts from the undamaged savepoint."""
    with StreamExecutionEnvironment.get_execution_environment(task_managers=1, slots_per_task_manager=1) as env:
        return rows_below(
            spark, run_restored(env, job_folder, savepoint_of(job_folder), tmp_path_factory.mktemp("runs") / "right")
        )


def savepoint_of(folder: Path) -> Path:
    (savepoint,) = (folder / "savepoints").iterdir()
    return savepoint


def checkpoint_of(folder: Path) -> Path:
    (checkpoint,) = (folder / "checkpoints").glob("*/chk-*")
    return checkpoint


def files_of(folder: Path) -> list[tuple[Path, Path]]:
    """Return the files of the savepoint and of the checkpoint, each with the folder to start from."""
    savepoint, checkpoint = savepoint_of(folder), checkpoint_of(folder)
    files = [(file, savepoint) for file in savepoint.rglob("*") if file.is_file()]
    files += [(checkpoint / "_metadata", checkpoint)]
    files += [(file, checkpoint) for file in (checkpoint.parent / "shared").rglob("*") if file.is_file()]
    return sorted(files)


@contextmanager
def flip_bit(file: Path, place: int, bit: int) -> Iterator[None]:
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[place] ^= 1 << bit
    file.write_bytes(damaged)
    try:
        yield
    finally:
        file.write_bytes(whole)


def is_found(file: Path, path: Path) -> bool:
    try:
        return any(str(file) in damage for damage in flykka.state.verify(path).damages)
    except CheckpointError as unreadable:
        return str(file) in str(unreadable)


def flips_unfound(folder: Path, step: int) -> list[tuple[str, int]]:
    files = files_of(folder)
    assert len(files) > 8
    assert not any(file.name.endswith(".crc") for file, _ in files)
    unfound = []
    for file, path in files:
        for place in range(0, file.stat().st_size, step):
            with flip_bit(file, place, place % 8):
                if not is_found(file, path):
                    unfound.append((file.name, place))
    return unfound


def test_verify_detects_flipped_bits_in_every_file(job_folder: Path) -> None:
    assert flykka.state.verify(savepoint_of(job_folder)).damages == ()
    assert flykka.state.verify(checkpoint_of(job_folder)).damages == ()
    assert flykka.state.verify(savepoint_of(job_folder)).without_digests == 0

    assert flips_unfound(job_folder, step=4999) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_verify_detects_a_flip_of_every_byte(job_folder: Path) -> None:
    assert flips_unfound(job_folder, step=1) == []


def test_verify_prints_each_damaged_missing_and_additional_file(
    job_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    savepoint = tmp_path / "savepoint-copy"
    shutil.copytree(savepoint_of(job_folder), savepoint)
    assert main(["savepoint", "verify", str(savepoint)]) == 0
    assert "all undamaged" in capsys.readouterr().out
    cut, gone, *_ = sorted(file for file in savepoint.rglob("*.parquet"))
    cut.write_bytes(cut.read_bytes()[:-1])
    gone.unlink()
    for stranger in (cut.with_name("more.parquet"), savepoint / "more"):
        stranger.write_bytes(b"")

    exit_code = main(["savepoint", "verify", str(savepoint)])

    out = capsys.readouterr().out
    assert exit_code == 1
    assert f"- {cut} is damaged: " in out
    assert f"- {gone} is missing" in out
    assert f"- {cut.with_name('more.parquet')} is unexpected: it was not written with this state" in out
    assert f"- {savepoint / 'more'} is unexpected: it was not written with this state" in out
    assert "4 damaged or missing" in out


def test_state_files_and_folders_are_synced_before_the_metadata(synced: tuple[Path, list[str]]) -> None:
    folder, paths = synced
    for checkpoint in (savepoint_of(folder), checkpoint_of(folder)):
        metadata = paths.index(f"{checkpoint}/_metadata.inprogress")
        before, after = paths[:metadata], paths[metadata:]
        handles = state_handles(CheckpointStorage(str(checkpoint)).read_metadata(str(checkpoint)))
        folders = [handle.path.removeprefix("file:") for handle in handles]
        files = [f"{path}/{file.name}" for path, handle in zip(folders, handles, strict=True) for file in handle.files]
        # The Python workers that write keyed state sync its files: see tests/spark_bridge/worker.
        by_driver = [file for file in files if not file.endswith("/rows.parquet")]

        assert by_driver
        assert set(by_driver) <= set(before)
        for file in by_driver:
            assert file.rpartition("/")[0] in before[before.index(file) :]
        assert str(checkpoint) in after


@pytest.mark.long
def test_no_state_file_is_synced_if_syncing_is_disabled(spark: SparkSession, tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        cancelled_job(tmp_path, fsync=False)

    assert not [path for path in syncs.paths if path.startswith(str(checkpoint_of(tmp_path).parent))]


@pytest.mark.long
def test_handles_without_digests_are_read_with_one_log_line(
    spark: SparkSession,
    environment: Environment,
    job_folder: Path,
    right: set[tuple[object, ...]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = tmp_path / "savepoint-of-old"
    shutil.copytree(savepoint_of(job_folder), old)
    storage = CheckpointStorage(str(old))
    storage.write_metadata(with_operators(storage.read_metadata(str(old)), without_files), str(old))

    with caplog.at_level(logging.INFO, logger="flykka"):
        output = run_restored(environment(), job_folder, old, tmp_path / "run")

    assert rows_below(spark, output) == right
    lines = [record.getMessage() for record in caplog.records if "have no digests" in record.getMessage()]
    assert len(lines) == 1


def without_files(state: OperatorSubtaskState) -> OperatorSubtaskState:
    return replace(state, exclusive=tuple(replace(handle, files=()) for handle in state.exclusive))


def read_all(path: Path) -> None:
    for uid in ("totals", "silence"):
        flykka.state.read(path, uid)


def test_damaged_state_cannot_be_read_from_outside(job_folder: Path) -> None:
    file = next(file for file in sorted(savepoint_of(job_folder).rglob("rows.parquet")))

    with flip_bit(file, 100, 3), pytest.raises(CheckpointError, match=f"{file} is damaged"):
        read_all(savepoint_of(job_folder))


def run_restored(env: StreamExecutionEnvironment, folder: Path, path: Path, run: Path) -> Path:
    """Run the job from a checkpoint to the end of its input, with a separate output folder."""
    run.mkdir()
    shutil.copytree(folder / "orders", run / "orders")
    state_program.write_orders(run / "orders", "then", state_program.THEN)
    (run / "orders" / END).touch()
    env.from_checkpoint(str(path))
    state_program.start_orders(env, run, parallelism=1).wait(timeout=120)
    return run / "output-1"


def rows_below(spark: SparkSession, output: Path) -> set[tuple[object, ...]]:
    folders = [each for each in output.iterdir() if any(each.glob("*.parquet"))] if output.exists() else []
    return {(each.name, *row) for each in folders for row in sorted_rows(spark.read.parquet(str(each)))}


def check_flips_end_the_job(
    spark: SparkSession,
    environment: Environment,
    folder: Path,
    right: set[tuple[object, ...]],
    tmp_path: Path,
    number: int,
) -> None:
    random = Random(38)
    for flip in range(number):
        file, path = random.choice(files_of(folder))
        run = tmp_path / f"flip-{flip}"
        place, bit = random.randrange(file.stat().st_size), random.randrange(8)
        with flip_bit(file, place, bit), pytest.raises(CheckpointError) as damaged:
            run_restored(environment(), folder, path, run)
        assert str(file) in str(damaged.value)
        assert "restarted" not in str(damaged.value)
        assert rows_below(spark, run / "output-1") <= right
        if file.name != "_metadata":
            assert isinstance(damaged.value, JobRestoreError)
            assert "no earlier undamaged checkpoint is retained" in str(damaged.value)


def test_a_job_fails_at_once_if_a_state_bit_is_flipped(
    spark: SparkSession, environment: Environment, job_folder: Path, right: set[tuple[object, ...]], tmp_path: Path
) -> None:
    check_flips_end_the_job(spark, environment, job_folder, right, tmp_path, 2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_forty_flipped_bits_publish_no_wrong_row(
    spark: SparkSession, environment: Environment, job_folder: Path, right: set[tuple[object, ...]], tmp_path: Path
) -> None:
    check_flips_end_the_job(spark, environment, job_folder, right, tmp_path, 40)
