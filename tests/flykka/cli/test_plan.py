"""`flykka plan`: the drawing of an app, and the message if there is nothing to draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.cli.main import main

APP = """
from pathlib import Path
from pyspark.sql import functions as F
from flykka import ConsoleSink, DataGenSource, StreamExecutionEnvironment

print("said by the app")
with StreamExecutionEnvironment.get_execution_environment() as env:
    numbers = env.from_source(DataGenSource({"n": F.col("index")}, number_of_rows=3), name="numbers", uid="numbers")
    numbers.rebalance().where("n > 1").name("large").sink_to(ConsoleSink()).name("shown").set_parallelism(1)
    try:
        env.execute("large numbers")
    except Exception:
        pass
    Path("ran").touch()
"""

READS_FILES = """
from flykka import ConsoleSink, FileSource, StreamExecutionEnvironment

print("said by the app")
with StreamExecutionEnvironment.get_execution_environment() as env:
    env.from_source(FileSource.json("numbers.json", schema=SCHEMA), uid="numbers").sink_to(ConsoleSink())
    env.execute("numbers")
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    return "app.py"


@pytest.mark.spark
def test_an_app_is_drawn_and_not_run(spark: SparkSession, app: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["plan", app, "--parallelism", "2", "--format", "json"])

    output = capsys.readouterr()
    plan = json.loads(output.out)
    assert code == 0
    assert plan["name"] == "large numbers"
    assert [(node["description"], node["parallelism"]) for node in plan["nodes"]] == [
        ("Source: numbers", 2),
        ("large", 2),
        ("Sink: shown", 1),
    ]
    assert [edge["ship_strategy"] for edge in plan["execution_graph"]["edges"]] == ["REBALANCE", "REBALANCE"]
    assert "said by the app" in output.err
    assert not Path("ran").exists()


@pytest.mark.spark
def test_a_plan_can_be_written_to_a_file(spark: SparkSession, app: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["plan", app, "--format", "html", "--output", "plan.html"])

    assert (code, capsys.readouterr().out) == (0, "")
    assert "large numbers" in Path("plan.html").read_text()


@pytest.mark.spark
def test_a_plan_that_cannot_be_written_names_the_file(
    spark: SparkSession, app: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["plan", app, "--graph", "job", "--output", "nowhere/plan.txt"])

    assert code == 1
    assert capsys.readouterr().err.endswith("flykka: nowhere/plan.txt cannot be written: No such file or directory\n")


@pytest.mark.spark
@pytest.mark.parametrize(("schema", "is_kept"), [("'n long'", True), ("None", False)], ids=["declared", "inferred"])
def test_a_plan_is_cached_unless_spark_has_read_data_for_it(
    schema: str, *, is_kept: bool, spark: SparkSession, app: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("numbers.json").write_text('{"n": 1}')
    Path(app).write_text(READS_FILES.replace("SCHEMA", schema))

    codes = [main(["plan", app, "--graph", "job", *words]) for words in (["--no-cache"], [])]

    output = capsys.readouterr().err
    assert codes == [0, 0]
    assert (f"{app} as seen at" in output) is is_kept
    assert output.count("said by the app") == (1 if is_kept else 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "code", "last_words"),
    [
        ("", 1, "flykka: {app} executes no job: there is no job to inspect"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit()", 1, "flykka: {app} has ended before it executed a job"),
        ("import sys; sys.exit(7)", 7, "flykka: {app} has ended before it executed a job"),
        ("import sys; sys.exit('no input')", 1, "no input"),
        ("raise KeyboardInterrupt", 130, "flykka: interrupted"),
    ],
)
def test_an_app_without_a_job_has_no_plan(
    source: str, code: int, last_words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.py"
    path.write_text(source)

    ended = main(["plan", str(path)])

    captured = capsys.readouterr()
    assert (ended, captured.out) == (code, "")
    assert captured.err.splitlines()[-1] == last_words.format(app=path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.py"], "there is no file nowhere.py"),
        (["app.py", "--format", "svg"], "invalid choice: 'svg'"),
        (["app.py", "--parallelism", "0"], "'0' is not a whole number from 1"),
        (["app.py", "--graf", "job"], "unknown option --graf (did you mean --graph?)"),
    ],
)
def test_an_invalid_command_line_is_refused(
    words: list[str], said: str, app: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["plan", *words])

    assert left.value.code == 2
    assert said in capsys.readouterr().err
