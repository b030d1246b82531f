"""Apps whose jobs run on the session of the tests: their console output, and the effects of the options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.api.launch import current_launch
from flykka.cli.main import main

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROLOGUE = """\
import sys
from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy

FOLDER = sys.argv[1]

def copy(env, name, function=None):
    source = FileSource.parquet(f"{FOLDER}/in").files_per_batch(1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", uid=f"{name}-numbers")
    if function is not None:
        stream = stream.transform(function)
    stream.sink_to(FileSink.parquet(f"{FOLDER}/{name}")).name(name)
"""

TWO_JOBS = """
with StreamExecutionEnvironment.get_execution_environment() as env:
    env.set_parallelism(1)
    copy(env, "first")
    env.execute_async("job of the first")
    print("nobody waits")
print("between")
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
copy(env, "second")
env.execute_async("job of the second")
sys.exit(0)
"""

FAILING = """
from pyspark.sql import functions as F

def fail(rows):
    return rows.withColumn("id", F.expr("assert_true(false, 'never')"))

with StreamExecutionEnvironment.get_execution_environment() as env:
    copy(env, "broken", fail)
    env.execute("broken")
"""

FORGETFUL = """
with StreamExecutionEnvironment.get_execution_environment() as env:
    copy(env, "forgotten")
"""


@pytest.fixture
def numbers_folder(spark: SparkSession, tmp_path: Path) -> Path:
    spark.range(10).coalesce(1).write.parquet(str(tmp_path / "in"))
    return tmp_path


def write_app(folder: Path, source: str) -> str:
    path = folder / "app.py"
    path.write_text(PROLOGUE + source)
    return str(path)


def test_every_job_is_displayed_and_awaited_and_launch_options_take_precedence(
    spark: SparkSession, numbers_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = str(numbers_folder / "checkpoints")
    options = ["--parallelism", "2", "--task-managers", "2", "--master", "local[9]", "--checkpoint-dir", checkpoints]

    code = main(["run", write_app(numbers_folder, TWO_JOBS), str(numbers_folder), *options])

    lines = capsys.readouterr().out.splitlines()
    ignored = "--master local[9] has no effect: the app has started Spark itself, at local[2]"
    events = [line.partition(" in ")[0] for line in lines if not line.startswith("  ")]
    assert code == 0
    address = "web page and REST interface at http://127.0.0.1:#"
    assert [re.sub(r":\d+$", ":#", line) for line in events] == [
        ignored,
        address,
        "nobody waits",
        "job 'job of the first' FINISHED",
        "between",
        ignored,
        address,
        "job 'job of the second' FINISHED",
    ]
    assert any("task-manager-2 runs its first task" in line and line.endswith("/2)") for line in lines)
    assert lines.count("  read         10 rows from 'numbers'") == 2
    assert [spark.read.parquet(str(numbers_folder / name)).count() for name in ("first", "second")] == [10, 10]
    assert not current_launch().shows_jobs


def test_a_failing_job_ends_with_its_error_and_line(numbers_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_app(numbers_folder, FAILING)

    code = main(["run", path, str(numbers_folder), "--checkpoint-dir", str(numbers_folder / "checkpoints")])

    captured = capsys.readouterr()
    (record,) = (numbers_folder / "checkpoints").glob("*/flight-record.trace")
    assert code == 1
    assert f"  recorded     flykka trace show {record}" in captured.out.splitlines()
    assert "Traceback (most recent call last)" not in captured.err
    where, error, *_ = captured.err.splitlines()
    number = (PROLOGUE + FAILING).splitlines().index('    env.execute("broken")') + 1
    assert where == f'{path}:{number}: env.execute("broken")'
    assert error.startswith("flykka: JobExecutionError: job 'broken' ")
    assert str(record) in captured.err


def test_operators_that_are_never_executed_are_an_error(
    numbers_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_app(numbers_folder, FORGETFUL)

    code = main(["run", path, str(numbers_folder)])

    assert code == 1
    assert capsys.readouterr().err == f"flykka: {path} defined 2 operators but never called execute()\n"
