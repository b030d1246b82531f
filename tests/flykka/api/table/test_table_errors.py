"""Errors that users get for invalid statements about tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.errors import SqlError
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark

_CSV = "USING csv OPTIONS (path '/x')"
_KAFKA = "USING kafka OPTIONS (kafka.bootstrap.servers 'x', topic 'y', format 'json'"
BAD = {
    "CREATE TABLE x (a INT) USING kafak OPTIONS (a 1)": (1, 30, "unknown connector 'kafak' (did you mean kafka?)"),
    "CREATE TABLE x (a INT) USING kafka OPTIONS (topic 'x')": (1, 30, "'kafka.bootstrap.servers' is missing"),
    f"CREATE TABLE x (a INT) {_KAFKA},\n  stort_from 'latest')": (2, 3, "kafka has no option 'stort_from'; it has"),
    f"CREATE TABLE x (a INT) {_KAFKA},\n  'start_from' 'last')": (
        2,
        3,
        "'start_from' must be earliest, latest, committed",
    ),
    f"CREATE TABLE x (a INT) {_KAFKA}, on_corrupt 'drop')": (1, 100, "is fail, skip or keep, not 'drop'"),
    f"CREATE TABLE x (a INT) {_KAFKA}, idle_timeout '1s')": (1, 100, "needs a watermark"),
    "CREATE TABLE x (a INT) USING csv": (1, 30, "the option 'path' is missing, as in path '/data/orders'"),
    "CREATE TABLE x (a INT) USING csv OPTIONS (path '/x', heder true)": (1, 54, "(did you mean 'header'?)"),
    "CREATE TABLE x (a INT) USING csv OPTIONS (path '/x', files_per_batch 'a')": (1, 54, "is a whole number, not 'a'"),
    "CREATE TABLE x (a INT) USING csv OPTIONS (path '/x', mark_success 'yes')": (1, 54, "is true or false, not 'yes'"),
    "CREATE TABLE x (a INT) USING datagen OPTIONS (number_of_rows 5, fields.b.start 2)": (1, 65, "no column 'b'"),
    "CREATE TABLE x (a INT) USING datagen OPTIONS (number_of_rows 5, fields.a.begin 2)": (1, 65, "not 'begin'"),
    "CREATE TABLE x (a DATE) USING datagen OPTIONS (number_of_rows 5)": (
        1,
        31,
        "values of type date cannot be generated",
    ),
    "CREATE TABLE x (a INT) USING datagen": (1, 30, "a source without an end needs rows_per_second"),
    "CREATE TABLE x (a INT, PRIMARY KEY (b)) USING delta OPTIONS (path '/x')": (
        1,
        24,
        "PRIMARY KEY names b, but the columns of x are a",
    ),
    f"CREATE TABLE x (a INT, PRIMARY KEY (a)) {_CSV}": (1, 24, "PRIMARY KEY has no meaning for csv"),
    f"CREATE TABLE x (a INT, PRIMARY KEY (a)) {_KAFKA})": (1, 24, "format 'debezium-json'"),
    f"CREATE TABLE x (a INT, UNIQUE (a)) {_CSV}": (1, 1, "constraints are not checked"),
    "CREATE TABLE x (a INT) USING print PARTITIONED BY (a)": (1, 36, "PARTITIONED BY has no meaning for print"),
    f"CREATE TABLE x (a INT, WATERMARK FOR a AS a - INTERVAL 1 SECOND) {_CSV}": (1, 43, "a column of type TIMESTAMP"),
    f"CREATE TABLE x (a TIMESTAMP,\n WATERMARK FOR b AS b - INTERVAL 1 SECOND) {_CSV}": (
        2,
        21,
        "but the columns of x are a",
    ),
    f"CREATE TABLE x (a TIMESTAMP, WATERMARK FOR a AS a - INTERVAL 1 MONTH) {_CSV}": (1, 49, "a constant interval of"),
    f"CREATE TABLE x (a TIMESTAMP, WATERMARK FOR a AS a + INTERVAL 1 SECOND) {_CSV}": (1, 49, "the column less a"),
    f"CREATE TABLE x (a TIMESTAMP, WATERMARK FOR a AS a - ) {_CSV}": (1, 52, "Syntax error"),
    f"CREATE TABLE x (a TIMESTAMP, WATERMARK FOR a) {_CSV}": (
        1,
        30,
        "the clause must be written as WATERMARK FOR column AS",
    ),
    f"CREATE TABLE x (a INT, b INT GENERATED ALWAYS AS (a + 1)) {_CSV}": (1, 1, "the column b is GENERATED"),
    f"CREATE TABLE bid (a INT) {_CSV}": (1, 1, "there is already a table or view bid"),
    f"CREATE TABLE shop.x (a INT) {_CSV}": (1, 1, "names of one part, not shop.x"),
    "CREATE TABLE x (a INT)": (1, 1, "CREATE TABLE name (columns) USING connector"),
    f"CREATE TABLE x {_CSV} AS SELECT 1": (1, 1, "declare the table, and INSERT INTO it"),
    f"CREATE TABLE x (a INT) {_CSV} TBLPROPERTIES ('a' = 'b')": (1, 1, "use OPTIONS"),
    "CREATE TEMPORARY TABLE x (a INT) USING csv": (1, 1, "CREATE TABLE name (columns) USING connector"),
    "CREATE VIEW v AS SELECT * FROM bid": (1, 1, "CREATE TEMPORARY VIEW name AS SELECT"),
    "CREATE TEMPORARY VIEW bid AS SELECT * FROM timeless": (1, 1, "CREATE OR REPLACE TEMPORARY VIEW"),
    "CREATE TEMPORARY VIEW v (a, b) AS SELECT price FROM bid": (
        1,
        1,
        "2 column names (a, b) for 1 column of the query: price",
    ),
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN x": (1, 1, "functions belong to this session"),
    "INSERT INTO nope SELECT * FROM bid": (1, 13, "unknown table nope; tables with a sink: counts, out, shown"),
    "INSERT INTO bid SELECT * FROM bid": (1, 13, "bid is a view; INSERT INTO writes to tables"),
    "INSERT INTO made SELECT 1 FROM bid": (1, 13, "made cannot be written: tables USING datagen can only be read"),
    "INSERT INTO out SELECT auction FROM bid": (1, 13, "not enough data columns: Table columns: `auction`, `n`, `s`."),
    "INSERT INTO out SELECT auction, price, channel FROM bid": (1, 13, 'Cannot safely cast `s` "STRING" to "DOUBLE"'),
    "INSERT INTO out (n) SELECT auction, price FROM bid": (1, 13, "1 column name (n) for 2 columns of the query"),
    "INSERT INTO out (auction, m) SELECT auction, 1 FROM bid": (1, 13, "Cannot write extra columns `m`"),
    "INSERT OVERWRITE out SELECT auction, 1, 2 FROM bid": (1, 1, "INSERT INTO adds them"),
    "WITH c AS (SELECT 1) INSERT INTO out SELECT * FROM c": (1, 1, "INSERT INTO table WITH name AS"),
    "INSERT INTO out SELECT auction, count(*), 1 FROM bid GROUP BY auction": (1, 13, "rows are upserts by (auction)"),
    "INSERT INTO out SELECT 1, count(*), 1 FROM bid": (1, 13, "the rows are upserts of one row, without a key"),
    "INSERT INTO out SELECT auction, 1, 2 FROM bid\nON CONFLICT DO NOTHING": (
        2,
        1,
        "out, USING parquet, has no key",
    ),
    "INSERT INTO counts SELECT auction, channel, 1 FROM bid ON CONFLICT DO NOTHING LIMIT 1": (
        1,
        56,
        "the clause is the last one of a statement",
    ),
    "INSERT INTO out\nSELECT * FROM nope": (2, 15, "`nope` cannot be found"),
    "INSERT INTO out SELECT auction, 1, price\nFROM bid LIMIT 3": (1, 13, "changes of whole rows"),
    "INSERT INTO out VALUES (1, 2, 3.0)": (1, 13, "the query reads no stream"),
    "SELECT * FROM bid": (1, 1, "this is a query: sql(...) returns the stream"),
    "DELETE FROM out": (1, 1, "this command cannot run on streams; what can run: SELECT, CREATE TABLE"),
    "DROP TABLE nope": (1, 1, "unknown table nope; known: counts, made, out, shown"),
    "DROP TABLE bid": (1, 1, "unknown table bid; known:"),
    "DROP VIEW out": (1, 1, "unknown view out; known: bid, timeless"),
    "DESCRIBE nope": (1, 10, "unknown table or view nope"),
    "EXPLAIN EXTENDED SELECT * FROM bid": (1, 1, "EXPLAIN of streams has no modes"),
    "EXPLAIN DROP TABLE out": (1, 1, "EXPLAIN takes a query or an INSERT INTO"),
    "SET 'parallelism' = 'x'": (1, 5, "parallelism: 'x' is not a whole number from 1"),
    "SET\n'execution.checkpointing.interval' = '1s'": (2, 1, "(did you mean 'checkpoint_interval'?)"),
    "SET x": (1, 1, "write a setting as SET 'key' = 'value'"),
    "EXECUTE STATEMENT SET BEGIN END": (1, 1, "the statement set is empty"),
    "EXECUTE STATEMENT SET BEGIN\n  SELECT 1; END": (2, 3, "a statement set takes INSERT INTO"),
    "DROP TABLE IF EXISTS x; DROP TABLE y": (1, 25, "another one starts here"),
    "": (1, 1, "unexpected empty statement"),
}


@pytest.fixture
def queries(spark: SparkSession, tmp_path: Path) -> Queries:
    queries = Queries(spark)
    queries.execute_sql(f"CREATE TABLE out (auction INT, n BIGINT, s DOUBLE) USING parquet OPTIONS (path '{tmp_path}')")
    queries.execute_sql("CREATE TABLE made (a INT) USING datagen OPTIONS (number_of_rows 5)")
    queries.execute_sql("CREATE TABLE shown (a INT) USING print")
    queries.execute_sql(
        "CREATE TABLE counts (auction BIGINT, channel STRING, n BIGINT, PRIMARY KEY (auction) NOT ENFORCED)"
        f" USING delta OPTIONS (path '{tmp_path}/counts')"
    )
    return queries


@pytest.mark.parametrize("statement", BAD)
def test_an_invalid_statement_is_refused_with_its_line_and_column(queries: Queries, statement: str) -> None:
    before = queries.program.transformations

    with pytest.raises(SqlError) as refused:
        queries.execute_sql(statement)

    assert BAD[statement][2] in str(refused.value)
    assert (refused.value.line, refused.value.column) == BAD[statement][:2]
    if statement:
        assert statement.splitlines()[BAD[statement][0] - 1] == str(refused.value).splitlines()[-2][2:]
    assert queries.program.transformations == before
