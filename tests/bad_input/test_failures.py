"""Tests failures of a running job: one error names the operator and quotes the line, and existing files stay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bad_input.apps import Apps

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A function is called once when the program is defined. This function fails only later, in the job.
RAISES = """\
calls = []
def priced(rows):
    calls.append(rows)
    if len(calls) > 1:
        raise ValueError("no price list")  # here
    return rows

"""
EXITS = RAISES.replace('raise ValueError("no price list")', "sys.exit(3)")
FORGETS = """\
calls = []
def priced(rows):
    calls.append(rows)
    if len(calls) == 1:
        return rows

"""
RAISES_IN_WORKER = """\
def priced(frames):
    for frame in frames:
        raise ValueError("too many")  # here
        yield frame

"""
ENDS_WORKER = """\
def priced(frames):
    os._exit(3)
    yield from frames

"""
GIVES_NUMBERS = """\
def priced(frames):
    for frame in frames:
        yield len(frame)

"""
TRANSFORM = 'rows = rows.transform(priced).uid("priced")'
MAP = 'rows = rows.map_in_pandas(priced, COLUMNS).uid("priced")'
OPERATOR = r"operator 'priced' \(\S+/app\.py:\d+\): "
STAGE = "stage 0 of 'numbers -> priced -> out': "

WRONG = {
    "a function that raises": (RAISES, TRANSFORM, rf"ValueError: {OPERATOR}no price list", "priced"),
    "a function that exits": (EXITS, TRANSFORM, rf"SystemExit: {OPERATOR}sys\.exit\(3\) was called, .*", "priced"),
    "a function that returns nothing": (
        FORGETS,
        f"{TRANSFORM}  # here",
        rf"NotADataFrameError: {OPERATOR}the function must return a DataFrame, but returned nothing: .*",
        "priced",
    ),
    "a function that raises in a worker": (RAISES_IN_WORKER, MAP, rf"ValueError: {OPERATOR}too many", "priced"),
    "a function that ends its worker": (
        ENDS_WORKER,
        f"{MAP}  # here",
        rf"WorkerExitedError: {STAGE}Python worker exited unexpectedly \(crashed\): a function has ended its process"
        r" \(os\._exit\), .*",
        "priced",
    ),
    "a function that gives no DataFrames": (
        GIVES_NUMBERS,
        f"{MAP}  # here",
        rf"FunctionOutputError: {STAGE}the function must return its output as .*pandas\.DataFrame or None, not 100",
        "priced",
    ),
    "a value that does not fit": (
        "",
        'rows = rows.with_column("id", F.col("id") / (F.col("id") - 1)).uid("priced")  # here',
        rf"ArithmeticException: {OPERATOR}\[DIVIDE_BY_ZERO\] .*",
        "__truediv__",
    ),
}
COVERED = ("a function that exits", "a function that ends its worker", "a function that gives no DataFrames")
"""Failures whose texts other tests check; the other cases in this file check how errors are printed."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in COVERED else ()) for name in WRONG]
)
def test_one_error_names_the_operator_and_quotes_the_line(apps: Apps, name: str) -> None:
    before, operation, error, function = WRONG[name]
    sink_and_run = 'rows.sink_to(FileSink.parquet(f"{HERE}/out")).uid("out")\nenv.execute("prices")\n'
    publish_earlier(apps)
    tree = apps.tree()

    body = f"rows = numbers(env)\n{operation}\n{sink_and_run}"
    result = apps.run(body, "--checkpoint-dir", f"{apps.folder}/checkpoints", before=before)

    where, text, *line, record = result.err.splitlines()
    assert (result.code, where.rpartition(": ")[2]) == (1, 'env.execute("prices")')
    assert re.fullmatch(f"flykka: JobExecutionError: job 'prices' failed: {error}", text), text
    assert line[-2:] == [result.frame[0] + function, result.frame[1]]
    assert re.fullmatch(r"flight record: \S+/flight-record\.trace \(read it with `flykka trace show`\)", record)
    assert [path for path in apps.tree() if not path.startswith("checkpoints")] == tree


def test_an_unreadable_line_of_text_is_reported_with_file_and_remedy(apps: Apps) -> None:
    texts = apps.folder / "texts"
    texts.mkdir()
    (texts / "a.csv").write_text("id\n1\n")
    (texts / "b.csv").write_bytes(b"id\n\x00\xff\x01 one\n")
    source = 'rows = env.from_source(FileSource.csv(f"{HERE}/texts", schema="id int", header=True), uid="texts")'

    result = apps.run(f'{source}  # here\nrows.sink_to(FileSink.parquet(f"{{HERE}}/out"))\nenv.execute("texts")\n')

    _, text, *line, _ = result.err.splitlines()
    assert result.code == 1
    assert re.fullmatch(
        r"flykka: JobExecutionError: job 'texts' failed: UnreadableFileError: operator 'texts' \(\S+\): cannot read"
        r" \S+/b\.csv: .* \(with the option mode='PERMISSIVE' such records are read as nulls\)",
        text,
    ), text
    assert text.isprintable()
    assert line == [result.frame[0] + "texts", result.frame[1]]
    assert list((apps.folder / "out").iterdir()) == []


def test_a_failing_sink_function_leaves_a_checkpoint_to_continue_from(apps: Apps) -> None:
    save = 'def save(rows, checkpoint_id):\n    raise ConnectionError("the database is down")  # here\n\n'
    body = 'numbers(env).sink_to(ForeachBatchSink(save)).uid("saved")\nenv.execute("prices")\n'

    result = apps.run(body, "--checkpoint-dir", f"{apps.folder}/checkpoints", before=save)

    _, text, *line, kept, record = result.err.splitlines()
    (checkpoint,) = (apps.folder / "checkpoints").glob("*/chk-1")
    assert result.code == 1
    assert re.fullmatch(
        r"flykka: JobExecutionError: job 'prices' failed: ConnectionError: operator 'saved' \(\S+\), its function for"
        r" the rows of checkpoint 1: the database is down",
        text,
    ), text
    assert line == [result.frame[0] + "save", result.frame[1]]
    assert kept == f"retained checkpoint: {checkpoint} (continue with from_checkpoint(...) or --from-checkpoint)"
    assert record.startswith(f"flight record: {checkpoint.parent}/flight-record.trace")


def test_a_checkpoint_of_another_program_is_refused_and_not_deleted(apps: Apps) -> None:
    first = (
        'source = FileSource.parquet(f"{HERE}/in", schema=COLUMNS).monitor_continuously("50ms", until=None)\n'
        'rows = env.from_source(source, TIMES, "numbers", uid="numbers").key_by("id")\n'
        'rows = rows.window(TumblingEventTimeWindows.of("1h")).aggregate(F.count("*").alias("n")).uid("counts")\n'
        'rows.sink_to(FileSink.parquet(f"{HERE}/out")).uid("out")\n'
        'print(env.execute_async("first").stop())\n'
    )
    second = 'env.from_checkpoint("latest")\nnumbers(env).sink_to(FileSink.parquet(f"{HERE}/out")).uid("out")\n'

    result = apps.run(
        f'{first}{second}env.execute("second")  # here\n', "--checkpoint-dir", f"{apps.folder}/checkpoints"
    )

    where, text = result.err.splitlines()
    (checkpoint,) = (apps.folder / "checkpoints").glob("*/chk-1")
    assert (result.code, where) == (1, result.here)
    assert text == (
        f"flykka: CheckpointError: job 'second' cannot continue from '{checkpoint}': it contains state of operators"
        " that the job does not have: 'counts' (aggregate(count(*) AS n)). The job has 'numbers', 'out'; give its"
        " operators their former uids with uid(...), or drop that state with allow_non_restored_state=True"
        " (in `flykka run` --allow-non-restored-state)"
    )
    assert (checkpoint / "_metadata").exists()
    assert {each.name for each in (apps.folder / "checkpoints").iterdir()} == {
        checkpoint.parent.name,
        "runs",
        "archives",
    }


def test_closing_an_environment_of_a_running_job_explains_the_jobs_end(apps: Apps) -> None:
    body = (
        'source = FileSource.parquet(f"{HERE}/in", schema=COLUMNS).monitor_continuously("50ms", until=None)\n'
        'env.from_source(source, TIMES, "numbers", uid="numbers").sink_to(FileSink.parquet(f"{HERE}/out"))\n'
        'client = env.execute_async("endless")\n'
        "env.close()\n"
        "client.wait()  # here\n"
    )

    result = apps.run(body)

    assert (result.code, result.err.splitlines()) == (
        1,
        [
            result.here,
            "flykka: JobExecutionError: job 'endless' was lost with its cluster: ClusterLostError: its cluster was shut"
            " down while it ran, for example by close() of the environment",
        ],
    )


def publish_earlier(apps: Apps) -> None:
    (apps.folder / "out").mkdir()
    file = Path(apps.folder, "in", "a.parquet")
    (apps.folder / "out" / "part-0.parquet").write_bytes(file.read_bytes())
