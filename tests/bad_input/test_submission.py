"""Tests that errors known at submission are refused before any Spark job runs and any folder is created."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.bad_input.apps import Apps

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COPY = """\
numbers(env).sink_to(FileSink.parquet(f"{HERE}/out")).uid("out")
env.execute("copy")  # here
"""
COPY_TO = """\
numbers(env).sink_to(FileSink.parquet(f"{{HERE}}/{}")).uid("out")
env.execute("copy")  # here
"""
TWO_FORMATS = """\
rows = numbers(env)
rows.sink_to(FileSink.parquet(f"{HERE}/out")).uid("one")
rows.sink_to(FileSink.json(f"{HERE}/out")).uid("other")
env.execute("copy")  # here
"""
REFUSED = "JobSubmissionError: job 'copy' was refused: "
NUMBERS = r"operator 'numbers' \(\S+/app\.py:11\): "
OUT = r"operator 'out' \(\S+/app\.py:14\): "


def corrupt(folder: Path) -> None:
    (folder / "in" / "b.parquet").write_text("this is no parquet, and never was")


def of_another_type(folder: Path) -> None:
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"id": ["seven"], "at": times}), folder / "in" / "b.parquet")


def without_a_column(folder: Path) -> None:
    pq.write_table(pa.table({"id": [7]}), folder / "in" / "b.parquet")


def a_file(folder: Path) -> None:
    (folder / "file").write_text("no folder")


def nothing(folder: Path) -> None:
    """Leave the files valid."""


WRONG: dict[str, tuple[Callable[[Path], None], str, list[str], str]] = {
    "a corrupt file among good ones": (
        corrupt,
        COPY,
        [],
        rf"{REFUSED}UnreadableFileError: {NUMBERS}cannot read \S+/in/b\.parquet as parquet: .*",
    ),
    "a wrongly typed file among good ones": (
        of_another_type,
        COPY,
        [],
        rf"{REFUSED}FileSchemaError: {NUMBERS}\S+/in/b\.parquet does not fit the schema of the source: its column 'id'"
        r" is of type string, not bigint",
    ),
    "a file without a column among good ones": (
        without_a_column,
        COPY,
        [],
        rf"{REFUSED}FileSchemaError: {NUMBERS}\S+/in/b\.parquet .* it has no column 'at' \(expected"
        rf" timestamp\); its columns are"
        r" id;.*",
    ),
    "an output folder that is a file": (
        a_file,
        COPY_TO.format("file"),
        [],
        rf"{REFUSED}SinkError: {OUT}\S+/file is a file: pass the path of a folder, into which a FileSink writes",
    ),
    "an output folder below a file": (
        a_file,
        COPY_TO.format("file/out"),
        [],
        rf"{REFUSED}SinkError: {OUT}\S+/file/out cannot be written to: .*",
    ),
    "two sinks of two formats in one folder": (
        nothing,
        TWO_FORMATS,
        [],
        rf"{REFUSED}SinkError: operator 'one' \(\S+:15\) and operator 'other' \(\S+:16\) both write to \S+/out, as"
        r" parquet and as json: readers expect one of them; give each a path of its own",
    ),
    "a checkpoint folder that is a file": (
        a_file,
        COPY,
        ["--checkpoint-dir", "{}/file"],
        rf"{REFUSED}CheckpointDirectoryError: the checkpoint directory '\S+/file' is a file",
    ),
    "a checkpoint folder below a file": (
        a_file,
        COPY,
        ["--checkpoint-dir", "{}/file/checkpoints"],
        rf"{REFUSED}CheckpointDirectoryError: the checkpoint directory '\S+/checkpoints' cannot be written: .*",
    ),
    "a checkpoint folder at an address that nobody knows": (
        nothing,
        COPY,
        ["--checkpoint-dir", "nope://bucket"],
        r"CheckpointError: job 'copy' was not submitted: the checkpoint directory 'nope://bucket' cannot be used: .*",
    ),
    "no checkpoint where one is to be continued from": (
        nothing,
        COPY,
        ["--from-checkpoint", "{}/in"],
        r"CheckpointNotFoundError: '\S+/in' is not a checkpoint or savepoint: .*",
    ),
    "no checkpoint at all": (
        nothing,
        COPY,
        ["--from-checkpoint", "latest", "--checkpoint-dir", "{}/checkpoints"],
        r"CheckpointNotFoundError: no checkpoint to continue from below '\S+/checkpoints': there is no such folder",
    ),
    "a recording that cannot be written": (
        a_file,
        COPY,
        ["--record", "{}/file/run.trace"],
        r"ClusterError: the recording '\S+/file/run\.trace' cannot be written: Not a directory; give another file .*",
    ),
    "parallelism above the slots": (
        nothing,
        COPY,
        ["--parallelism", "3", "--slots-per-task-manager", "1", "--task-managers", "2"],
        r"InsufficientSlotsError: job 'copy' needs 3 slots but the cluster has 2: 2 TaskManagers with 1 each; lower the"
        r" job's parallelism to 2, or give the cluster more slots: task_managers.*",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_error_names_the_culprit_and_no_file_changes(apps: Apps, name: str) -> None:
    make, body, options, error = WRONG[name]
    make(apps.folder)
    tree, jobs = apps.tree(), apps.jobs()

    result = apps.run(body, *(option.format(apps.folder) for option in options))

    where, text, *line = result.err.splitlines()
    assert (result.code, result.out, where) == (1, "", result.here)
    assert re.fullmatch(f"flykka: {error}", text), text
    assert (apps.tree(), apps.jobs()) == (tree, jobs)
    # The line of the refused source is quoted.
    assert len(line) == (2 if NUMBERS in error else 0)


def test_other_files_in_the_folders_are_preserved(apps: Apps) -> None:
    for folder in ("out", "checkpoints"):
        (apps.folder / folder).mkdir()
        (apps.folder / folder / "notes.txt").write_text("mine")

    result = apps.run(COPY, "--checkpoint-dir", f"{apps.folder}/checkpoints")

    assert (result.code, result.err) == (0, "")
    assert [(apps.folder / folder / "notes.txt").read_text() for folder in ("out", "checkpoints")] == ["mine", "mine"]


def test_a_second_execute_without_new_operators_is_refused(apps: Apps) -> None:
    result = apps.run(COPY.replace("  # here", "") + 'env.execute("again")  # here\n')

    assert (result.code, result.err.splitlines()) == (
        1,
        [
            result.here,
            "flykka: ProgramError: nothing was defined since job 'copy' was executed: start the next one with"
            " from_source(...)",
        ],
    )
    assert apps.spark.read.parquet(f"{apps.folder}/out").count() == 100
