"""A flipped bit in any file of a checkpoint or savepoint: found by `flykka savepoint verify`, and by a restore."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import flykka.state
from flykka import StreamExecutionEnvironment
from flykka.cli.main import main
from flykka.errors import CheckpointError, JobCancelledError, JobRestoreError
from flykka.messages.control.job import CheckpointCompleted
from tests.integration import state_program
from tests.integration.arrivals import END
from tests.integration.state_program import listed
from tests.integration.test_savepoints import wait_for, wait_read

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

Environment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that was cancelled, with a savepoint and a checkpoint: keyed state, windows, staged rows."""
    folder = tmp_path_factory.mktemp("job")
    state_program.arrive(folder / "orders", "first", state_program.FIRST)
    with StreamExecutionEnvironment.get_execution_environment(task_managers=1, slots_per_task_manager=1) as env:
        env.set_externalized_checkpoint_retention("RETAIN_ON_CANCELLATION")
        client = state_program.start(env, folder, parallelism=1)
        wait_read(client, rows=len(state_program.FIRST))
        client.trigger_savepoint()
        for _ in range(2):
            wait_for(client, lambda said: isinstance(said, CheckpointCompleted))
        client.cancel()
        with pytest.raises(JobCancelledError):
            client.wait(timeout=60)
    return folder


def savepoint_of(folder: Path) -> Path:
    (savepoint,) = (folder / "savepoints").iterdir()
    return savepoint


def checkpoint_of(folder: Path) -> Path:
    (checkpoint,) = (folder / "checkpoints").glob("*/chk-*")
    return checkpoint


def files_of(folder: Path) -> list[tuple[Path, Path]]:
    """The files of the savepoint and of the checkpoint, each with the folder to start from."""
    savepoint, checkpoint = savepoint_of(folder), checkpoint_of(folder)
    files = [(file, savepoint) for file in savepoint.rglob("*") if file.is_file()]
    files += [(checkpoint / "_metadata", checkpoint)]
    files += [(file, checkpoint) for file in (checkpoint.parent / "shared").rglob("*") if file.is_file()]
    return sorted(files)


@contextmanager
def flipped(file: Path, place: int, bit: int) -> Iterator[None]:
    """The file with one bit flipped, and afterwards as it was."""
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
            with flipped(file, place, place % 8):
                if not is_found(file, path):
                    unfound.append((file.name, place))
    return unfound


def test_verify_finds_flipped_bits_in_every_file(folder: Path) -> None:
    assert flykka.state.verify(savepoint_of(folder)).damages == ()
    assert flykka.state.verify(checkpoint_of(folder)).damages == ()
    assert flykka.state.verify(savepoint_of(folder)).without_digests == 0

    assert flips_unfound(folder, step=211) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_verify_finds_a_flip_of_every_byte(folder: Path) -> None:
    assert flips_unfound(folder, step=1) == []


def test_verify_prints_each_damaged_missing_and_further_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    savepoint = tmp_path / "savepoint-copy"
    shutil.copytree(savepoint_of(folder), savepoint)
    assert main(["savepoint", "verify", str(savepoint)]) == 0
    assert "all as they were written" in capsys.readouterr().out
    cut, gone, *_ = sorted(file for file in savepoint.rglob("*.parquet"))
    cut.write_bytes(cut.read_bytes()[:-1])
    gone.unlink()
    for stranger in (cut.with_name("more.parquet"), savepoint / "more"):
        stranger.write_bytes(b"")

    exit_code = main(["savepoint", "verify", str(savepoint)])

    out = capsys.readouterr().out
    assert exit_code == 1
    assert f"- {cut} is damaged: " in out
    assert f"- {gone} is not there" in out
    assert f"- {cut.with_name('more.parquet')} is none of the files that were written there" in out
    assert f"- {savepoint / 'more'} is none of the files that were written there" in out
    assert "4 damaged or missing" in out


def restored(environment: Environment, folder: Path, path: Path, run: Path) -> Path:
    """Run the job from a checkpoint to the end of its input, with an output of its own."""
    run.mkdir()
    shutil.copytree(folder / "orders", run / "orders")
    state_program.arrive(run / "orders", "then", state_program.THEN)
    (run / "orders" / END).touch()
    env = environment()
    env.from_checkpoint(str(path))
    state_program.start(env, run, parallelism=1).wait(timeout=120)
    return run / "output-1"


def rows_below(spark: SparkSession, output: Path) -> set[tuple[object, ...]]:
    folders = [each for each in output.iterdir() if any(each.glob("*.parquet"))] if output.exists() else []
    return {(each.name, *row) for each in folders for row in listed(spark.read.parquet(str(each)))}


def check_flips_end_the_job(
    spark: SparkSession, environment: Environment, folder: Path, tmp_path: Path, number: int
) -> None:
    right = rows_below(spark, restored(environment, folder, savepoint_of(folder), tmp_path / "right"))
    random = Random(38)
    for flip in range(number):
        file, path = random.choice(files_of(folder))
        run = tmp_path / f"flip-{flip}"
        with flipped(file, random.randrange(file.stat().st_size), random.randrange(8)):
            with pytest.raises(CheckpointError) as damaged:
                restored(environment, folder, path, run)
        assert str(file) in str(damaged.value)
        assert "restarted" not in str(damaged.value)
        assert rows_below(spark, run / "output-1") <= right
        if file.name != "_metadata":
            assert isinstance(damaged.value, JobRestoreError)
            assert "no earlier checkpoint is kept that is whole" in str(damaged.value)


def test_a_job_fails_at_once_when_a_bit_of_its_state_is_flipped(
    spark: SparkSession, environment: Environment, folder: Path, tmp_path: Path
) -> None:
    check_flips_end_the_job(spark, environment, folder, tmp_path, 4)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_forty_flipped_bits_publish_no_wrong_row(
    spark: SparkSession, environment: Environment, folder: Path, tmp_path: Path
) -> None:
    check_flips_end_the_job(spark, environment, folder, tmp_path, 40)
