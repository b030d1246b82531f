"""SQL scripts, and statements that are typed on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.api.streams.stream_type import APPEND_ONLY, Changelog
from flykka.api.table.result_table import ROWS_KEPT, ResultTable
from flykka.cli.main import main
from tests.flykka.cli.terminal import Terminal

BID = """
CREATE TABLE bid (auction BIGINT, price DOUBLE) USING datagen
  OPTIONS (number_of_rows 100, fields.auction.minimum 0, fields.auction.maximum 4);
"""


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "bids.sql"
    path.write_text(BID + text)
    return str(path)


@pytest.mark.spark
@pytest.mark.slow
def test_a_script_runs_its_jobs_and_prints_the_rows_of_its_select(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""
    CREATE TABLE out USING parquet OPTIONS (path '{tmp_path}/out');
    SET 'job_name' = 'copied';
    SHOW TABLES;
    INSERT INTO out SELECT * FROM bid WHERE auction < 2;
    SET 'job_name' = 'counted';
    SELECT count(*) AS n FROM bid
    """

    code = main(["sql", script(tmp_path, text), "--no-rest"])

    output = capsys.readouterr().out
    assert code == 0
    assert spark.read.parquet(f"{tmp_path}/out").select("auction").distinct().count() == 2
    said = ["out    parquet", "job 'copied' FINISHED", "result, batch 1: 1 row", "|100|", "job 'counted' FINISHED"]
    places = [output.find(each) for each in said]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.spark
@pytest.mark.slow
def test_an_error_names_its_position_in_the_file_and_ends_the_script(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, "SHOW VIEWS;\nSELECT nope\n  FROM bid;\nSHOW TABLES;")

    code = main(["sql", path, "--no-rest"])

    output = capsys.readouterr()
    assert code == 1
    assert output.out.strip() == "none"
    assert output.err.startswith(
        f"{path}: line 5, column 8: A column, variable, or function parameter with name `nope`"
    )
    assert output.err.splitlines()[1:] == ["  SELECT nope", "         ^"]


@pytest.mark.spark
@pytest.mark.slow
def test_input_without_a_terminal_is_read_as_a_script(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{BID} DESCRIBE bid;"))

    assert main(["sql", "--no-rest"]) == 0
    assert "auction      bigint" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_script_with_windows_line_ends_runs_with_correct_positions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    path = tmp_path / "windows.sql"
    path.write_bytes(f"{BID.lstrip()}DESCRIBE bid;\nDESCRIBE größe;\n".replace("\n", "\r\n").encode(encoding))

    code = main(["sql", str(path), "--no-rest"])

    output = capsys.readouterr()
    assert code == 1
    assert "auction      bigint" in output.out
    assert output.err.startswith(f"{path}: line 4, column ")
    assert output.err.splitlines()[1] == "  DESCRIBE größe;"


def test_a_missing_script_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["sql", "/nowhere/bids.sql"])

    assert left.value.code == 2
    assert "/nowhere/bids.sql cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.integration
def test_the_prompt_shows_changing_rows_and_survives_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    # As in the session of the tests: for a few rows an interpreted plan is faster than a compiled one.
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.sql.codegen.wholeStage false\nspark.sql.codegen.factoryMode NO_CODEGEN\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    terminal = Terminal("-m", "flykka", "sql", "--no-rest", "--master", "local[2]")
    try:
        terminal.read_until("flykka> ")
        terminal.type("CREATE TABLE bid (auction BIGINT, price DOUBLE) USING datagen\n")
        terminal.read_until("      > ")
        terminal.type("OPTIONS (rows_per_second 50, fields.auction.minimum 0, fields.auction.maximum 2);\n")
        terminal.read_until("ok")
        terminal.type("SELECT nope FROM bid;\n")
        terminal.read_until("SqlError: line 1, column 8")
        terminal.type("SELECT auction, count(*) AS n FROM bid GROUP BY auction;\n")
        terminal.read_until("3 rows, ")
        terminal.read_until("changes; running; q ends it")
        terminal.shown = ""
        terminal.type("q")
        terminal.read_until("changes; ended")
        terminal.read_until("flykka> ")
        terminal.shown = ""
        terminal.type("SELECT price FROM bid;\n")
        terminal.read_until("rows; running; q ends it")
        terminal.press_ctrl_c()
        terminal.read_until("rows; ended")
        terminal.read_until("flykka> ")
        terminal.type("quit;\n")
        terminal.read_until(None)
        code = terminal.process.wait(timeout=60)
    finally:
        terminal.close()

    assert code == 0
    assert "SELECT price FROM bid;" in (tmp_path / ".flykka_sql_history").read_text()


def test_upserts_replace_rows_and_deletes_remove_them() -> None:
    table = ResultTable(["id", "n", "row_kind"], Changelog(keys=("id",), row_kind="row_kind"))

    table.add([("1", "a", "+I"), ("2", "b", "+I"), ("3", "c", "+I")], 0)
    table.add([("1", "a", "-U"), ("1", "d", "+U"), ("2", "b", "-D")], 0)

    assert table.shown(10).rows == (("3", "c", "+I"), ("1", "d", "+U"))
    assert (table.shown(10).total, table.shown(10).changes) == (2, 6)
    assert table.shown(1).rows == (("1", "d", "+U"),)


def test_only_the_last_rows_of_an_append_stream_are_shown() -> None:
    table = ResultTable(["id"], APPEND_ONLY)

    table.add([(str(n),) for n in range(ROWS_KEPT)], 5)
    table.add([("last",)], 0)

    shown = table.shown(ROWS_KEPT + 1)
    assert (len(shown.rows), shown.rows[0], shown.rows[-1]) == (ROWS_KEPT, ("1",), ("last",))
    assert (shown.total, shown.changes) == (ROWS_KEPT + 6, ROWS_KEPT + 6)
