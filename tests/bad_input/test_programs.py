"""Tests that errors in a program are refused on the user's line before a job exists, and that no file is created."""

from __future__ import annotations

import re

import pytest

from tests.bad_input.apps import Apps

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DOUBLE = """\
def double(rows):
    return rows.withColumn("double", F.col("ib") * 2)

"""
FORGETFUL = """\
def forgetful(rows):
    rows.where("id > 1")

"""
CLOSED = """\
closed = StreamExecutionEnvironment.get_execution_environment()
closed.close()
"""

WRONG = {
    "a folder that is not there": (
        'env.from_source(FileSource.parquet(f"{HERE}/nowhere"))  # here',
        r"SourceNotFoundError: nothing to read at \S+/nowhere: there is no such folder or file",
    ),
    "a folder without files": (
        'os.mkdir(f"{HERE}/empty")\nenv.from_source(FileSource.parquet(f"{HERE}/empty"))  # here',
        r"EmptySourceError: \S+/empty contains no file yet from which to infer the schema: declare it with .*",
    ),
    "a file of another format": (
        "env.from_source(FileSource.parquet(__file__))  # here",
        r"UnreadableFileError: no schema can be taken from parquet \S+/app\.py: .*is not a Parquet file.*",
    ),
    "a file system that nobody knows": (
        'env.from_source(FileSource.parquet("nope://bucket/in"))  # here',
        r"SourceError: nope://bucket/in cannot be read: .*No FileSystem for scheme \"nope\"",
    ),
    "no source": (
        'env.from_source("in")  # here',
        r"ProgramError: from_source takes a source such as FileSource\.parquet\(path\), not 'in'",
    ),
    "no watermark strategy": (
        'env.from_source(FileSource.parquet(f"{HERE}/in", schema=COLUMNS), "1s")  # here',
        r"ProgramError: a watermark strategy is one such as .*, not '1s'",
    ),
    "an event-time column that is not there": (
        'env.from_source(FileSource.parquet(f"{HERE}/in"), TIMES.with_timestamp_column("when"), uid="numbers")  # here',
        r"StreamTypeError: numbers \(parquet \S+/in\): there is no event-time column 'when'; the columns are id, at",
    ),
    "an option that Spark's reader does not know": (
        'env.from_source(FileSource.csv(HERE, schema=COLUMNS, haeder=True), uid="texts")  # here',
        r"StreamTypeError: texts \(csv \S+\): Spark has no option 'haeder' for csv files \(did you mean 'header'\?\)",
    ),
    "an option that Spark's writer does not know": (
        'numbers(env).sink_to(FileSink.parquet(f"{HERE}/out", compresion="zstd"))  # here',
        r"StreamTypeError: parquet \S+/out: Spark has no option 'compresion' for parquet files"
        r" \(did you mean 'compression'\?\)",
    ),
    "an unknown column": (
        'numbers(env).where("ib > 3")  # here',
        r"StreamTypeError: where\(ib > 3\): .*`ib` cannot be resolved.*\[`id`, `at`\].*",
    ),
    "an unknown key": (
        'numbers(env).key_by("ib")  # here',
        r"StreamTypeError: key_by\(ib\) after numbers: .*`ib` cannot be resolved.*",
    ),
    "an unknown column in an aggregate": (
        'numbers(env).key_by("id").window(TumblingEventTimeWindows.of("1s")).aggregate(F.sum("ib"))  # here',
        r"StreamTypeError: aggregate\(sum\(ib\)\): .*`ib` cannot be resolved.*",
    ),
    "a window where there is no event time": (
        'numbers(env, strategy=None).key_by("id").window(TumblingEventTimeWindows.of("1s"))  # here',
        r"StreamTypeError: numbers gives no event time to window by: .*",
    ),
    "a uid twice": (
        'numbers(env).where("id > 3").uid("numbers")  # here',
        r"DuplicateUidError: the uid 'numbers' for 'where\(id > 3\)' belongs to 'numbers' \(\S+/app\.py:\d+\):"
        r" give each operator one of its own",
    ),
    "an empty uid": (
        'numbers(env).uid("")  # here',
        r"ProgramError: the uid of 'numbers' must be a permanent name, not ''",
    ),
    "an empty uid of a source": (
        'env.from_source(FileSource.parquet(f"{HERE}/in", schema=COLUMNS), name="numbers", uid=" ")  # here',
        r"ProgramError: the uid of 'numbers' must be a permanent name, not ' '",
    ),
    "a negative length of time": (
        'env.enable_checkpointing("-10s")  # here',
        r"DurationError: checkpoint interval '-10s' is negative",
    ),
    "no parallelism": (
        "numbers(env).set_parallelism(0)  # here",
        r"ProgramError: the parallelism of numbers must be a whole number from 1, not 0",
    ),
    "the name of a restart strategy": (
        'env.set_restart_strategy("fixed-delay")  # here',
        r"ProgramError: a restart strategy is one such as RestartStrategies\.fixed_delay_restart\(3, '10s'\) or"
        r" RestartStrategies\.no_restart\(\), not 'fixed-delay'",
    ),
    "a stream that goes nowhere": (
        'numbers(env).where("id > 3")\nenv.execute("lost")  # here',
        r"ProgramError: the program writes nothing: end a stream with sink_to\(\.\.\.\), perhaps that of"
        r" where\(id > 3\)",
    ),
    "a closed environment": (
        'closed.from_source(FileSource.parquet(f"{HERE}/in"))  # here',
        r"ProgramError: this environment is closed: make another one with get_execution_environment\(\.\.\.\)",
    ),
    "a function that only looks stateful": (
        'numbers(env).key_by("id").transform(lambda rows: rows.dropDuplicates())  # here',
        r"StreamTypeError: transform\(<lambda>\): this removes duplicates \(dropDuplicates, distinct\) within one"
        r" batch only, and the bounds of a batch depend on the arrival of the input;"
        r" key_by\(\.\.\.\)\.window\(\.\.\.\)\.aggregate\(\.\.\.\) gives one row for each key and window of event time;"
        r" transform\(\.\.\., per_batch=True\) allows it for each batch by itself",
    ),
    "a function that returns nothing": (
        "numbers(env).transform(forgetful)  # here",
        r"StreamTypeError: transform\(forgetful\): the function must return a DataFrame, but returned nothing: is a"
        r" `return` missing\?",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_error_names_the_culprit_and_the_line_that_wrote_it(apps: Apps, name: str) -> None:
    body, error = WRONG[name]
    before = {"a closed environment": CLOSED, "a function that returns nothing": FORGETFUL}.get(name, "")

    result = apps.run(body, before=before)

    where, text = result.err.splitlines()
    assert (result.code, result.out, where) == (1, "", result.here)
    assert re.fullmatch(f"flykka: {error}", text), text
    assert set(apps.tree()) - {"empty"} == {"in", "in/a.parquet"}


def test_an_error_in_a_function_shows_the_line_in_the_function(apps: Apps) -> None:
    result = apps.run("numbers(env).transform(double)  # here", before=DOUBLE)

    where, text, *line = result.err.splitlines()
    assert (result.code, where) == (1, result.here)
    assert text.startswith("flykka: StreamTypeError: transform(double): ")
    assert [each.strip() for each in line] == [
        f'File "{result.path}", line {result.source.splitlines().index(DOUBLE.splitlines()[1]) + 1}, in double',
        'return rows.withColumn("double", F.col("ib") * 2)',
    ]


def test_an_error_of_the_app_itself_is_reported_as_by_python(apps: Apps) -> None:
    result = apps.run('numbers(env)\n{}["price"]  # here')

    lines = result.err.splitlines()
    assert (result.code, lines[0], lines[-1]) == (1, "Traceback (most recent call last):", "KeyError: 'price'")
    assert lines[1:3] == [result.frame[0] + "<module>", result.frame[1]]
    assert "flykka" not in result.err.replace(result.path, "")


def test_an_app_without_execute_is_reported(apps: Apps) -> None:
    result = apps.run('numbers(env).sink_to(FileSink.parquet(f"{HERE}/out"))')

    assert (result.code, result.err) == (1, f"flykka: {result.path} defined 2 operators but never called execute()\n")
